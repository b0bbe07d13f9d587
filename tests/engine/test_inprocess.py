"""InProcessEngine where the contract suite does not look: failures, ends, and what vLLM raises."""

import asyncio
import importlib.util
import inspect
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from engine import child, inprocess, orphans
from engine.base import EngineState, Loading, Sampling
from engine.errors import (
    ConfigurationError,
    EngineBusy,
    EngineDead,
    RequestRejected,
    StreamBroken,
    ZhidaError,
)
from engine.inprocess import BUILDING, IMPORTING, WARMING, InProcessEngine, translate
from engine.preflight import preflight
from engine.profiles import load_profiles
from tests.engine.backends import ROOT, kill_cores, tiny_engine
from tests.tiny_model import LOOP

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, at its import

EXPECTED = {
    "EngineDeadError": EngineDead,
    "EngineGenerateError": StreamBroken,
    "GenerationError": StreamBroken,
    "GracefulHTTPError": EngineBusy,
    "LoRAAdapterNotFoundError": RequestRejected,
    "MaxQueuedTokensError": EngineBusy,
    "QueueOverflowError": EngineBusy,
    "VLLMClientError": RequestRejected,
    "VLLMError": StreamBroken,
    "VLLMNotFoundError": RequestRejected,
    "VLLMServerError": StreamBroken,
    "VLLMUnprocessableEntityError": RequestRejected,
    "VLLMValidationError": RequestRejected,
}


def ignore(loading: Loading) -> None:
    """Hear nothing."""


def exceptions_of(module: ModuleType) -> list[type[Exception]]:
    """The exception classes that `module` has, imported ones included."""
    return [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, Exception)]


def vllm_processes() -> list[psutil.Process]:
    """vLLM's processes below this one, also those that have not taken their title yet."""
    spawned = [
        p for p in psutil.Process().children(recursive=True) if any("spawn_main" in word for word in p.cmdline())
    ]
    return [*orphans.children(), *spawned]


async def start_and_fail(engine: InProcessEngine) -> ConfigurationError:
    """The refusal of a start; nothing is left of it."""
    with pytest.raises(ConfigurationError) as refusal:
        await engine.start(ignore)
    assert vllm_processes() == []
    assert (await engine.health()).state is EngineState.DEAD
    return refusal.value


def test_every_exception_of_vllms_is_translated() -> None:
    """Each class in vLLM's two modules of exceptions has its place in our tree, and a new one fails this test."""
    import vllm.exceptions
    import vllm.v1.engine.exceptions

    kinds = {kind.__name__: kind for kind in exceptions_of(vllm.exceptions) + exceptions_of(vllm.v1.engine.exceptions)}
    got = {name: type(translate(kind.__new__(kind))) for name, kind in kinds.items()}
    assert got == {name: EXPECTED[name] for name in kinds}


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("x"), KeyError("x"), OSError("x"), AssertionError()])
def test_any_other_exception_is_translated(error: Exception) -> None:
    """Nothing but our own tree leaves the engine."""
    assert isinstance(translate(error), ZhidaError)


def test_without_vllm_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation for remote use says how to get vLLM, or how to do without."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"make install.*ENGINE_BASE_URL"):
        preflight(load_profiles()["cpu"])


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("ValueError: Free memory on device (3/22 GiB) is less than desired GPU memory utilization (0.9, 20 GiB).", "显存不足"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "显存不足"),
        ("ValueError: To serve at least one request with the model's max seq len (4096), 2 GiB KV cache is needed, "
         "which is larger than the available KV cache memory (1 GiB).", "KV 缓存放不下"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata", "原因见控制台"),
    ],
)  # fmt: skip
def test_the_cause_is_found_in_the_log(tmp_path: Path, told: str, says: str) -> None:
    """The child's last error line and its remedy are told, not the parent's summary."""
    log = tmp_path / "errors.log"
    log.write_text(f"ERROR EngineCore failed to start.\nTraceback (most recent call last):\n  File x\n{told}\n"
                   "RuntimeError: Engine core initialization failed. See root cause above.\n")  # fmt: skip
    words, line = child.explain(RuntimeError("Engine core initialization failed. See root cause above."), log)
    assert says in words.zh
    assert line == told.partition(": ")[2]


async def test_an_unknown_architecture_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """One sentence with the remedy, before any process is started."""
    broken = shutil.copytree(tiny_model, tmp_path / "model")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"architectures": ["NeverHeardOf"], "model_type": "never"}))
    refusal = await start_and_fail(tiny_engine(broken, tmp_path))
    assert "ENGINE_MODEL" in refusal.words.zh


async def test_what_the_child_fails_at_is_told(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Weights that are no safetensors fail in the child alone: the console has its reason, nothing of it remains."""
    broken = shutil.copytree(tiny_model, tmp_path / "model")
    (broken / "model.safetensors").write_bytes(b"\xff" * 4096)
    refusal = await start_and_fail(tiny_engine(broken, tmp_path))
    assert refusal.words.zh == "引擎启动失败，原因见控制台；也可运行 python -m engine.doctor 检查。"
    assert "header" in caplog.text.lower()


async def test_stop_while_loading(tiny_model: Path, tmp_path: Path) -> None:
    """Stopped as soon as EngineCore exists: `start` ends with EngineDead, and no process remains."""
    engine, building = tiny_engine(tiny_model, tmp_path), asyncio.Event()

    def hear(step: Loading) -> None:
        if step == BUILDING:
            building.set()

    starting = asyncio.create_task(engine.start(hear))
    await building.wait()
    while not vllm_processes():  # a process has no event to wait for
        await asyncio.sleep(0.05)
    await engine.stop()
    with pytest.raises(EngineDead):
        await starting
    assert vllm_processes() == []


async def test_death_and_a_new_start(tiny_model: Path, tmp_path: Path) -> None:
    """After EngineCore was killed, a new engine starts in the same process; stopping it ends its pending answer."""
    first = tiny_engine(tiny_model, tmp_path)
    steps: list[Loading] = []
    await first.start(steps.append)
    assert steps[0].step.zh.startswith("预计：权重")
    assert steps[1:] == [IMPORTING, BUILDING, WARMING]
    kill_cores(psutil.Process())
    await first.stop()
    await first.stop()
    assert vllm_processes() == []

    second = tiny_engine(tiny_model, tmp_path)
    await second.start(ignore)
    said: list[str] = []

    async def read() -> None:
        async for delta in second.stream([{"role": "user", "content": "你好"}], Sampling(max_tokens=900), "pending"):
            said.append(delta.text)
            if len(said) == 5:
                stopping.append(asyncio.create_task(second.stop()))

    stopping: list[asyncio.Task[None]] = []
    with pytest.raises(EngineDead):
        await asyncio.wait_for(read(), 30)
    await stopping[0]
    assert LOOP.startswith("".join(said)[: len(LOOP)])
    assert vllm_processes() == []
    assert list((tmp_path / orphans.FOLDER).iterdir()) == []


def test_after_the_app_was_killed(tiny_model: Path, tmp_path: Path) -> None:
    """SIGKILL in mid-answer leaves EngineCore running; the next start finds it, names it, and ends it.

    The app of this test has no main guard, so one `loaded` also shows that spawning does not run it again.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "tests.engine.killed_app", str(tiny_model), str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as app:
        assert app.stdout
        own = (line.strip() for line in app.stdout if not line.startswith("["))  # older PyTorch: "[Gloo] Rank 0 …"
        lines = list(itertools.islice(own, 3))
        below = psutil.Process(app.pid).children(recursive=True)
        app.kill()
        app.wait()
        found = orphans.reap(tmp_path)
        _, alive = psutil.wait_procs(below, timeout=10)
    assert lines == ["loaded", "answering", "answering"]
    assert "VLLM::EngineCore" in [orphan.name for orphan in found]
    assert all(orphan.app_pid == app.pid for orphan in found)
    assert alive == []


def test_what_a_load_sets_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of one profile's is gone for the next one's; the user's own stays, and wins."""
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    with inprocess._exported({"VLLM_CPU_KVCACHE_SPACE": "2", "DO_NOT_TRACK": "1"}):
        assert (os.environ["VLLM_CPU_KVCACHE_SPACE"], os.environ["DO_NOT_TRACK"]) == ("2", "0")
    assert "VLLM_CPU_KVCACHE_SPACE" not in os.environ
    assert os.environ["DO_NOT_TRACK"] == "0"
