"""The two model hubs: which of them answers first, and which files a model has there.

Hugging Face: GET /api/models/{id}/revision/main?blobs=true, files at /{id}/resolve/{commit}/{path}.
ModelScope: GET /api/v1/models/{id}/repo/files, files at /api/v1/models/{id}/repo?FilePath={path}, as in the
`modelscope` package's hub/api.py and hub/file_download.py.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Literal
from urllib.parse import quote, urlencode

import httpx

from engine.errors import WeightsError
from engine.words import Words

WANTED = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.tiktoken", "merges.txt", "vocab.txt")
AGENT = {"User-Agent": "zhida"}


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file at a hub. `digest` is hex: SHA-256, or the SHA-1 that git gives small files; "" where unknown."""

    path: str
    size: int
    url: str
    digest: str
    kind: Literal["sha256", "git"] = "sha256"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a model consists of at one hub, and the headers that its files ask for."""

    hub: str
    files: tuple[RemoteFile, ...]
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class NoHubAnswers(Exception):
    """No hub answered in time; `words` says what each of them did."""

    def __init__(self, words: Words) -> None:
        super().__init__(words.en)
        self.words = words


class _Refused(Exception):
    """The hub answers, and has no such model for us."""


@dataclass(frozen=True, slots=True)
class _Hub:
    name: str
    list_files: Callable[[str, float], Listing]


def find(model: str, hub: str, within_s: float) -> Listing:
    """The listing of the hub that has `model` and answers first, all asked at the same time.

    Raises WeightsError where the hubs that answer do not have it, NoHubAnswers where none answers in time.
    """
    asked = [candidate for candidate in _HUBS if hub in ("auto", candidate.name)]
    answers: queue.SimpleQueue[tuple[str, Listing | Exception]] = queue.SimpleQueue()
    for candidate in asked:
        # Daemons: a name look-up that hangs must not keep the process from ending.
        threading.Thread(target=_ask, args=(candidate, model, within_s, answers), daemon=True).start()
    deadline = time.monotonic() + within_s
    failures: dict[str, Exception] = {candidate.name: TimeoutError() for candidate in asked}
    for _ in asked:
        try:
            name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(answer, Listing):
            return answer
        failures[name] = answer
    refusing = [name for name, failure in failures.items() if isinstance(failure, _Refused)]
    if refusing:
        raise _not_there(model, refusing)
    raise NoHubAnswers(_silence(failures, within_s))


def _ask(hub: _Hub, model: str, within_s: float, answers: "queue.SimpleQueue[tuple[str, Listing | Exception]]") -> None:
    try:
        answers.put((hub.name, hub.list_files(model, within_s)))
    except Exception as error:  # whatever a stranger's server does is that hub's answer; `find` weighs it
        answers.put((hub.name, error))


def _huggingface(model: str, within_s: float) -> Listing:
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    headers = AGENT | ({"Authorization": f"Bearer {token}"} if token else {})
    answer = httpx.get(
        f"{endpoint}/api/models/{model}/revision/main?blobs=true",
        headers=headers,
        timeout=within_s,
        follow_redirects=True,
    )
    content = _json(answer)
    if answer.status_code in (401, 403, 404) and ("x-error-code" in answer.headers or "error" in content):
        raise _Refused
    answer.raise_for_status()
    files = []
    for entry in content["siblings"]:
        path, large = str(entry["rfilename"]), entry.get("lfs")
        url = f"{endpoint}/{model}/resolve/{content['sha']}/{quote(path)}"
        if large:
            files.append(RemoteFile(path, int(large["size"]), url, str(large["sha256"])))
        else:
            files.append(RemoteFile(path, int(entry["size"]), url, str(entry.get("blobId") or ""), "git"))
    return Listing(endpoint, _wanted(files), headers)


def _modelscope(model: str, within_s: float) -> Listing:
    domain = os.environ.get("MODELSCOPE_DOMAIN") or "www.modelscope.cn"
    endpoint = domain.rstrip("/") if "://" in domain else f"https://{domain}"
    root = f"{endpoint}/api/v1/models/{model}/repo"
    answer = httpx.get(
        f"{root}/files?Revision=master&Recursive=true", headers=AGENT, timeout=within_s, follow_redirects=True
    )
    content = _json(answer)
    if "Code" in content and content["Code"] != 200 and answer.status_code < 500:
        raise _Refused
    answer.raise_for_status()
    files = [
        RemoteFile(
            str(entry["Path"]),
            int(entry["Size"]),
            f"{root}?{urlencode({'Revision': 'master', 'FilePath': entry['Path']})}",
            str(entry.get("Sha256") or ""),
        )
        for entry in content["Data"]["Files"]
        if entry["Type"] == "blob"
    ]
    return Listing(endpoint, _wanted(files), AGENT)


_HUBS = (_Hub("huggingface", _huggingface), _Hub("modelscope", _modelscope))


def _json(answer: httpx.Response) -> dict[str, Any]:
    """The body as an object; {} for anything else, such as a proxy's page."""
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _wanted(files: list[RemoteFile]) -> tuple[RemoteFile, ...]:
    """What loading needs: files of the top folder only, the small ones first."""
    kept = [file for file in files if "/" not in file.path and any(fnmatch(file.path, wanted) for wanted in WANTED)]
    return tuple(sorted(kept, key=lambda file: file.size))


def _not_there(model: str, hubs: list[str]) -> WeightsError:
    names = " / ".join(hubs)
    return WeightsError(
        Words(
            f"{names} 上没有模型 {model}，或无权访问：请检查 ENGINE_MODEL 的拼写；"
            "受限的模型请设置 HF_TOKEN，或下载后填本地文件夹。",
            f"{names} has no model {model}, or denies access: check ENGINE_MODEL's spelling; "
            "for a gated model set HF_TOKEN, or download it and give the folder.",
        )
    )


def _silence(failures: dict[str, Exception], within_s: float) -> Words:
    said = [(name, *_reason(failure)) for name, failure in failures.items()]
    zh = "；".join(f"{name} {reason}" for name, reason, _ in said)
    en = "; ".join(f"{name} {reason}" for name, _, reason in said)
    return Words(f"{within_s:g} 秒内没有模型仓库应答（{zh}）", f"no model hub answered within {within_s:g} s ({en})")


def _reason(failure: Exception) -> tuple[str, str]:
    if isinstance(failure, TimeoutError | httpx.TimeoutException):
        return "超时", "timed out"
    if isinstance(failure, httpx.HTTPStatusError):
        status = failure.response.status_code
        return f"返回 {status}", f"answered {status}"
    if isinstance(failure, httpx.TransportError):
        return "连接不上", "cannot be reached"
    return "应答异常", "answered nonsense"
