"""What a vLLM process is started with."""

import os

import pytest

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
