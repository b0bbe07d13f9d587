"""ScriptedEngine plays what its script says, and the shipped script is one to look at."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from engine.base import ChatMessage, Delta, EngineState, FinishReason, Loading, Sampling
from engine.errors import (
    ConfigurationError,
    EngineBusy,
    EngineDead,
    PromptTooLong,
    RequestRejected,
    StreamBroken,
    ZhidaError,
)
from engine.scripted import DEMO, ScriptedEngine

pytestmark = pytest.mark.usefixtures("unblocked")

SCRIPT = """
[engine]
model = "剧本"
window = 60
tokens_a_character = 1

[[rules]]
match = "^数"
pieces = ["一", "二", "", "三"]

[[rules]]
match = "慢"
text = "慢慢来"
characters_a_delta = 1
delay_s = 600

[[rules]]
match = "断"
pieces = ["前", "后"]
error = "StreamBroken"
after = 1

[[rules]]
match = "忙"
error = "EngineBusy"

[[rules]]
match = "长"
error = "PromptTooLong"

[[rules]]
match = "死"
text = "再见"
error = "EngineDead"

[[rules]]
match = "止"
text = "说到一半"
finish = "length"
"""


def ignore(loading: Loading) -> None:
    """Hear nothing."""


def written(folder: Path, text: str) -> ScriptedEngine:
    """An engine with a script of `text`; blocks, as every engine's constructor may."""
    script = folder / "script.toml"
    script.write_text(text, encoding="utf-8")
    return ScriptedEngine(script)


@asynccontextmanager
async def playing(folder: Path, text: str = SCRIPT) -> AsyncIterator[ScriptedEngine]:
    """A started engine with a script of `text`."""
    engine = await asyncio.to_thread(written, folder, text)
    await engine.start(ignore)
    yield engine
    await engine.stop()


async def ask(engine: ScriptedEngine, question: str, max_tokens: int = 512) -> tuple[list[Delta], ZhidaError | None]:
    """The deltas of one answer, and the error that ended it."""
    deltas: list[Delta] = []
    messages: list[ChatMessage] = [{"role": "user", "content": question}]
    try:
        async for delta in engine.stream(messages, Sampling(max_tokens=max_tokens), "test"):
            deltas.append(delta)
    except ZhidaError as error:
        return deltas, error
    return deltas, None


async def test_plays_pieces(tmp_path: Path) -> None:
    """Pieces come as they are, then what they cost by the documented count."""
    async with playing(tmp_path) as engine:
        deltas, error = await ask(engine, "数一数")
        assert ([delta.text for delta in deltas], error) == (["一", "二", "", "三", ""], None)
        last = deltas[-1]
        assert last.usage
        assert (last.finish, last.usage.prompt_tokens, last.usage.answer_tokens) == (FinishReason.STOP, 7, 3)
        assert engine.info.model == "剧本"


async def test_cuts_at_max_tokens(tmp_path: Path) -> None:
    """An answer stops at its limit and says so; so does one whose rule says so."""
    async with playing(tmp_path) as engine:
        deltas, _ = await ask(engine, "数", max_tokens=2)
        assert ["".join(delta.text for delta in deltas), deltas[-1].finish] == ["一二", FinishReason.LENGTH]
        deltas, _ = await ask(engine, "止")
        assert ["".join(delta.text for delta in deltas), deltas[-1].finish] == ["说到一半", FinishReason.LENGTH]


@pytest.mark.parametrize(
    ("question", "kind", "text"),
    [
        ("断", StreamBroken, "前"),
        ("忙", EngineBusy, ""),
        ("长", PromptTooLong, ""),
        ("长" * 70, PromptTooLong, ""),
        ("别的", RequestRejected, ""),
    ],
)
async def test_errors(tmp_path: Path, question: str, kind: type[ZhidaError], text: str) -> None:
    """Errors come where the script puts them; the engine goes on."""
    async with playing(tmp_path) as engine:
        deltas, error = await ask(engine, question)
        assert (type(error), "".join(delta.text for delta in deltas)) == (kind, text)
        assert (await ask(engine, "数"))[1] is None


async def test_death_and_restart(tmp_path: Path) -> None:
    """EngineDead leaves a dead engine, which a start brings back."""
    async with playing(tmp_path) as engine:
        deltas, error = await ask(engine, "死")
        assert (type(error), "".join(delta.text for delta in deltas)) == (EngineDead, "再见")
        assert (await engine.health()).state is EngineState.DEAD
        assert isinstance((await ask(engine, "数"))[1], EngineDead)
        await engine.start(ignore)
        assert (await ask(engine, "数"))[1] is None


async def test_running_is_true(tmp_path: Path) -> None:
    """Running counts answers under way; closing and cancelling both end them."""
    async with playing(tmp_path) as engine:
        messages: list[ChatMessage] = [{"role": "user", "content": "慢"}]
        async with aclosing(engine.stream(messages, Sampling(), "test")) as answer:
            assert (await anext(answer)).text == "慢"
            assert (await engine.health()).running == 1
        assert (await engine.health()).running == 0
        reader = asyncio.create_task(ask(engine, "慢"))
        await asyncio.sleep(0)
        assert (await engine.health()).running == 1
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert (await engine.health()).running == 0


async def test_the_shipped_script(tmp_path: Path) -> None:
    """What plays without a script of one's own, less its delays: a table, code and a bold word, after loading."""
    shipped = await asyncio.to_thread(ScriptedEngine)
    assert (await shipped.health()).state is EngineState.LOADING
    fast = re.sub(r"_s = [\d.]+", "_s = 0", await asyncio.to_thread(DEMO.read_text, encoding="utf-8"))
    engine = await asyncio.to_thread(written, tmp_path, fast)
    steps: list[Loading] = []
    await engine.start(steps.append)
    assert [step.fraction for step in steps] == [tenth / 10 for tenth in range(10)]
    deltas, error = await ask(engine, "有哪几种运行方式？")
    text = "".join(delta.text for delta in deltas)
    assert error is None
    for part in ("| --- |", "```bash", "**注意：**", "3~5"):
        assert part in text
    assert len(deltas) > 50


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rules = 3", "rules"),
        ("[[rules]]\nmach = '写错'", "rules.0.mach"),
        ("[[rules]]\nmatch = '('", "rules.0.match"),
        ("[[rules]]\nerror = 'Boom'", "rules.0.error"),
        ("[[rules", "ENGINE_SCRIPT"),
    ],
)
async def test_a_wrong_script_is_refused(tmp_path: Path, text: str, place: str) -> None:
    """The sentence names the file and the place."""
    with pytest.raises(ConfigurationError, match=place):
        async with playing(tmp_path, text):
            pass


def test_a_missing_script_is_refused(tmp_path: Path) -> None:
    """A script that is not there is named."""
    with pytest.raises(ConfigurationError, match="nowhere"):
        ScriptedEngine(tmp_path / "nowhere.toml")
