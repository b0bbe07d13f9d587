"""The app that is measured: one that runs already, or one started with the present settings."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from bench.program import POLL_S, free_port, program, until_ok
from bench.words import refused, say

PATIENCE_S = 1800.0
"""A first start downloads the weights."""
CONFUSING = ("CI", "DEBUG", "HEADLESS", "NO_CACHE", "WATCH")
"""Chainlit's command line reads these too."""


@dataclass(frozen=True, slots=True)
class Target:
    """An app that answers; `pid` and `load_s` (process start to ready) where the bench has started it itself."""

    url: str
    model: str
    pid: int | None = None
    load_s: float | None = None


@asynccontextmanager
async def started() -> AsyncIterator[Target]:
    """`chainlit run app.py` on a free port, until the end. Raises ConfigurationError."""
    port = free_port()
    argv = [sys.executable, "-m", "chainlit", "run", "app.py", "--headless", "--port", str(port)]
    began = time.perf_counter()
    async with program("应用", argv, dict.fromkeys(CONFUSING, "")) as running:
        await until_ok(f"http://127.0.0.1:{port}/health/live", running, PATIENCE_S)
        model = await ready(f"http://127.0.0.1:{port}")
        yield Target(f"http://127.0.0.1:{port}", model, running.process.pid, time.perf_counter() - began)


@asynccontextmanager
async def found(url: str) -> AsyncIterator[Target]:
    """The app at `url`. Raises ConfigurationError where there is none, or its engine is dead."""
    yield Target(url.rstrip("/"), await ready(url.rstrip("/")))


async def ready(url: str) -> str:
    """Wait until the app at `url` answers questions; returns its model's name. Raises ConfigurationError."""
    waiting = False
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        while True:
            state = await _readiness(http, url)
            if state["state"] == "ready":
                return str(state["model"])
            if state["state"] == "dead":
                raise refused(f"{url} 的引擎已停止：{state['message']['zh']}", f"The engine at {url} has stopped.")
            if not waiting:
                say("等待应用的模型加载……")
                waiting = True
            await asyncio.sleep(POLL_S)


async def _readiness(http: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """The JSON of /health/ready."""
    try:
        reply = (await http.get(f"{url}/health/ready")).json()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise refused(
            f"{url} 上没有运行中的应用。请先 make run，或用 --start 让压测自己启动。",
            f"No app runs at {url}. Run make run first, or let the bench start one with --start.",
        ) from error
    except ValueError:  # not JSON
        reply = None
    if not isinstance(reply, dict) or "state" not in reply:
        raise refused(f"{url} 不是知答。请检查 --url。", f"What answers at {url} is not Zhida. See to --url.")
    return reply
