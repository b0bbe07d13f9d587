"""What every engine keeps: one suite over ScriptedEngine, ServerEngine before a real vLLM, and InProcessEngine."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio
from blockbuster import BlockBuster

from engine.base import ChatMessage, Delta, Engine, EngineHealth, EngineState, FinishReason, Sampling
from engine.errors import EngineDead, PromptTooLong, StreamBroken
from tests.engine.backends import BACKENDS, WINDOW, Backend
from tests.tiny_model import LOOP

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("unblocked"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own, at its import
]

QUESTION: list[ChatMessage] = [
    {"role": "system", "content": "你是知答。"},
    {"role": "user", "content": "你好👋🏽，请背诵"},
]
SHORT, LONG = Sampling(max_tokens=32), Sampling(max_tokens=WINDOW - 200)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=BACKENDS)
async def backend(
    request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Backend]:
    """Each engine in turn, started once for all tests of this file; the last test kills it."""
    async with BACKENDS[request.param](tiny_model, tmp_path_factory.mktemp(request.param)) as ready:
        yield ready


@pytest.fixture
def engine(backend: Backend) -> Engine:
    """The engine under test."""
    return backend.engine


async def answer(engine: Engine, sampling: Sampling = SHORT, question: list[ChatMessage] = QUESTION) -> list[Delta]:
    """A whole answer."""
    return [delta async for delta in engine.stream(question, sampling, f"test-{id(object())}")]


def text(deltas: list[Delta]) -> str:
    """What was said."""
    return "".join(delta.text for delta in deltas)


async def until(engine: Engine, holds: Callable[[EngineHealth], bool], within_s: float) -> None:
    """Ask for the engine's health, which has no event, until `holds`."""
    async with asyncio.timeout(within_s):
        while not holds(await engine.health()):
            await asyncio.sleep(0.01)


async def begun(reading: asyncio.Event, reader: asyncio.Task[None]) -> None:
    """Wait for the first text; where the reader ends before it, raise what it met."""
    waiting = asyncio.create_task(reading.wait())
    await asyncio.wait([waiting, reader], timeout=30, return_when=asyncio.FIRST_COMPLETED)
    if reader.done():
        waiting.cancel()
        await reader
    assert reading.is_set(), "no text came"


async def idle(engine: Engine) -> None:
    """Wait until the engine runs nothing; fails after a second."""
    await until(engine, lambda health: health.running == 0, 1)


async def test_it_streams(engine: Engine) -> None:
    """An answer comes in several pieces, is LOOP from its start, and ends with one complete last Delta."""
    deltas = await answer(engine)
    assert LOOP.startswith(text(deltas))
    assert len([delta for delta in deltas if delta.text]) > 1
    assert all(delta.finish is None and delta.usage is None and delta.timings is None for delta in deltas[:-1])
    assert deltas[-1].finish is FinishReason.LENGTH
    assert deltas[-1].timings is not None
    assert 0 < deltas[-1].timings.first_token_s <= deltas[-1].timings.total_s


async def test_usage_is_exact(engine: Engine) -> None:
    """The last Delta's prompt tokens are what `count` says, and its answer tokens those that were asked for."""
    usage = (await answer(engine))[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.answer_tokens) == (await engine.count(QUESTION), SHORT.max_tokens)


async def test_count_grows_with_the_text(engine: Engine) -> None:
    """A longer message counts more, also beyond the window."""
    sizes = [await engine.count([{"role": "user", "content": "你" * length}]) for length in (1, 100, 2 * WINDOW)]
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] > WINDOW


async def test_info_says_the_window(engine: Engine) -> None:
    """A started engine knows its model's name and its window."""
    assert engine.info.window == WINDOW
    assert engine.info.model


async def test_cancelling_the_reader_frees_the_slot(engine: Engine) -> None:
    """A reader cancelled in mid-answer leaves nothing running within a second, and the next question works."""
    reading = asyncio.Event()

    async def read() -> None:
        async for delta in engine.stream(QUESTION, LONG, "cancelled"):
            if delta.text:
                reading.set()

    reader = asyncio.create_task(read())
    await begun(reading, reader)
    assert (await engine.health()).running == 1
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await idle(engine)
    assert LOOP.startswith(text(await answer(engine)))


async def test_closing_the_iterator_frees_the_slot(engine: Engine) -> None:
    """An iterator closed in mid-answer leaves nothing running within a second, and the next question works."""
    stream = engine.stream(QUESTION, LONG, "closed")
    async with aclosing(stream):
        async for delta in stream:
            if delta.text:
                break
    await idle(engine)
    assert LOOP.startswith(text(await answer(engine)))


async def test_cancelled_before_the_first_token(engine: Engine) -> None:
    """A question taken back at once leaves nothing running, and the next one works."""
    asking = asyncio.create_task(answer(engine, LONG))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await idle(engine)
    assert LOOP.startswith(text(await answer(engine)))


async def test_eight_at_once(engine: Engine) -> None:
    """Eight questions asked together all get their whole answer."""
    answers = await asyncio.gather(*(answer(engine) for _ in range(8)))
    assert {text(deltas) for deltas in answers} == {text(answers[0])}
    assert LOOP.startswith(text(answers[0]))
    await idle(engine)


async def test_an_overlong_prompt_is_refused(engine: Engine) -> None:
    """A prompt beyond the window raises PromptTooLong with the limit, and the next question works."""
    with pytest.raises(PromptTooLong) as refusal:
        await answer(engine, question=[{"role": "user", "content": "你" * 2 * WINDOW}])
    assert refusal.value.limit == WINDOW
    assert refusal.value.size is None or refusal.value.size > WINDOW
    assert LOOP.startswith(text(await answer(engine)))


async def test_an_answer_is_cut_to_the_window(engine: Engine) -> None:
    """More answer tokens than the window leaves are no error: the answer ends there."""
    question: list[ChatMessage] = [{"role": "user", "content": "你" * (WINDOW - 100)}]
    last = (await answer(engine, Sampling(max_tokens=WINDOW), question))[-1]
    assert last.finish is FinishReason.LENGTH
    assert last.usage is not None
    assert last.usage.prompt_tokens + last.usage.answer_tokens <= WINDOW


@pytest.mark.parametrize("max_tokens", range(14, 20))
async def test_characters_stay_whole(engine: Engine, max_tokens: int) -> None:
    """Cut anywhere, also inside an emoji of four tokens, the text holds no broken character."""
    said = text(await answer(engine, Sampling(max_tokens=max_tokens)))
    assert "\ufffd" not in said
    assert LOOP.startswith(said)


async def test_empty_deltas_are_no_end(engine: Engine) -> None:
    """Deltas without text, at the start or while a character is half there, come before the text and not instead."""
    said = text(await answer(engine, SHORT, [{"role": "user", "content": "先空后说"}]))
    assert said
    assert said == "说" or LOOP.startswith(said)


async def test_it_is_ready(engine: Engine) -> None:
    """A healthy engine says so, and that nothing runs or waits."""
    await idle(engine)
    health = await engine.health()
    assert (health.state, health.running, health.waiting) == (EngineState.READY, 0, 0)


async def test_death(backend: Backend) -> None:
    """Killed in mid-answer: the reader is told within 10 s, health says dead, and the next question gets EngineDead."""
    engine, reading = backend.engine, asyncio.Event()
    received: list[Delta] = []

    async def read() -> None:
        async for delta in engine.stream(QUESTION, LONG, "dying"):
            received.append(delta)
            if delta.text:
                reading.set()

    reader = asyncio.create_task(read())
    await begun(reading, reader)
    await asyncio.to_thread(backend.kill)
    with pytest.raises((EngineDead, StreamBroken)):
        await asyncio.wait_for(reader, 10)
    assert LOOP.startswith(text(received)[: len(LOOP)])
    await until(engine, lambda health: health.state is EngineState.DEAD, 10)
    with pytest.raises(EngineDead):
        await answer(engine)


async def test_restart(
    request: pytest.FixtureRequest, backend: Backend, tiny_model: Path, tmp_path: Path, unblocked: BlockBuster
) -> None:
    """After death a new instance in the same process answers, which is how the host brings an engine back."""
    unblocked.deactivate()  # what this suite does to make an engine may block
    await backend.engine.stop()
    async with BACKENDS[request.node.callspec.params["backend"]](tiny_model, tmp_path) as again:
        assert LOOP.startswith(text(await answer(again.engine)))
