"""What the machine gives: read from the driver and the kernel, unknown where they do not say."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from blockbuster import BlockBuster

from engine.gpu_use import Gpu, GpuUse
from engine.machine_use import Machine


class NVMLError(Exception):
    """As pynvml's."""


class Driver:
    """As much of pynvml as is asked; `faults` are the calls that fail."""

    def __init__(self, *faults: str) -> None:
        self.faults, self.opened = set(faults), 0
        self.NVMLError = NVMLError

    def _say(self, call: str, answer: Any) -> Any:
        if call in self.faults:
            raise NVMLError
        return answer

    def nvmlInit(self) -> None:
        self.opened += 1
        self._say("init", None)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return self._say("handle", index)

    def nvmlDeviceGetMigMode(self, device: Any) -> Any:
        raise NVMLError

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        return self._say("memory", SimpleNamespace(used=10, total=40))

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return self._say("use", SimpleNamespace(gpu=50))


@pytest.mark.parametrize(
    ("faults", "use"),
    [
        ([], GpuUse(10, 40, 0.5)),
        (["use"], GpuUse(10, 40, None)),
        (["memory"], None),
        (["handle"], None),
        (["init"], None),
    ],
)
def test_the_card(monkeypatch: pytest.MonkeyPatch, faults: list[str], use: GpuUse | None) -> None:
    """Memory and work; None for what the driver does not say; NVML is opened once, however often it is asked."""
    driver = Driver(*faults)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpu = Gpu()
    assert [gpu.read(), gpu.read()] == [use, use]
    assert driver.opened == 1


def test_a_hidden_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES that hides every card hides it here."""
    monkeypatch.setitem(sys.modules, "pynvml", Driver())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert Gpu().read() is None


def test_without_the_drivers_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without a GPU."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Gpu().read() is None


def test_our_own_memory_and_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resident bytes of this process and those below it; the work since the reading before, so none at first."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("engine.machine_use.FRESH_S", -1.0)
    machine = Machine()
    first, second = machine.read(), machine.read()
    assert first.resident is not None
    assert first.resident > 10_000_000
    assert first.cpu_use is None
    assert second.cpu_use is not None
    assert 0 <= second.cpu_use <= 1


async def test_one_reading_serves_all_who_ask(monkeypatch: pytest.MonkeyPatch, unblocked: BlockBuster) -> None:
    """Several panels at once, off the event loop: one reading."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    machine = Machine()
    readings = await asyncio.gather(*(asyncio.to_thread(machine.read) for _ in range(5)))
    assert all(reading is readings[0] for reading in readings)
