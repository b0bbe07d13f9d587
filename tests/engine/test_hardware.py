"""What CUDA_VISIBLE_DEVICES lets through, asked of an NVML that plays two cards, one of them divided.

There is no card on the machines that run these tests; on one that has, tests/gpu asks the real driver.
"""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from engine.hardware import MIB, RESERVED_MIB, Card, card_to_choose, detect_card, first_visible


class NVMLError(Exception):
    """As pynvml raises it."""


class FakeNvml(SimpleNamespace):
    """Handles are strings: `0` an A10, `1` an A100 in two parts, `1/0` and `1/1`. `old`: a driver without the second version."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 2
    uuids = {"GPU-8932f937-d72c": "0", "GPU-aaaa0000-0000": "1", "MIG-1111": "1/0", "MIG-2222": "1/1"}
    names: dict[str, str | bytes] = {
        "0": b"NVIDIA A10",
        "1": "NVIDIA A100-SXM4-40GB",
        "1/0": "A100 MIG 1g.5gb",
        "1/1": "A100 MIG 2g.10gb",
    }
    memory = {"0": 23028, "1": 40960, "1/0": 4864, "1/1": 9856}
    is_old = False

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self._known(str(index), ("0", "1"))

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return self.uuids[self._known(uuid, tuple(self.uuids))]

    def nvmlDeviceGetUUID(self, handle: str) -> bytes:
        return next(uuid for uuid, known in self.uuids.items() if known == handle).encode()

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        return (0, 0) if self._known(handle, ("0", "1")) == "0" else (1, 1)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        return self._known(f"{handle}/{index}", ("1/1",) if self.is_old else ("1/0", "1/1"))

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        return handle[0]

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int = 1) -> Any:
        if version == 2 and self.is_old:
            raise NVMLError
        total = self.memory[handle] * MIB
        return SimpleNamespace(total=total, free=total // 2, reserved=500 * MIB)

    def nvmlDeviceGetName(self, handle: str) -> str | bytes:
        return self.names[handle]

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return {"0": (8, 6), "1": (8, 0)}[self._known(handle, ("0", "1"))]

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.95.05"

    def _known(self, value: str, known: tuple[str, ...]) -> str:
        if value not in known:
            raise NVMLError(value)
        return value


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """In the place of pynvml."""
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


A10 = Card("NVIDIA A10", 23028, 11514, (8, 6), "580.95.05", 500)
PART = Card("A100 MIG 1g.5gb", 4864, 2432, (8, 0), "580.95.05", 500)
OTHER_PART = Card("A100 MIG 2g.10gb", 9856, 4928, (8, 0), "580.95.05", 500)


@pytest.mark.parametrize(
    ("visible", "card"),
    [
        (None, PART), ("0", A10), ("0,1", A10), (" 0 , 1", A10), ("1", PART), ("1,0", PART),
        ("GPU-8932f937-d72c", A10), ("GPU-8932", A10), ("GPU-aaaa,GPU-8932", PART), ("MIG-2222", OTHER_PART),
        ("", None), ("-1", None), ("7", None), ("GPU-ffff", None), ("MIG-9999", None), ("none", None), ("0x1", None),
        ("²", None),
    ],
)  # fmt: skip
def test_the_first_visible_card(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, visible: str | None, card: Card | None
) -> None:
    """Numbers, UUIDs and their beginnings, MIG parts; what CUDA would not see is no card, and never a traceback."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert detect_card() == card


def test_the_better_of_several(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of cards that the user does not choose among the larger is used, and named to the engine by its number."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert card_to_choose() == 1
    assert first_visible(nvml) == "1/0"
    nvml.memory = {**nvml.memory, "1": 16384}
    assert card_to_choose() == 0
    assert detect_card() == A10
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 1)
    assert card_to_choose() is None
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 0)
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByIndex", lambda index: nvml._known(str(index), ()))
    assert card_to_choose() is None
    assert detect_card() is None


def test_the_users_choice_stays(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CUDA_VISIBLE_DEVICES is set there is nothing to choose."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert card_to_choose() is None


def test_a_card_that_has_fallen_off_the_bus(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is used."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    working = nvml.nvmlDeviceGetMemoryInfo

    def memory(handle: str, version: int = 1) -> Any:
        if handle == "1":
            raise NVMLError("GPU is lost")
        return working(handle, version)

    monkeypatch.setattr(nvml, "nvmlDeviceGetMemoryInfo", memory)
    assert card_to_choose() == 0
    assert detect_card() == A10


def test_an_older_driver(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not say what it keeps: a usual amount is taken off; a gap among the parts is stepped over."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    nvml.is_old = True
    card = detect_card()
    assert card == Card("A100 MIG 2g.10gb", 9856, 4928, (8, 0), "580.95.05", None)
    assert card.usable_mib == 9856 - RESERVED_MIB
    assert A10.usable_mib == 22528


def test_hidden_cards_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES="" hides every card of the real driver too, where there is one."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert detect_card() is None
