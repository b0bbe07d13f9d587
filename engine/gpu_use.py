"""The card's memory and work, asked of the driver again and again: NVML is opened once."""

from dataclasses import dataclass
from typing import Any

from engine.hardware import first_visible


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Bytes in use and in all; the share of the last sample period in which the card worked, 0 to 1."""

    used: int
    total: int
    busy: float | None


class Gpu:
    """The first card that CUDA_VISIBLE_DEVICES lets through. Used by one thread at a time."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self._tried = False

    def read(self) -> GpuUse | None:
        """None without a card or a driver, and where the driver does not answer now."""
        if not self._tried:
            self._tried = True
            self._open()
        if self._handle is None:
            return None
        try:
            memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        except self._nvml.NVMLError:
            return None
        return GpuUse(int(memory.used), int(memory.total), self._busy())

    def _busy(self) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu) / 100
        except self._nvml.NVMLError:  # a MIG slice does not say
            return None

    def _open(self) -> None:
        try:
            import pynvml
        except ImportError:  # an installation without the GPU requirements
            return
        try:
            pynvml.nvmlInit()
            self._handle = first_visible(pynvml)
        except pynvml.NVMLError:  # no driver, or no such card
            return
        self._nvml = pynvml
