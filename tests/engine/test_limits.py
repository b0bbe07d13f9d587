"""Admission: order of arrival, places told, slots given back."""

import asyncio
from contextlib import suppress

import pytest

from engine.errors import EngineBusy
from engine.limits import Limiter


async def hold(limiter: Limiter, places: list[int], started: list[int], name: int, release: asyncio.Event) -> None:
    async with limiter.slot(places.append):
        started.append(name)
        await release.wait()


async def settle() -> None:
    """Let every ready task run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_order_of_arrival_and_places() -> None:
    """One runs, the others see their places shrink and start in the order they came."""
    limiter, releases = Limiter(1, 5), [asyncio.Event() for _ in range(4)]
    started: list[int] = []
    places: list[list[int]] = [[] for _ in range(4)]
    tasks = [asyncio.create_task(hold(limiter, places[n], started, n, releases[n])) for n in range(4)]
    await settle()
    assert (limiter.running, limiter.waiting, started) == (1, 3, [0])
    for n in range(4):
        releases[n].set()
        await settle()
    assert started == [0, 1, 2, 3]
    assert places == [[], [0], [1, 0], [2, 1, 0]]
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
