"""The three engines under one suite: how each is started for it, and how each is killed."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine import orphans
from engine.base import Engine
from engine.inprocess import InProcessEngine
from engine.profiles import load_profiles
from engine.scripted import ScriptedEngine
from engine.server import ServerEngine
from engine.weights import ModelFolder
from tests.tiny_model import LOOP

ROOT = Path(__file__).parents[2]
WINDOW = 1024
SCRIPT = f"""
[engine]
window = {WINDOW}
tokens_a_character = 1.0
[[rules]]
match = "先空后说"
pieces = ["", "", "说"]
[[rules]]
text = '''{LOOP.strip() * 40}'''
characters_a_delta = 1
delay_s = 0.002
"""


@dataclass(frozen=True, slots=True)
class Backend:
    """A ready engine, and what a crash of it would do."""

    engine: Engine
    kill: Callable[[], None]


def kill_cores(process: psutil.Process) -> None:
    """SIGKILL the EngineCore processes below `process`."""
    for core in process.children(recursive=True):
        if core.cmdline()[:1] == ["VLLM::EngineCore"]:
            core.kill()


@asynccontextmanager
async def scripted(model: Path, scratch: Path) -> AsyncIterator[Backend]:
    """ScriptedEngine over SCRIPT."""
    script = scratch / "script.toml"
    script.write_text(SCRIPT, encoding="utf-8")
    engine = ScriptedEngine(script)
    await engine.start(lambda loading: None)
    yield Backend(engine, engine.die)
    await engine.stop()


@asynccontextmanager
async def in_process(model: Path, scratch: Path) -> AsyncIterator[Backend]:
    """InProcessEngine on the tiny model."""
    engine = tiny_engine(model, scratch / "records")
    await engine.start(lambda loading: None)
    yield Backend(engine, lambda: kill_cores(psutil.Process()))
    await engine.stop()


def tiny_engine(model: Path, records: Path) -> InProcessEngine:
    """Not started yet; with a KV cache of 1 GiB, since tests share the machine."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return InProcessEngine(ModelFolder(model, "tiny", is_demo=False), load_profiles()["cpu"], WINDOW, records)


@asynccontextmanager
async def server(model: Path, scratch: Path) -> AsyncIterator[Backend]:
    """ServerEngine in front of `python -m engine.serve`."""
    port = free_port()
    process = subprocess.Popen(  # noqa: ASYNC220  (a test may take the moment)
        [sys.executable, "-m", "engine.serve", "--profile", "cpu", "--port", str(port)],
        cwd=ROOT, env=serve_environment(model), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    engine = ServerEngine(f"http://127.0.0.1:{port}/v1", "secret", WINDOW)
    starting = asyncio.create_task(engine.start(lambda loading: None))
    watching = asyncio.create_task(asyncio.to_thread(process.wait))
    try:
        await asyncio.wait([starting, watching], return_when=asyncio.FIRST_COMPLETED)
        assert starting.done(), "the server ended before it was ready"
        await starting
        yield Backend(engine, lambda: kill_cores(psutil.Process(process.pid)))
    finally:
        await engine.stop()
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid)
            await asyncio.to_thread(orphans.end, [*family.children(recursive=True), family])
        await watching


def serve_environment(model: Path) -> dict[str, str]:
    """The settings for `engine.serve` on the tiny model."""
    ours = {
        "ENGINE_MODEL": str(model), "ENGINE_MAX_MODEL_LEN": str(WINDOW), "ENGINE_API_KEY": "secret",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }  # fmt: skip
    return os.environ | ours


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


BACKENDS = {"scripted": scripted, "server": server, "inprocess": in_process}
