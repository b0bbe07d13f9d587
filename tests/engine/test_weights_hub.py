"""A hub id as ENGINE_MODEL: from the cache, from the hub that answers first, resumed, or replaced by the demo model."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from engine import cache as cache_module
from engine import download as download_module
from engine.demo import QWEN
from engine.errors import WeightsError
from engine.weights import ModelFolder, resolve
from tests.engine.weights_support import COMMIT, MODEL, FakeHub, Steps, model_files, write_files

WEIGHTS = "model.safetensors"
PROJECT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """Both hubs on localhost, and a home without any cache."""
    server = FakeHub(files=model_files() | {"README.md": b"# ERNIE", "config.py": b"", "figures/a.json": b"{}"})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("MODELSCOPE_DOMAIN", server.url)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # should a test come to the demo model by mistake
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    for name in (
        "HF_HOME",
        "HF_HUB_CACHE",
        "MODELSCOPE_CACHE",
        "XDG_CACHE_HOME",
        "HF_TOKEN",
        "HF_HUB_OFFLINE",
        "HF_HUB_DISABLE_TELEMETRY",
    ):
        monkeypatch.setenv(name, "")
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The cache folder of a test."""
    return tmp_path / "cache"


def fetch(cache: Path, hub: str = "auto", steps: Steps | None = None, within_s: float = 20) -> ModelFolder:
    """Resolve MODEL; by default with patience enough for a busy machine."""
    return resolve(MODEL, hub, steps or Steps(), cache, answer_within_s=within_s)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of `folder`."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["huggingface", "modelscope"])
def test_download(cache: Path, hub: FakeHub, name: str) -> None:
    """From either hub come exactly the files that loading needs, with progress up to the end."""
    steps = Steps()
    folder = fetch(cache, name, steps)
    assert folder == ModelFolder(cache / "models" / MODEL, MODEL, is_demo=False)
    assert contents(folder.path) == model_files()
    assert steps.fractions == sorted(steps.fractions)
    assert (steps.fractions[0], steps.fractions[-1]) == (0.0, 1.0)
    assert "从 127.0.0.1 下载模型" in steps.text


@pytest.mark.parametrize("silent", ["huggingface", "modelscope"])
def test_auto_takes_the_hub_that_answers(cache: Path, hub: FakeHub, silent: str) -> None:
    """While one hub is silent, the other one's answer is used; both were asked."""
    hub.silent = {silent}
    assert contents(fetch(cache).path) == model_files()
    source = "/repo?" if silent == "huggingface" else "/resolve/"
    assert all(source in path for path, _ in hub.asked if path.endswith(WEIGHTS))


def test_model_of_one_hub_only(cache: Path, hub: FakeHub) -> None:
    """A hub that has no such model does not hide the other one that has."""
    hub.without = {"huggingface"}
    assert contents(fetch(cache).path) == model_files()


def test_cached_model_needs_no_hub(cache: Path, hub: FakeHub) -> None:
    """Once complete in the cache, no hub is asked again."""
    first = fetch(cache)
    asked = len(hub.asked)
    assert fetch(cache) == first
    assert len(hub.asked) == asked


def test_cut_download_goes_on(cache: Path, hub: FakeHub) -> None:
    """A connection that breaks in mid-file is taken up again at that byte, within the same start."""
    hub.cut = {WEIGHTS: 100_000}
    assert contents(fetch(cache).path) == model_files()
    assert hub.downloads(WEIGHTS) == [None, "bytes=100000-"]


def test_server_without_ranges(cache: Path, hub: FakeHub) -> None:
    """A server that sends the whole file again does not spoil what is put together."""
    hub.cut, hub.ignore_range = {WEIGHTS: 100_000}, True
    assert contents(fetch(cache).path) == model_files()
    assert len(hub.downloads(WEIGHTS)) == 2


def test_broken_off_download_is_picked_up_by_the_next_start(
    cache: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After giving up, what has arrived is kept but not trusted, and the next start fetches the rest only."""
    monkeypatch.setattr(download_module, "PAUSE_S", 0.001)
    hub.dead = {WEIGHTS}
    with pytest.raises(WeightsError, match="连接一再中断：已下载的部分会保留"):
        fetch(cache, "huggingface")
    assert not (cache / "models" / MODEL).exists()
    small = hub.downloads("tokenizer.json")
    hub.dead = set()
    assert contents(fetch(cache, "huggingface").path) == model_files()
    assert hub.downloads("tokenizer.json") == small


@pytest.mark.parametrize("name", ["huggingface", "modelscope"])
@pytest.mark.parametrize("file", [WEIGHTS, "config.json"])
def test_wrong_bytes_are_thrown_away(cache: Path, hub: FakeHub, name: str, file: str) -> None:
    """Bytes of the right number and the wrong digest lying in the cache are fetched again."""
    right = hub.files[file]
    partial = write_files(cache / "partial" / MODEL, {f"{file}.part": bytes(len(right))})
    assert contents(fetch(cache, name).path) == model_files()
    assert not partial.exists()


def test_hub_that_sends_wrong_bytes(cache: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose digest stays wrong is refused, and nothing of it is kept."""
    send = hub._send
    monkeypatch.setattr(hub, "_send", lambda name, content, request: send(name, content[::-1], request))
    with pytest.raises(WeightsError, match="校验不符，已丢弃"):
        fetch(cache, "huggingface")
    assert list((cache / "partial" / MODEL).iterdir()) == []


def test_unknown_model(cache: Path, hub: FakeHub) -> None:
    """A model that no hub has is an error naming it; no demo model takes its place."""
    hub.without = {"huggingface", "modelscope"}
    with pytest.raises(WeightsError, match=f"没有模型 {MODEL}"):
        fetch(cache)


def test_gated_model(cache: Path, hub: FakeHub) -> None:
    """A hub that refuses the files is answered with HF_TOKEN."""
    hub.denied = {WEIGHTS}
    with pytest.raises(WeightsError, match="设置 HF_TOKEN"):
        fetch(cache, "huggingface")


def test_model_without_safetensors(cache: Path, hub: FakeHub) -> None:
    """A model in another format is refused before anything is downloaded."""
    hub.files = {"config.json": b"{}", "model.gguf": b"GGUF"}
    with pytest.raises(WeightsError, match="没有 safetensors"):
        fetch(cache)
    assert not (cache / "partial").exists()


def test_silent_hubs_lead_to_the_demo_model(cache: Path, hub: FakeHub) -> None:
    """When no hub answers in time, the demo model is used, and the reason is told."""
    ready = write_files(cache / "demo" / QWEN.name, model_files(10))
    hub.silent = {"huggingface", "modelscope"}
    steps = Steps()
    assert fetch(cache, steps=steps, within_s=0.5) == ModelFolder(ready, QWEN.title, is_demo=True)
    assert "0.5 秒内没有模型仓库应答（huggingface 超时；modelscope 超时），改用演示模型" in steps.text


def test_unreachable_hub_leads_to_the_demo_model(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that cannot be reached is not waited for; one chosen by name is the only one tried."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MODELSCOPE_DOMAIN", f"http://127.0.0.1:{closed.getsockname()[1]}")
        write_files(cache / "demo" / QWEN.name, model_files(10))
        steps = Steps()
        assert fetch(cache, "modelscope", steps, within_s=600).is_demo
    assert "（modelscope 连接不上）" in steps.text


def test_page_of_a_proxy_is_no_answer(cache: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's own page, whatever its status, counts as silence."""
    write_files(cache / "demo" / QWEN.name, model_files(10))
    monkeypatch.setattr(hub, "_list", lambda name, request: hub._reply(request, 403, b"<html>", "text/html"))
    steps = Steps()
    assert fetch(cache, steps=steps).is_demo
    assert "huggingface 返回 403" in steps.text


def test_damaged_model_is_mended(cache: Path, hub: FakeHub) -> None:
    """A file truncated after the model was complete is noticed, and it alone is fetched again."""
    folder = fetch(cache).path
    hub.asked.clear()
    os.truncate(folder / WEIGHTS, 1000)
    assert contents(fetch(cache).path) == model_files()
    assert (len(hub.downloads(WEIGHTS)), hub.downloads("tokenizer.json")) == (1, [])


def test_file_of_an_older_version_is_left_out(cache: Path, hub: FakeHub) -> None:
    """What the model no longer consists of does not get into the folder."""
    write_files(cache / "partial" / MODEL, {"model-00001-of-00002.safetensors": b"old"})
    assert contents(fetch(cache).path) == model_files()


def test_too_little_space_is_said_before_anything_is_written(
    cache: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needed and free space are named in GiB, and no file is asked for."""
    full = shutil.disk_usage("/")._replace(free=300 * 1024**2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    monkeypatch.setattr(cache_module, "SPARE_BYTES", 1024**3)
    with pytest.raises(WeightsError, match=r"需要 1\.00 GiB，.*只剩 0\.29 GiB。请清理磁盘"):
        fetch(cache)
    assert hub.downloads(WEIGHTS) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_disk_that_fills_up(cache: Path) -> None:
    """The real error of a full disk, in mid-download, becomes one sentence."""
    partial = cache / "partial" / MODEL
    partial.mkdir(parents=True)
    (partial / f"{WEIGHTS}.part").symlink_to("/dev/full")
    with pytest.raises(WeightsError, match=r"磁盘空间不足：需要 .* GiB"):
        fetch(cache)


def test_folder_that_may_not_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that refuses writing is named, with XDG_CACHE_HOME as the way out."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(WeightsError, match=r"无法写入缓存文件夹 .*XDG_CACHE_HOME"):
        fetch(cache)


class Kept(NamedTuple):
    """Where another tool keeps models, below the home folder."""

    folder: str
    extra: dict[str, str]


OTHER_TOOLS = {
    "huggingface": Kept(
        f".cache/huggingface/hub/models--baidu--ERNIE-4.5-0.3B-PT/snapshots/{COMMIT}",
        {".cache/huggingface/hub/models--baidu--ERNIE-4.5-0.3B-PT/refs/main": COMMIT},
    ),
    "modelscope": Kept(".cache/modelscope/hub/models/baidu/ERNIE-4___5-0___3B-PT", {}),
}


@pytest.mark.parametrize("tool", OTHER_TOOLS)
def test_model_that_another_tool_fetched(cache: Path, hub: FakeHub, tmp_path: Path, tool: str) -> None:
    """A model complete in a hub's own cache is used where it lies, and no hub is asked."""
    home, kept = tmp_path / "home", OTHER_TOOLS[tool]
    for path, content in kept.extra.items():
        write_files((home / path).parent, {Path(path).name: content.encode()})
    folder = write_files(home / kept.folder, model_files(10))
    assert fetch(cache) == ModelFolder(folder, MODEL, is_demo=False)
    assert hub.asked == []


def test_half_done_download_of_another_tool(cache: Path, tmp_path: Path) -> None:
    """A Hugging Face cache with a download under way is not trusted."""
    home, kept = tmp_path / "home", OTHER_TOOLS["huggingface"]
    repository = home / Path(kept.folder).parents[1]
    write_files(repository / "refs", {"main": COMMIT.encode()})
    write_files(repository / "blobs", {"1234.incomplete": b""})
    write_files(home / kept.folder, model_files(10))
    assert fetch(cache).path == cache / "models" / MODEL


class Other:
    """`python -m engine.weights` in a process of its own, over the cache in `home`."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-m", "engine.weights", "--model", MODEL, "--hub", "huggingface"]
        environment = os.environ | {"XDG_CACHE_HOME": str(home)}
        self.process = subprocess.Popen(
            command, cwd=PROJECT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __enter__(self) -> "Other":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def says(self, words: str) -> str:
        """Wait for a line of progress with `words` in it."""
        assert self.process.stderr
        return next(line for line in self.process.stderr if words in line)


def wait_for_bytes(path: Path) -> None:
    """Until something has been written to `path`."""
    while not path.exists() or not path.stat().st_size:
        time.sleep(0.01)


def test_second_process_waits(tmp_path: Path, hub: FakeHub) -> None:
    """Of two processes started together one downloads, the other says that it waits, and both get the model."""
    hub.gate = threading.Event()
    with Other(tmp_path) as first:
        assert hub.half_way.wait(60)
        with Other(tmp_path) as second:
            assert second.says("另一个进程正在准备模型文件")
            hub.gate.set()
            ends = [process.communicate()[0] for process in (first.process, second.process)]
    assert all(str(tmp_path / "zhida" / "models" / MODEL) in end for end in ends)
    assert len(hub.downloads(WEIGHTS)) == 1


def test_killed_process_lets_go(tmp_path: Path, hub: FakeHub) -> None:
    """After SIGKILL in mid-download the next start does not wait, and fetches only what is missing."""
    hub.gate = threading.Event()
    with Other(tmp_path) as first:
        assert hub.half_way.wait(60)
        part = tmp_path / "zhida" / "partial" / MODEL / f"{WEIGHTS}.part"
        wait_for_bytes(part)
        first.process.kill()
        first.process.wait()
    hub.gate.set()
    have = part.stat().st_size
    steps = Steps()
    assert contents(fetch(tmp_path / "zhida", "huggingface", steps).path) == model_files()
    assert hub.downloads(WEIGHTS) == [None, f"bytes={have}-"]
    assert "另一个进程" not in steps.text
