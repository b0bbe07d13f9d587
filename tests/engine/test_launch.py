"""What a vLLM process is started with."""

import os

import pytest

from engine import launch
from engine.launch import vllm_environment, vllm_options
from engine.profiles import load_profiles


@pytest.mark.parametrize(("cores", "bound"), [({0, 1}, "0,1"), ({3, 5}, "3,5"), (set(range(8)), None)])
def test_few_cores_all_compute(monkeypatch: pytest.MonkeyPatch, cores: set[int], bound: str | None) -> None:
    """On a small machine none is kept idle for serving; on a larger one vLLM binds as it knows best."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores)
    assert vllm_environment(load_profiles()["cpu"], is_local=True).get("VLLM_CPU_OMP_THREADS_BIND") == bound
    assert "VLLM_CPU_OMP_THREADS_BIND" not in vllm_environment(load_profiles()["a10"], is_local=True)


def test_graphs_on_a_card_and_eager_on_a_cpu() -> None:
    """CUDA graphs are the default; a CPU gains nothing from compiling."""
    profiles = load_profiles()
    eager = {name: vllm_options("m", "m", profile, 4096)["enforce_eager"] for name, profile in profiles.items()}
    assert eager == {name: name == "cpu" for name in profiles}


@pytest.mark.parametrize(
    ("order", "number", "expected"),
    [
        (None, None, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (None, 1, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}),
        ("PCI_BUS_ID", 1, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}),
        ("FASTEST_FIRST", 1, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    ],
)
def test_cards_are_numbered_as_the_driver_does(
    monkeypatch: pytest.MonkeyPatch, order: str | None, number: int | None, expected: dict[str, str]
) -> None:
    """The engine gets the card that was detected; a number only where it means the same to CUDA."""
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    if order:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    monkeypatch.setattr(launch, "card_to_choose", lambda: number)
    profiles = load_profiles()
    given = vllm_environment(profiles["a10"], is_local=True)
    assert {name: value for name, value in given.items() if name.startswith("CUDA")} == expected
    assert not any(name.startswith("CUDA") for name in vllm_environment(profiles["cpu"], is_local=True))
