"""EngineCore processes whose app is gone: written down while they run, found and ended at the next start.

An app that is killed outright cannot end its EngineCore, which would go on holding the card's memory, and vLLM's
EngineCore does not watch its parent. (prctl's parent-death signal is no way out: it fires when the thread that
started the process ends, and the engine is loaded in a worker thread.)
"""

import json
import multiprocessing
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

FOLDER = "engine-processes"
GRACE_S = 5.0
CLOCK_S = 2.0
"""How far a creation time may seem to move when the system's clock is set."""
TITLE = "VLLM::"
"""How vLLM names its processes, EngineCore and workers."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process, and the app that started it; the times of creation (Unix seconds) make the pids unmistakable."""

    pid: int
    create_time: float
    name: str
    app_pid: int
    app_create_time: float


def children() -> list[psutil.Process]:
    """vLLM's processes below this one, workers included; a new EngineCore has its title only after its imports."""
    new = {process.pid for process in multiprocessing.active_children() if process.name.startswith("EngineCore")}
    found = psutil.Process().children(recursive=True)
    return [process for process in found if process.pid in new or _title(process).startswith(TITLE)]


def _title(process: psutil.Process) -> str:
    """The first word of the command line, which setproctitle replaces; empty for one that just ended."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return ""
    return str(words[0]) if words else ""


def record(processes: Iterable[psutil.Process], records: Path) -> None:
    """Write the processes down as this app's, one file an app."""
    app = psutil.Process()
    orphans = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            title = _title(process)
            name = title if title.startswith(TITLE) else f"{TITLE}EngineCore"
            orphans.append(Orphan(process.pid, process.create_time(), name, app.pid, app.create_time()))
    path = _file(records, app.pid)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([asdict(orphan) for orphan in orphans]), encoding="utf-8")
    draft.replace(path)


def forget(records: Path) -> None:
    """This app's processes have ended: nothing is left to find."""
    _file(records, os.getpid()).unlink(missing_ok=True)


def _file(records: Path, app_pid: int) -> Path:
    return records / FOLDER / f"{app_pid}.json"


def reap(records: Path) -> list[Orphan]:
    """End what apps that are gone left running; returns what was found. Blocks up to 2 x GRACE_S."""
    found: list[Orphan] = []
    for path in sorted((records / FOLDER).glob("*.json")):
        orphans = _read(path)
        if any(_process(orphan.app_pid, orphan.app_create_time) for orphan in orphans):
            continue
        living = {orphan: process for orphan in orphans if (process := _process(orphan.pid, orphan.create_time))}
        end(living.values())
        found += living
        path.unlink(missing_ok=True)
    return found


def _read(path: Path) -> list[Orphan]:
    """The file's processes; none where a crash or another version left something else there."""
    try:
        return [Orphan(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):
        return []


def _process(pid: int, create_time: float) -> psutil.Process | None:
    """The very process, or None: a pid alone may have been given to another since."""
    try:
        process = psutil.Process(pid)
        alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return process if alive and abs(process.create_time() - create_time) < CLOCK_S else None
    except psutil.NoSuchProcess:
        return None


def end(processes: Iterable[psutil.Process]) -> None:
    """Ask the processes to end, then make them. Blocks up to 2 x GRACE_S."""
    remaining = list(processes)
    for act in (psutil.Process.terminate, psutil.Process.kill):
        for process in remaining:
            with suppress(psutil.NoSuchProcess):
                act(process)
        _, remaining = psutil.wait_procs(remaining, timeout=GRACE_S)
