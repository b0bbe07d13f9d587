"""The app as its users run it: `chainlit run app.py` in a process of its own, in a copy of the tree."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

ROOT = Path(__file__).parent.parent
PARTS = (
    "app.py",
    "assistant",
    "engine",
    "knowledge",
    "public",
    ".chainlit",
    "chainlit.md",
    "chainlit_zh-CN.md",
    "chainlit_en-US.md",
)
OWN_PREFIXES = (
    "ENGINE_",
    "KNOWLEDGE_",
    "DESK_",
    "CHAINLIT_",
    "DATA_DIR",
    "CI",
    "HEADLESS",
    "WATCH",
    "DEBUG",
    "NO_CACHE",
)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def copy_tree(folder: Path) -> Path:
    """What the app consists of, copied, so that nothing is written into the project's own tree."""
    for part in PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return folder


class AppServer:
    """A running app; as a context manager it is ended by SIGTERM."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str] | None = None,
        *,
        watch: bool = False,
        script: bool = False,
        **settings: str,
    ) -> None:
        """`folder` gets a copy of the tree; `env` and `settings` are its environment; `script` starts it by the
        `chainlit` console script."""
        self.folder = folder if (folder / "app.py").exists() else copy_tree(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "app.log"
        outside = {name: value for name, value in os.environ.items() if not name.startswith(OWN_PREFIXES)}
        self.env = {**outside, "PYTHONUNBUFFERED": "1", **(env or {}), **settings}
        program = [str(Path(sys.executable).with_name("chainlit"))] if script else [sys.executable, "-m", "chainlit"]
        self.command = [*program, "run", "app.py", "--headless", "--port", str(self.port), *(["-w"] if watch else [])]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until the page is there."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_for("/health/live", 200, 60)
        return self

    @property
    def pid(self) -> int:
        """The app's process id."""
        assert self.process
        return self.process.pid

    def get(self, path: str) -> httpx.Response:
        """One GET from the app."""
        return httpx.get(self.url + path, timeout=5, trust_env=False)

    def readiness(self) -> dict[str, Any]:
        """The JSON of /health/ready."""
        found: dict[str, Any] = self.get("/health/ready").json()
        return found

    def wait_for(self, path: str, status: int, timeout_s: float) -> None:
        """Poll until `path` answers `status`. Raises TimeoutError with the end of the log."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:
                if self.get(path).status_code == status:
                    return
            except httpx.TransportError:
                pass
            if self.process and self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise TimeoutError(f"{path} did not answer {status}\n{self.tail()}")

    def ready(self, timeout_s: float = 180) -> Self:
        """Wait until questions are answered."""
        self.wait_for("/health/ready", 200, timeout_s)
        return self

    def metric(self, name: str) -> float:
        """A sample of /metrics, by its full name with labels; 0 where it has not been counted yet."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def cores(self) -> list[psutil.Process]:
        """The vLLM processes below this app."""
        try:
            return [child for child in psutil.Process(self.pid).children(recursive=True) if "VLLM" in _title(child)]
        except psutil.NoSuchProcess:
            return []

    def tail(self) -> str:
        """The end of the console's output."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def stop(self, how: int = signal.SIGTERM, timeout_s: float = 30) -> int:
        """Send a signal, wait for the end; returns the exit status."""
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        family = [psutil.Process(self.pid), *self.cores()] if psutil.pid_exists(self.pid) else []
        try:
            self.stop()
        finally:
            for process in family:
                if process.is_running():
                    process.kill()


def _title(process: psutil.Process) -> str:
    try:
        return f"{' '.join(process.cmdline())} {process.name()}"
    except psutil.Error:
        return ""
