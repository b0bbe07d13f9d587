"""What the machine gives: read from the driver and the kernel, unknown where they do not say."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from blockbuster import BlockBuster

from engine.factory import planner
from engine.gpu_use import Gpu, GpuUse
from engine.machine_use import Machine, MachineUse, Where
from engine.settings import Settings


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

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetCudaComputeCapability(self, device: Any) -> tuple[int, int]:
        return 8, 6

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


@pytest.mark.parametrize(
    ("where", "on_gpu", "seen"),
    [
        (Where.INSIDE, True, MachineUse(GpuUse(1, 2, 0.5), 1000, 0.1)),
        (Where.INSIDE, False, MachineUse(None, 1000, 0.1)),
        (Where.BESIDE, False, MachineUse(GpuUse(1, 2, 0.5))),
        (Where.ELSEWHERE, False, MachineUse(None)),
    ],
)
def test_what_is_the_engines(where: Where, on_gpu: bool, seen: MachineUse) -> None:
    """A server on this machine uses its card; a server's memory is not in ours, nor another machine's card here."""
    assert MachineUse(GpuUse(1, 2, 0.5), 1000, 0.1).of(where, on_gpu) == seen


@pytest.mark.parametrize(
    ("address", "where"),
    [
        (None, Where.INSIDE),
        ("http://127.0.0.1:8001/v1", Where.BESIDE),
        ("http://localhost:8001/v1/", Where.BESIDE),
        ("http://[::1]:8001/v1", Where.BESIDE),
        ("http://0.0.0.0:8001/v1", Where.BESIDE),
        ("http://192.168.1.9:8001/v1", Where.ELSEWHERE),
        ("https://models.example.com/v1", Where.ELSEWHERE),
    ],
)
def test_where_the_engine_runs(address: str | None, where: Where) -> None:
    """By the address of the server; without one it is here."""
    backend = "server" if address else "scripted"
    assert planner(Settings(engine_backend=backend, engine_base_url=address))("auto").where is where
