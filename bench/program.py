"""Programs that the bench starts for itself, the app and the server: in a session of their own, ended with all below."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil

from bench.words import refused
from engine.errors import ConfigurationError

POLL_S = 0.2
END_S = 40.0
TAIL = 1500
"""Characters of a failed program's output that are shown."""
ROOT = Path(__file__).parent.parent


def free_port() -> int:
    """A port of this machine's that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Program:
    """A running program; its output goes to a file that is deleted at the end."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.process, self._log = name, process, log

    def failure(self) -> ConfigurationError | None:
        """Why it ended; None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        tail = self._log.read_text(encoding="utf-8", errors="replace")[-TAIL:].strip()
        return refused(
            f"{self.name} 没有启动成功（退出状态 {status}）。它最后的输出：\n{tail}",
            f"{self.name} did not start (exit status {status}); the end of its output is above.",
        )


@asynccontextmanager
async def program(name: str, argv: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[Program]:
    """Start it in the project's folder; at the end SIGTERM, and SIGKILL to what is left after END_S."""
    with tempfile.TemporaryDirectory(prefix="zhida-bench-") as folder:
        log = Path(folder) / "output.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: ASYNC220  # forking takes milliseconds, and nothing is measured yet
                argv, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield Program(name, process, log)
        finally:
            await asyncio.shield(asyncio.to_thread(_end, process))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of it is left."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()


async def until_ok(url: str, running: Program, patience_s: float) -> float:
    """Seconds until GET `url` answers 200. Raises ConfigurationError where the program ends first, or never answers."""
    began = time.perf_counter()
    async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
        while time.perf_counter() - began < patience_s:
            if failure := running.failure():
                raise failure
            with contextlib.suppress(httpx.TransportError):
                if (await http.get(url)).is_success:
                    return time.perf_counter() - began
            await asyncio.sleep(POLL_S)
    raise refused(
        f"{running.name} 在 {patience_s:.0f} 秒内没有就绪。", f"{running.name} was not ready in {patience_s:.0f} s."
    )
