"""What `make install` has put where: the kinds of environment, their locks, and the records it leaves.

Standard library only: install.py imports it before anything is installed.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine import driver
from engine.words import Words

ROOT = Path(__file__).resolve().parents[1]
APP, SERVER_FOLDER = ROOT / ".venv", ROOT / ".venv-server"
REMOTE, SERVER = "remote", "server"
LOCKS = {
    driver.GPU: "requirements.txt",
    driver.CUDA_12: "requirements-cuda12.txt",
    driver.V100: "requirements-remote.txt",
    driver.CPU: "requirements-cpu.txt",
    REMOTE: "requirements-remote.txt",
    SERVER: "requirements-v100.txt",
}
NAMES = {
    driver.GPU: "NVIDIA 显卡版，CUDA 13",
    driver.CUDA_12: "NVIDIA 显卡版，CUDA 12",
    driver.V100: "V100 的界面部分",
    driver.CPU: "CPU 版",
    REMOTE: "远端引擎版",
    SERVER: "V100 的模型服务",
}


NEWER = Words(
    "显卡驱动已能运行 CUDA 13 版（vLLM 0.29）。现在的环境照常可用；要换：make install KIND=auto（重装，约下载 5 GB）。",
    "The driver now runs the CUDA 13 build (vLLM 0.29). To change over: make install KIND=auto (about 5 GB anew).",
)
KEPT = Words(
    "已安装的显卡版保留不动；确实要改用 CPU：make install KIND=cpu。",
    "What is installed stays; to change to the CPU: make install KIND=cpu.",
)
UNCLEAR = Words(
    "请先修好显卡驱动（常见的是升级后没有重启）；或指明装哪一种：make install KIND=cpu 只用 CPU，KIND=gpu（驱动 580 或更新）、"
    "KIND=cuda12（525 或更新）、KIND=v100 用显卡。",
    "See to the driver (often: not rebooted after an upgrade); or say what to install: make install KIND=cpu, KIND=gpu "
    "(driver 580 or newer), KIND=cuda12 (525 or newer), KIND=v100.",
)


def digest(lock: str) -> str:
    """sha256 of a lock file."""
    return hashlib.sha256((ROOT / lock).read_bytes()).hexdigest()


def pythons(kind: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The oldest version of Python for a kind, and the first that is too new: vLLM 0.10.1.1 has no 3.13."""
    return ((3, 10), (3, 13)) if kind == SERVER else ((3, 11), (3, 14))


def is_right(python: str, kind: str, *modules: str) -> bool:
    """Whether it runs, is of a version that will do for `kind`, and has the modules."""
    oldest, too_new = pythons(kind)
    code = f"import {', '.join(('sys', *modules))}; sys.exit(not {oldest} <= sys.version_info < {too_new})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def record(folder: Path) -> dict[str, Any]:
    """What an environment holds: its kind, whether that was asked for, its folder, the digest of each lock wholly in."""
    try:
        found = json.loads((folder / "installed.json").read_text())
    except (OSError, ValueError):
        found = {}
    asked = found.get("kind") == REMOTE  # the first release asked for nothing else, and did not write it down
    return {"kind": None, "asked": asked, "folder": str(folder), "locks": {}, **found}


def kind() -> str | None:
    """Of the environment that runs this; None where `make install` did not make it."""
    found = record(Path(sys.prefix))["kind"]
    return found if found in LOCKS else None


def server_python() -> Path | None:
    """The Python of the V100's server, where all of it is installed."""
    python = SERVER_FOLDER / "bin" / "python"
    return python if LOCKS[SERVER] in record(SERVER_FOLDER)["locks"] and python.exists() else None
