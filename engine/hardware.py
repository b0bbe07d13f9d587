"""The machine's NVIDIA card, asked of the driver; no CUDA context is made."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from engine.driver import rank

MIB = 1024 * 1024
RESERVED_MIB = 600
"""What the driver keeps for itself where it does not say how much: public logs of an H200 show 616 (143,771 MiB by the
driver, 139.80 GiB by CUDA), of an idle A10 517."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU: total and free memory in MiB, compute capability, the driver's version.

    `reserved_mib` is the part of the total that the driver keeps from CUDA; None where it does not say.
    """

    name: str
    memory_mib: int
    free_mib: int
    capability: tuple[int, int]
    driver: str
    reserved_mib: int | None = None

    @property
    def usable_mib(self) -> int:
        """The total as CUDA, and so vLLM, counts it."""
        return self.memory_mib - (RESERVED_MIB if self.reserved_mib is None else self.reserved_mib)


def detect_card() -> Card | None:
    """The card that the engine runs on; None without one or without a driver."""
    with _driver() as nvml:
        part = None if nvml is None else first_visible(nvml)
        return None if part is None else _read(nvml, part)
    return None


def card_to_choose() -> int | None:
    """The number, by PCI bus, of the card to run on, where there are several and the user has chosen none."""
    with _driver() as nvml:
        if nvml is None or "CUDA_VISIBLE_DEVICES" in os.environ or nvml.nvmlDeviceGetCount() < 2:
            return None
        return _best(nvml)
    return None


def first_visible(nvml: Any) -> Any:
    """NVML's handle of the card, or part of one, that the engine runs on; None where there is none.

    `nvml` is the pynvml module, initialised. It is the first that CUDA_VISIBLE_DEVICES lets through; of several that it
    does not choose among, the best. Raises NVMLError for one that is not there.
    """
    device = _visible(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return None if device is None else _first_part(nvml, device)


@contextmanager
def _driver() -> Iterator[Any]:
    """pynvml, which has no types, with the driver at hand; None without. What the driver refuses ends the block."""
    try:
        import pynvml
    except ImportError:  # an installation without the GPU requirements
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        yield None
        return
    with suppress(pynvml.NVMLError):
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()


def _read(nvml: Any, part: Any) -> Card:
    memory = nvml.nvmlDeviceGetMemoryInfo(part)
    return Card(
        name=_text(nvml.nvmlDeviceGetName(part)),
        memory_mib=memory.total // MIB,
        free_mib=memory.free // MIB,
        capability=_capability(nvml, part),
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        reserved_mib=_reserved(nvml, part),
    )


def _visible(nvml: Any, setting: str | None) -> Any:
    """The device that CUDA would number 0; None where the setting hides all.

    CUDA takes indices, UUIDs or beginnings of them (GPU-8932f9…), and names of MIG parts; the first that is not one
    hides itself and what follows. Indices are NVML's where CUDA_DEVICE_ORDER=PCI_BUS_ID, which engine.launch sets.
    """
    if setting is None:
        return nvml.nvmlDeviceGetHandleByIndex(_best(nvml))
    first = setting.split(",")[0].strip()
    if first.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(first))
    if first.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(first)
    if not first.startswith("GPU-"):
        return None
    for index in range(nvml.nvmlDeviceGetCount()):
        device = nvml.nvmlDeviceGetHandleByIndex(index)
        if _text(nvml.nvmlDeviceGetUUID(device)).startswith(first):
            return device
    return None


def _best(nvml: Any) -> int:
    """The number of the card to run on, by the rule that `make install` goes by."""

    def ranked(index: int) -> tuple[int, int, tuple[int, int]]:
        try:
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            return rank(_capability(nvml, device), nvml.nvmlDeviceGetMemoryInfo(device).total // MIB)
        except nvml.NVMLError:  # one that has fallen off the bus
            return rank(None, 0)

    return max(range(nvml.nvmlDeviceGetCount()), key=ranked, default=0)


def _first_part(nvml: Any, device: Any) -> Any:
    """The first MIG part of a card that is divided (CUDA sees only those); else the card itself."""
    with suppress(nvml.NVMLError):  # a card that cannot be divided, or a part already
        if nvml.nvmlDeviceGetMigMode(device)[0]:
            for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
                with suppress(nvml.NVMLError):  # no part of this number
                    return nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, index)
    return device


def _capability(nvml: Any, device: Any) -> tuple[int, int]:
    """A MIG part may not know its own: its card does."""
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(device)
    except nvml.NVMLError:
        whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(whole)
    return major, minor


def _reserved(nvml: Any, device: Any) -> int | None:
    """Asked of NVML's second version of the same call, which drivers before 510 lack."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
        return int(memory.reserved // MIB)
    except (nvml.NVMLError, AttributeError, TypeError):  # an older driver, or older bindings
        return None


def _text(value: str | bytes) -> str:
    """NVML's older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value
