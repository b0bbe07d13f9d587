"""The machine's NVIDIA card, asked of the driver; no CUDA context is made."""

import os
from dataclasses import dataclass
from typing import Any

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU: total and free memory in MiB, compute capability, the driver's version."""

    name: str
    memory_mib: int
    free_mib: int
    capability: tuple[int, int]
    driver: str


def detect_card() -> Card | None:
    """The first card that CUDA_VISIBLE_DEVICES lets through; None without a card or a driver."""
    try:
        import pynvml
    except ImportError:  # an installation without the GPU requirements
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return None
    try:
        return _read(pynvml)
    except pynvml.NVMLError:  # a driver, and no (such) card
        return None
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any) -> Card | None:
    """The card's values from NVML; `nvml` is the pynvml module, which has no types."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if visible in ("", "-1"):
        return None
    by_number = visible.isdecimal()
    handle = nvml.nvmlDeviceGetHandleByIndex(int(visible)) if by_number else nvml.nvmlDeviceGetHandleByUUID(visible)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Card(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_mib=memory.total // MIB,
        free_mib=memory.free // MIB,
        capability=tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
    )


def _text(value: str | bytes) -> str:
    """NVML's older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value
