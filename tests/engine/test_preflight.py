"""Before every load: the card, the memory and the model as they are now, and a sentence instead of a traceback."""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine import preflight, serve
from engine.base import EngineState, Loading
from engine.errors import ConfigurationError, WeightsError
from engine.hardware import Card
from engine.inprocess import InProcessEngine
from engine.preflight import foresee, kv_space, obstacles, refuse_what_never_fits, require_room, unfit
from engine.profiles import choose, load_profiles
from engine.weights import ModelFolder

PROFILES = load_profiles()
A10 = Card("NVIDIA A10", 23028, 22511, (8, 6), "580.82.07", 517)
V100 = Card("Tesla V100-SXM2-32GB", 32510, 32200, (7, 0), "550.54.15", 260)


@pytest.fixture(autouse=True)
def no_kv_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests set for the machine's sake."""
    monkeypatch.delenv(preflight.KV_SPACE, raising=False)


def driver(monkeypatch: pytest.MonkeyPatch, *cards: Card | None) -> list[Card | None]:
    """A driver that answers with each of `cards` in turn, the last one ever after; returns what it has been asked."""
    asked: list[Card | None] = []

    def answers() -> Iterator[Card | None]:
        yield from cards
        while True:
            yield cards[-1]

    answer = answers()

    def detect() -> Card | None:
        asked.append(next(answer))
        return asked[-1]

    monkeypatch.setattr(preflight, "detect_card", detect)
    return asked


def test_e12_a_v100(tiny_model: Path) -> None:
    """Capability 7.0: half, the vLLM that still runs there named, and memory no obstacle; no traceback."""
    profile = choose("auto", V100).profile
    assert (profile.name, profile.dtype, profile.attention_backend) == ("v100-32g", "half", None)
    refusal = unfit(profile, "0.29.0", is_cpu_build=False)
    assert refusal
    assert "0.19.1" in refusal.zh
    assert "requirements-v100.txt" in refusal.zh
    assert unfit(profile, "0.10.1.1", is_cpu_build=False) is None
    assert obstacles(tiny_model, profile, 4096, V100) == ()


def test_e14_half_the_card_is_taken(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free and needed GiB and a utilisation that fits; with that utilisation the load goes on."""
    driver(monkeypatch, replace(A10, free_mib=11_000))
    with pytest.raises(ConfigurationError) as refusal:
        require_room(tiny_model, PROFILES["a10"], 4096, patience_s=0)
    assert "显存空闲 10.7 GiB，配置 a10 需要 20.3 GiB" in refusal.value.words.zh
    assert "ENGINE_GPU_UTILIZATION=0.46" in refusal.value.words.zh
    lines = require_room(tiny_model, replace(PROFILES["a10"], gpu_memory_utilization=0.46), 4096, patience_s=0)
    assert lines[0].zh.startswith("预计：权重 0.00 GiB，KV 缓存 ")


def test_memory_that_is_being_freed_is_waited_for(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch: the old engine's memory comes back between two looks at the driver."""
    taken = replace(A10, free_mib=2_000)
    asked = driver(monkeypatch, taken, taken, A10)
    monkeypatch.setattr(preflight, "POLL_S", 0.0)
    assert require_room(tiny_model, PROFILES["a10"], 4096)
    assert asked == [taken, taken, A10]


def test_what_waiting_does_not_help(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E15: a pool below one window is refused at the first look, before loading, with the numbers."""
    asked = driver(monkeypatch, A10)
    with pytest.raises(ConfigurationError, match="ENGINE_GPU_UTILIZATION=0") as refusal:
        require_room(tiny_model, replace(PROFILES["a10"], gpu_memory_utilization=0.005), 4096)
    assert "4096" in refusal.value.words.zh
    assert len(asked) == 1


def test_what_is_refused_while_the_old_engine_answers(tiny_model: Path) -> None:
    """E14, E15: a switch to what never fits is refused at once; memory that the old engine holds will come back."""
    taken = replace(A10, free_mib=2_000)
    refuse_what_never_fits(tiny_model, PROFILES["a10"], 4096, taken)
    with pytest.raises(ConfigurationError, match="4096"):
        refuse_what_never_fits(tiny_model, replace(PROFILES["a10"], gpu_memory_utilization=0.005), 4096, taken)


def test_the_machines_memory_counts_on_the_cpu(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's own variable is what is counted, and more than there is is refused with what would fit."""
    monkeypatch.setenv(preflight.KV_SPACE, "100000")
    with pytest.raises(ConfigurationError, match="VLLM_CPU_KVCACHE_SPACE=") as refusal:
        require_room(tiny_model, PROFILES["cpu"], 4096, patience_s=0)
    assert "可用内存" in refusal.value.words.zh
    monkeypatch.setenv(preflight.KV_SPACE, "1")
    assert "KV 缓存 1.0 GiB" in require_room(tiny_model, PROFILES["cpu"], 4096)[0].zh
    assert foresee(tiny_model, PROFILES["cpu"], 4096, None).pool == 2**30


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "two", "２"])
def test_an_odd_kv_space(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """What vLLM would answer with a traceback, or (full-width digits) read as a number that nobody wrote."""
    monkeypatch.setenv(preflight.KV_SPACE, value)
    if value == "２":
        assert kv_space(PROFILES["cpu"]) == 2
        return
    with pytest.raises(ConfigurationError, match="VLLM_CPU_KVCACHE_SPACE"):
        kv_space(PROFILES["cpu"])
    assert kv_space(PROFILES["a10"]) is None


@pytest.mark.parametrize("content", ["{", "[]", "", '{"model_type": 3'])
async def test_an_unreadable_config(tiny_model: Path, tmp_path: Path, content: str) -> None:
    """The engine's start refuses with one sentence before vLLM is imported, and is dead with that reason."""
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    (folder / "config.json").write_text(content)
    engine = InProcessEngine(ModelFolder(folder, "m", is_demo=False), PROFILES["cpu"], 4096, tmp_path)
    steps: list[Loading] = []
    with pytest.raises(WeightsError, match=r"config\.json"):
        await engine.start(steps.append)
    assert steps == []
    health = await engine.health()
    assert health.state is EngineState.DEAD
    assert health.reason
    assert "config.json" in health.reason.zh


@pytest.mark.parametrize("content", ["{}", '{"num_hidden_layers": "two"}', '{"kv_lora_rank": 512, "hidden_size": 8}'])
def test_what_cannot_be_foreseen_is_no_obstacle(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """A config that the planner does not understand is said to be so, and left to vLLM."""
    driver(monkeypatch, None)
    (tmp_path / "config.json").write_text(content)
    assert obstacles(tmp_path, PROFILES["cpu"], 4096, None) == ()
    (line,) = require_room(tmp_path, PROFILES["cpu"], 4096)
    assert line.zh.startswith("无法预估：")


async def test_the_engine_refuses_before_importing(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that the KV space cannot hold: no import, no process, the numbers in the refusal."""
    engine = InProcessEngine(
        ModelFolder(tiny_model, "m", is_demo=False), replace(PROFILES["cpu"], kv_cache_gib=1), 4_000_000, tmp_path
    )
    monkeypatch.setitem(sys.modules, "vllm", None)  # an import would fail with another sentence
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: object())  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="ENGINE_MAX_MODEL_LEN=131072"):
        await engine.start(lambda loading: None)


def test_the_server_refuses_too(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m engine.serve` ends with status 1 and both languages, and does not become vLLM."""
    monkeypatch.setenv("ENGINE_MODEL", str(tiny_model))
    monkeypatch.setenv(preflight.KV_SPACE, "100000")
    monkeypatch.setattr(serve, "require_room", partial(require_room, patience_s=0))
    monkeypatch.setattr("os.execve", lambda *given: pytest.fail("vLLM was started"))
    assert serve.main(["--profile", "cpu", "--port", "0"]) == 1
    said = capsys.readouterr().err
    assert "可用内存" in said
    assert "memory is available" in said
    assert "Traceback" not in said
