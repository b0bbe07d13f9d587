"""What this machine gives the engine now: the card's memory and work, or, without a card, our processes'."""

import contextlib
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import psutil

from engine.gpu_use import Gpu, GpuUse

FRESH_S = 1.5
"""Several panels and a scraper share one reading."""


class Where(StrEnum):
    """Where an engine runs: below this process, in another of this machine's, or on another machine."""

    INSIDE = "inside"
    BESIDE = "beside"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The card (None without one), the app's and its engine's resident bytes, and their share of all cores, 0 to 1."""

    gpu: GpuUse | None
    resident: int | None = None
    cpu_use: float | None = None

    def of(self, where: Where, on_gpu: bool) -> "MachineUse":
        """What of it is an engine's that runs there. A server beside us may use the card; its memory is not in ours."""
        has_card = on_gpu or where is Where.BESIDE
        gpu = self.gpu if has_card else None
        return MachineUse(gpu, self.resident, self.cpu_use) if where is Where.INSIDE else MachineUse(gpu)


class Machine:
    """Reads on demand; `read` blocks for some milliseconds and may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gpu = Gpu()
        self._processes: dict[int, psutil.Process] = {}
        self._last: tuple[float, MachineUse] | None = None

    def read(self) -> MachineUse:
        """The present use, at most FRESH_S old."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > FRESH_S:
                self._last = (time.monotonic(), MachineUse(self._gpu.read(), *self._own()))
            return self._last[1]

    def _own(self) -> tuple[int | None, float | None]:
        """Resident bytes and CPU share of this process and all below it; the share since the last reading."""
        me = psutil.Process()
        family = {process.pid: process for process in (me, *me.children(recursive=True))}
        first = not self._processes
        self._processes = {pid: self._processes.get(pid, process) for pid, process in family.items()}
        resident, percent = 0, 0.0
        for process in self._processes.values():
            with contextlib.suppress(psutil.Error):  # ended meanwhile
                resident += process.memory_info().rss
                percent += process.cpu_percent()
        share: Any = None if first else min(1.0, percent / 100 / (psutil.cpu_count() or 1))
        return resident or None, share
