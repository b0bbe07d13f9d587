"""Memory and GPU use while a level runs, looked at from a thread of its own."""

import threading
from dataclasses import dataclass
from statistics import fmean
from types import TracebackType
from typing import Self

import psutil

from engine.gpu_use import Gpu
from engine.hardware import MIB

PERIOD_S = 0.25


@dataclass(frozen=True, slots=True)
class Resources:
    """None where it cannot be seen from here. Most of memory in MiB; the GPU's is all that is used on the card."""

    gpu_mib: float | None = None
    gpu_use: float | None = None
    """Mean share of the time in which the GPU computed, 0 to 1."""
    ram_mib: float | None = None
    """Resident memory of the process watched and all below it."""


class Watch:
    """Samples every PERIOD_S from enter to exit; `pid` of the process whose memory counts, None where it is elsewhere."""

    def __init__(self, pid: int | None) -> None:
        self._pid, self._gpu = pid, Gpu()
        self._gpu_mib: list[float] = []
        self._gpu_use: list[float] = []
        self._ram_mib: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-watch", daemon=True)

    @property
    def resources(self) -> Resources:
        """What has been seen so far."""
        return Resources(
            gpu_mib=max(self._gpu_mib, default=None),
            gpu_use=fmean(self._gpu_use) if self._gpu_use else None,
            ram_mib=max(self._ram_mib, default=None),
        )

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            self._look()

    def _look(self) -> None:
        if self._pid is not None and (ram := family_mib(self._pid)) is not None:
            self._ram_mib.append(ram)
        if use := self._gpu.read():
            self._gpu_mib.append(use.used / MIB)
            if use.busy is not None:
                self._gpu_use.append(use.busy)


def family_mib(pid: int) -> float | None:
    """Resident memory of a process and its descendants, pages they share counted in each; None where it has ended."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return None
    return sum(_rss(member) for member in family) / MIB


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:  # it ended between two looks
        return 0


def resources_now(pid: int | None) -> Resources:
    """One look."""
    with Watch(pid) as watch:
        return watch.resources
