"""The doctor's look at drivers: which build they allow, which one is installed, and what would lift a limit."""

import sys
from collections.abc import Iterator
from pathlib import Path

from engine import driver, installed
from engine.hardware import Card
from engine.preflight import build_for, installed_vllm, unfit_driver
from engine.report import Line, Problem


def lines(card: Card | None) -> list[Line]:
    """The installed lock, what the driver allows and why, and the V100's server."""
    found: list[Line] = [("安装", _lock())]
    if card is None:
        return found
    build = build_for(card)
    found.append(("驱动", build.reason.zh))
    if installed.kind() == driver.CUDA_12 and build.kind == driver.GPU:
        found.append(("可以更新", "现在装的是 CUDA 12 版；要换成 CUDA 13 版：make install KIND=auto"))
    if build.kind == driver.V100:
        found.append(("V100 的服务", _server()))
    return found


def problems(card: Card) -> Iterator[Problem]:
    """A driver that the installed vLLM cannot run on, with the one that it can and what else would do."""
    version, is_cpu_build = installed_vllm()
    if not is_cpu_build and (words := unfit_driver(card, version)):
        yield Problem(words)


def _lock() -> str:
    kind = installed.kind()
    if kind is None:
        return f"不是 make install 装的（{sys.prefix}）"
    asked = "，按要求" if installed.record(Path(sys.prefix))["asked"] else ""
    return f"{installed.LOCKS[kind]}（{installed.NAMES[kind]}{asked}）"


def _server() -> str:
    if installed.server_python():
        return "已装在 .venv-server；启动：make serve，再在 .env 写 ENGINE_BASE_URL=http://127.0.0.1:8001/v1。没有在 V100 上实测过"
    return "还没有安装：make install（需要 Python 3.10–3.12）。没有在 V100 上实测过"
