"""Admission: order of arrival, places told, slots given back."""

import asyncio
import time
from contextlib import suppress

import pytest

from engine.errors import EngineBusy, EngineDead, StreamBroken
from engine.limits import Limiter, Place
from engine.words import Words


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell places in every turn of the loop."""
    monkeypatch.setattr("engine.limits.TELL_S", 0)


def in_front(told: list[Place]) -> list[int]:
    """The places told, each once."""
    numbers = [place.in_front for place in told]
    return [number for n, number in enumerate(numbers) if n == 0 or number != numbers[n - 1]]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def hold(limiter: Limiter, places: list[Place], started: list[int], name: int, release: asyncio.Event) -> None:
    async with limiter.slot(places.append):
        started.append(name)
        await release.wait()


async def settle() -> None:
    """Let every ready task run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_places_are_told_as_they_change() -> None:
    """Told at once on arrival, and anew as those in front leave; then the slot."""
    limiter, releases = Limiter(1, 5), [asyncio.Event() for _ in range(4)]
    started: list[int] = []
    places: list[list[Place]] = [[] for _ in range(4)]
    tasks = [asyncio.create_task(hold(limiter, places[n], started, n, releases[n])) for n in range(4)]
    await settle()
    assert (limiter.running, limiter.waiting, started) == (1, 3, [0])
    for n in range(4):
        releases[n].set()
        await settle()
    assert started == [0, 1, 2, 3]
    assert [in_front(told) for told in places] == [[], [0], [1, 0], [2, 1, 0]]
    assert (limiter.running, limiter.waiting) == (0, 0)
    await asyncio.gather(*tasks)


async def test_full_queue_refuses_at_once() -> None:
    """Beyond the queue's length the refusal is immediate and disturbs nobody."""
    limiter, release = Limiter(1, 1), asyncio.Event()
    tasks = [asyncio.create_task(hold(limiter, [], [], n, release)) for n in range(2)]
    await settle()
    with pytest.raises(EngineBusy):
        async with limiter.slot(lambda place: None):
            pass
    release.set()
    await asyncio.gather(*tasks)
    assert limiter.running == 0


@pytest.mark.parametrize("victim", [0, 1, 2])
async def test_whoever_leaves_gives_the_place_up(victim: int) -> None:
    """Cancelled while running or waiting, a question leaves no trace in the count."""
    limiter, release = Limiter(1, 5), asyncio.Event()
    started: list[int] = []
    tasks = [asyncio.create_task(hold(limiter, [], started, n, release)) for n in range(3)]
    await settle()
    tasks[victim].cancel()
    with suppress(asyncio.CancelledError):
        await tasks[victim]
    release.set()
    await asyncio.gather(*(task for n, task in enumerate(tasks) if n != victim))
    assert (limiter.running, limiter.waiting) == (0, 0)
    assert [n for n in started if n != victim] == [n for n in range(3) if n != victim]


async def test_cancelled_in_the_moment_of_admission() -> None:
    """A slot given to a question that is cancelled in the same loop step goes to the next one."""
    limiter, release = Limiter(1, 5), asyncio.Event()
    started: list[int] = []
    first_release = asyncio.Event()
    tasks = [asyncio.create_task(hold(limiter, [], started, 0, first_release))]
    tasks += [asyncio.create_task(hold(limiter, [], started, n, release)) for n in (1, 2)]
    await settle()
    tasks[0].cancel()
    with suppress(asyncio.CancelledError):
        await tasks[0]
    tasks[1].cancel()
    release.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert started[-1] == 2
    assert (limiter.running, limiter.waiting) == (0, 0)


async def test_cancelled_in_the_step_in_which_a_slot_frees() -> None:
    """A waiter whose task has not resumed yet is passed over: no slot is lost, and the next one runs."""
    limiter, release = Limiter(1, 5), asyncio.Event()
    started: list[int] = []
    tasks = [asyncio.create_task(hold(limiter, [], started, n, release)) for n in range(3)]
    await settle()
    release.set()
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert started == [0, 2]
    assert (limiter.running, limiter.waiting) == (0, 0)


async def test_more_slots_admit_those_who_wait() -> None:
    """Another profile may allow more at once."""
    limiter, release = Limiter(1, 5), asyncio.Event()
    started: list[int] = []
    tasks = [asyncio.create_task(hold(limiter, [], started, n, release)) for n in range(3)]
    await settle()
    limiter.resize(3, 5)
    await settle()
    assert started == [0, 1, 2]
    release.set()
    await asyncio.gather(*tasks)
    await limiter.idle()
    assert limiter.running == 0


async def test_those_who_left_make_room_for_others() -> None:
    """A queue full of cancelled questions, their tasks not yet resumed, refuses nobody."""
    limiter, release = Limiter(1, 3), asyncio.Event()
    started: list[int] = []
    tasks = [asyncio.create_task(hold(limiter, [], started, n, release)) for n in range(4)]
    await settle()
    newcomer = asyncio.create_task(hold(limiter, [], started, 9, release))  # runs before the cancelled ones resume
    for task in tasks[1:]:
        task.cancel()
    await settle()
    assert limiter.waiting == 1
    release.set()
    await newcomer
    assert started == [0, 9]
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_estimate_is_of_recent_answers_and_counts_down() -> None:
    """None before any history; then from the mean time that answers held their slots, less with every second."""
    clock = Clock()
    limiter, first, release = Limiter(2, 9, clock), asyncio.Event(), asyncio.Event()
    tasks = [asyncio.create_task(hold(limiter, [], [], n, first)) for n in range(2)]
    told: list[list[Place]] = [[] for _ in range(4)]
    tasks += [asyncio.create_task(hold(limiter, told[n], [], n, release)) for n in range(4)]
    await settle()
    assert [place.seconds for place in told[0]] == [None] * len(told[0])
    clock.now += 10
    first.set()
    await settle()  # the first two held for 10 s; told[0] and told[1] run since now
    assert [told[n][-1] for n in (2, 3)] == [Place(0, 10.0), Place(1, 10.0)]
    late: list[Place] = []
    tasks.append(asyncio.create_task(hold(limiter, late, [], 9, release)))
    await settle()
    assert late[-1] == Place(2, 20.0)
    clock.now += 4
    await settle()
    assert [told[2][-1].seconds, late[-1].seconds] == [6.0, 16.0]
    clock.now += 30
    await settle()
    assert told[2][-1].seconds == 0.0
    assert told[2][-1].about is None
    release.set()
    await asyncio.gather(*tasks)


async def test_the_estimate_after_a_shrinking() -> None:
    """Three run where one may: two have to go before the next is admitted."""
    clock = Clock()
    limiter, release = Limiter(3, 9, clock), asyncio.Event()
    await asyncio.gather(*(hold(limiter, [], [], n, _set()) for n in range(3)))
    tasks = []
    for n in range(3):
        tasks.append(asyncio.create_task(hold(limiter, [], [], n, release)))
        await settle()
        clock.now += 1
    limiter.resize(1, 9)
    limiter._held.append(10.0)
    told: list[Place] = []
    tasks += [
        asyncio.create_task(hold(limiter, told, [], 3, release)),
        asyncio.create_task(hold(limiter, told, [], 4, release)),
    ]
    await asyncio.sleep(0)
    assert told[:2] == [Place(0, 9.0), Place(1, 19.0)]
    release.set()
    await asyncio.gather(*tasks)


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, None),
        (0.9, None),
        (1.0, "约 1 秒"),
        (11.2, "约 12 秒"),
        (89, "约 89 秒"),
        (95, "约 2 分钟"),
        (3600, "约 60 分钟"),
    ],
)
def test_the_estimate_in_words(seconds: float | None, words: str | None) -> None:
    """Seconds, rounded up, then minutes; nothing where nothing is known, or it is all but over."""
    about = Place(3, seconds).about
    assert (about.zh if about else None) == words


async def test_the_refusal_says_how_many_and_how_long() -> None:
    """Beyond the queue: how many wait already, and the estimate."""
    clock = Clock()
    limiter, release = Limiter(1, 2, clock), asyncio.Event()
    limiter._held.append(6.0)
    tasks = [asyncio.create_task(hold(limiter, [], [], n, release)) for n in range(3)]
    await settle()
    with pytest.raises(EngineBusy) as refused:
        async with limiter.slot(lambda place: None):
            pass
    assert refused.value.words.zh == "现在提问的人太多：前面还有 2 位在排队，要等约 18 秒。请稍后再试。"
    release.set()
    await asyncio.gather(*tasks)


async def test_a_thousand_waiting_are_told_once_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many leave within a period, each of 1,024 hears its place once: the work grows with the queue alone."""
    monkeypatch.setattr("engine.limits.TELL_S", 0.2)
    limiter, events, release = Limiter(4, 1024), [asyncio.Event() for _ in range(100)], asyncio.Event()
    told = 0

    def hear(place: Place) -> None:
        nonlocal told
        told += 1

    async def visit(n: int) -> None:
        async with limiter.slot(hear):
            await (events[n] if n < len(events) else release).wait()

    began = time.monotonic()
    tasks = [asyncio.create_task(visit(n)) for n in range(1028)]
    await settle()
    assert limiter.waiting == 1024
    for event in events:
        event.set()
        await settle()
    assert told <= 1024 * (2 + int((time.monotonic() - began) / 0.2))
    assert limiter.waiting == 924
    release.set()
    await asyncio.gather(*tasks)


async def test_closed_it_admits_nobody_and_counts_everybody() -> None:
    """Those who would have had a slot wait too; beyond them and the queue, the refusal is immediate; no estimate."""
    limiter, release, told = Limiter(2, 1), asyncio.Event(), list[Place]()
    limiter.close()
    limiter._held.append(5.0)
    started: list[int] = []
    tasks = [asyncio.create_task(hold(limiter, told, started, n, release)) for n in range(3)]
    await settle()
    assert (limiter.running, limiter.waiting) == (0, 3)
    assert {place.seconds for place in told} == {None}
    with pytest.raises(EngineBusy):
        async with limiter.slot(lambda place: None):
            pass
    limiter.open()
    await settle()
    assert (started, limiter.waiting) == ([0, 1], 1)
    release.set()
    await asyncio.gather(*tasks)
    assert started == [0, 1, 2]


async def test_the_queue_outlives_a_restart() -> None:
    """Closed, given other limits, opened: those who waited come first, in their order, then those who came meanwhile."""
    limiter, release = Limiter(1, 5), asyncio.Event()
    started: list[int] = []
    tasks = [asyncio.create_task(hold(limiter, [], started, n, release)) for n in range(3)]
    await settle()
    limiter.close()
    release.set()
    await limiter.idle()
    limiter.resize(2, 5)
    tasks += [asyncio.create_task(hold(limiter, [], started, n, release)) for n in (3, 4)]
    await settle()
    assert started == [0]
    limiter.open()
    await asyncio.gather(*tasks)
    assert started == [0, 1, 2, 3, 4]


async def test_closed_for_good_it_sends_all_away() -> None:
    """Those who wait and those who come get the reason at once; the one that is cancelled in that step too is quiet."""
    limiter, release = Limiter(1, 5), asyncio.Event()
    limiter.close()
    tasks = [asyncio.create_task(hold(limiter, [], [], n, release)) for n in range(3)]
    await settle()
    limiter.close(Words("引擎没了。", "Gone."))
    tasks[1].cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [EngineDead, asyncio.CancelledError, EngineDead]
    with pytest.raises(EngineDead, match="引擎没了。"):
        async with limiter.slot(lambda place: None):
            pass
    limiter.open()
    release.set()
    await hold(limiter, [], [], 9, release)
    assert (limiter.running, limiter.waiting) == (0, 0)


async def test_the_estimate_is_of_answers_alone() -> None:
    """Slots whose answer failed do not count, nor does the time in which a slot's holder waited for the engine."""
    clock = Clock()
    limiter = Limiter(1, 5, clock)
    with suppress(StreamBroken):
        async with limiter.slot(lambda place: None):
            raise StreamBroken(Words("断了。", "Broken."))
    assert list(limiter._held) == []
    async with limiter.slot(lambda place: None):
        clock.now += 100
        limiter.close()
        limiter.open()
        clock.now += 7
    assert list(limiter._held) == [7.0]
