"""Load over a scripted engine: how many at once, in what order, what is counted, and what is left."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from bench.asking import Asker
from bench.levels import Work, closed_level, open_level, warm_up
from bench.load import arrivals, closed, opened
from bench.samples import Sample
from engine.base import Sampling
from engine.errors import ConfigurationError
from engine.scripted import ScriptedEngine

SCRIPT = """
[engine]
tokens_a_character = 1.0
[[rules]]
text = "一二三四五六七八九十"
characters_a_delta = 2
delay_s = 0.001
"""
BUSY = '[[rules]]\ntext = "一二三四"\nafter = 1\nerror = "EngineBusy"\n'
DEAD = '[[rules]]\ntext = "一二三四"\nafter = 1\nerror = "EngineDead"\n'
SLOW = '[[rules]]\ntext = "一二三四"\nfirst_delay_s = 60\n'


async def engine_of(folder: Path, script: str) -> ScriptedEngine:
    """A ready engine that plays `script`."""
    (folder / "script.toml").write_text(script, encoding="utf-8")
    engine = ScriptedEngine(folder / "script.toml")
    await engine.start(lambda loading: None)
    return engine


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    """Over SCRIPT."""
    engine = await engine_of(tmp_path, SCRIPT)
    yield Asker(engine, 0)
    await engine.stop()


class Server:
    """Answers when told to, and knows how many wait."""

    def __init__(self) -> None:
        self.running, self.most, self.asked = 0, 0, 0

    async def __call__(self) -> Sample:
        """See load.Ask."""
        self.running, self.asked = self.running + 1, self.asked + 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
        finally:
            self.running -= 1
        return Sample(0.0, 0.0, 0.0)


async def test_a_closed_loop_keeps_its_number() -> None:
    """Never more than the clients at once, and exactly the requests asked for."""
    server = Server()
    assert len(await closed(server, 3, 10)) == 10
    assert (server.most, server.asked, server.running) == (3, 10, 0)


async def test_a_closed_loop_of_seconds_ends() -> None:
    """Nobody asks again after the time; what runs is awaited."""
    server = Server()
    samples = await closed(server, 2, None, 0.05)
    assert len(samples) == server.asked > 2
    assert server.running == 0


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    """All requests arrive although none has been answered."""
    arrived, answered = asyncio.Semaphore(0), asyncio.Event()

    async def ask() -> Sample:
        arrived.release()
        await answered.wait()
        return Sample(0.0, 0.0, 0.0)

    load = asyncio.create_task(opened(ask, [0.0, 0.001, 0.002]))
    for _ in range(3):
        await arrived.acquire()
    answered.set()
    assert len(await load) == 3


def test_arrivals_are_a_seeded_poisson_process() -> None:
    """The same for the same seed, increasing, with the mean and the spread of exponential gaps."""
    moments = arrivals(50.0, 20_000, None, 1)
    assert moments == arrivals(50.0, 20_000, None, 1) != arrivals(50.0, 20_000, None, 2)
    gaps = [after - before for before, after in pairwise(moments)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert min(gaps) >= 0
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert variance == pytest.approx(mean**2, rel=0.1)


def test_arrivals_end_with_the_seconds() -> None:
    """Requests and seconds both bound them."""
    assert all(moment <= 2 for moment in arrivals(10.0, None, 2.0, 0))
    assert len(arrivals(10.0, 5, 1000.0, 0)) == 5
    with pytest.raises(ConfigurationError, match="没有一个请求到达"):
        arrivals(0.01, None, 5.0, 0)


async def test_a_level_counts_what_the_engine_counts(asker: Asker) -> None:
    """Tokens, characters and prompt lengths are the engine's own; every request is answered."""
    level = await closed_level(asker, Work((64, 128), 512, 6), 3, None)
    assert (level.requests, level.answered, level.errors) == (6, 6, {})
    assert (level.answer_tokens, level.characters) == (60, 60)
    assert level.prompt_tokens == (64, 128)
    assert level.most_at_once == 3
    assert level.first_s is not None
    assert level.total_s is not None
    assert level.first_s.p50 < level.total_s.p50


async def test_an_open_level(asker: Asker) -> None:
    """As many requests as arrive."""
    level = await open_level(asker, Work((64,), 8, 5), 500.0, 0, None)
    assert (level.load, level.answered) == ("500/s", 5)


async def test_errors_are_counted_and_not_raised(tmp_path: Path) -> None:
    """By kind, and the loop goes on."""
    asker = Asker(await engine_of(tmp_path, BUSY), 0)
    level = await closed_level(asker, Work((64,), 8, 5), 2, None)
    assert (level.answered, level.errors) == (0, {"EngineBusy": 5})
    assert level.first_s is None


async def test_clients_leave_a_dead_engine(tmp_path: Path) -> None:
    """Each meets the death once, even where seconds would let it ask for ever."""
    asker = Asker(await engine_of(tmp_path, DEAD), 0)
    began = time.perf_counter()
    level = await closed_level(asker, Work((64,), 8, None, 3600.0), 2, None)
    assert level.errors == {"EngineDead": 2}
    assert time.perf_counter() - began < 60


async def test_a_cancelled_level_leaves_nothing_running(tmp_path: Path) -> None:
    """Ctrl-C in the middle frees every slot of the engine."""
    engine = await engine_of(tmp_path, SLOW)
    level = asyncio.create_task(closed_level(Asker(engine, 0), Work((64,), 8, 4), 4, None))
    while (await engine.health()).running != 4:
        await asyncio.sleep(0)
    level.cancel()
    with pytest.raises(asyncio.CancelledError):
        await level
    assert (await engine.health()).running == 0


async def test_warm_up_refuses_an_engine_that_does_not_answer(tmp_path: Path) -> None:
    """Nothing is measured then."""
    with pytest.raises(ConfigurationError, match="EngineBusy"):
        await warm_up(Asker(await engine_of(tmp_path, BUSY), 0), Work((64,), 8))


async def test_prompts_are_used_once(asker: Asker) -> None:
    """Prepared or not, no prompt is asked twice."""
    asker.load((64,), Sampling())
    await asker.prepare(5)
    asked = [(await asker.fresh())[-1]["content"] for _ in range(5)]
    assert len(set(asked)) == 5
    level = await closed_level(asker, Work((64,), 8, 5), 1, None)
    assert level.answered == 5
