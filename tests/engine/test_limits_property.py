"""Admission under any crowd: arrivals, departures, people giving up, other limits, closed and opened; also a hundred at once."""

import asyncio
from typing import Literal
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineBusy
from engine.limits import Limiter, Place, Ticket

Act = tuple[Literal["arrive", "finish", "give up", "resize", "turn", "snatch", "close", "open"], int]
acts: st.SearchStrategy[Act] = st.one_of(
    st.tuples(st.just("arrive"), st.just(0)),
    st.tuples(st.just("arrive"), st.just(0)),
    st.tuples(st.sampled_from(["finish", "give up", "resize"]), st.integers(0, 1_000_000)),
    st.tuples(st.just("turn"), st.integers(1, 3)),
    st.tuples(st.just("snatch"), st.integers(0, 1_000_000)),
    st.tuples(st.sampled_from(["close", "open"]), st.just(0)),
)

FULL_HOUSE: list[Act] = [("arrive", 0)] * 108


class Watched(Limiter):
    """Notes whether a slot was ever given beyond the limit in force at that moment."""

    overfull = False

    def _start(self, ticket: Ticket) -> None:
        self.overfull = self.overfull or self.running >= self.concurrent or not self._is_open
        super()._start(ticket)


class Crowd:
    """Visitors of a limiter, and what must be true of them at any time."""

    def __init__(self, concurrent: int, queued: int) -> None:
        self.limiter = Watched(concurrent, queued)
        self.tasks: list[asyncio.Task[None]] = []
        self.done: list[asyncio.Event] = []
        self.waiting: list[int] = []
        self.running: list[int] = []
        self.refused: set[int] = set()
        self.gave_up: set[int] = set()
        self.served: set[int] = set()

    async def visit(self, number: int) -> None:
        told: list[Place] = []

        def hear(place: Place) -> None:
            if not told:
                self.waiting.append(number)
            told.append(place)
            admitted = self.limiter.running - len(self.running)  # their tasks have not resumed yet
            index = self.waiting.index(number)
            assert index - admitted <= place.in_front <= index

        try:
            async with self.limiter.slot(hear):
                assert not self.waiting or self.waiting[0] == number or number not in self.waiting
                if number in self.waiting:
                    self.waiting.remove(number)
                self.running.append(number)
                try:
                    await self.done[number].wait()
                    self.served.add(number)
                finally:
                    self.running.remove(number)
        except EngineBusy:
            assert len(self.waiting) >= self.limiter.queued
            self.refused.add(number)

    def act(self, what: str, choice: int) -> None:
        if what == "arrive":
            self.done.append(asyncio.Event())
            self.tasks.append(asyncio.create_task(self.visit(len(self.tasks))))
        elif what == "resize":
            self.limiter.resize(1 + choice % 5, choice % 7)
        elif what == "close":
            self.limiter.close()
        elif what == "open":
            self.limiter.open()
        elif what == "finish" and self.running:
            self.done[self.running[choice % len(self.running)]].set()
        elif what == "give up" and self.tasks:
            alive = self.waiting[:2] + self.running or [choice % len(self.tasks)]
            self.give_up(alive[choice % len(alive)])

    def give_up(self, number: int) -> None:
        if not self.tasks[number].done() and number not in self.gave_up:
            self.gave_up.add(number)
            self.tasks[number].cancel()
            if number in self.waiting:
                self.waiting.remove(number)

    async def settle(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)
        assert self.limiter.running == len(self.running)
        assert self.limiter.waiting == len(self.waiting)
        has_room = self.limiter._is_open and len(self.running) < self.limiter.concurrent
        assert not self.waiting or not has_room  # nobody waits beside a free slot

    async def go_home(self) -> None:
        """All who run finish, until nobody is left."""
        self.limiter.open()
        await self.settle()
        while self.running or self.waiting:
            for number in self.running:
                self.done[number].set()
            await self.settle()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def play(concurrent: int, queued: int, plan: list[Act]) -> None:
    crowd = Crowd(concurrent, queued)
    for what, choice in plan:
        if what == "turn":
            for _ in range(choice):
                await asyncio.sleep(0)
        elif what == "snatch":  # whoever is given the slot gives up before having resumed
            crowd.act("finish", choice)
            await asyncio.sleep(0)
            crowd.act("give up", 0)
        else:
            crowd.act(what, choice)
    await crowd.settle()
    await crowd.go_home()
    faults = [task.exception() for task in crowd.tasks if not task.cancelled() and task.exception()]
    assert faults == []
    assert not crowd.limiter.overfull
    assert (crowd.limiter.running, crowd.limiter.waiting) == (0, 0)
    everybody = set(range(len(crowd.tasks)))
    assert crowd.served | crowd.refused | crowd.gave_up == everybody  # nobody is lost
    await asyncio.wait_for(crowd.limiter.idle(), 1)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.integers(0, 6), st.lists(acts, max_size=60))
def test_any_crowd(concurrent: int, queued: int, plan: list[Act]) -> None:
    """Never more than the limit run, strictly in order of arrival, places true, nobody lost, no slot leaked."""
    with patch("engine.limits.TELL_S", 0):
        asyncio.run(play(concurrent, queued, plan))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), st.lists(acts, max_size=120))
def test_a_hundred_waiting(concurrent: int, plan: list[Act]) -> None:
    """The same with a hundred in the queue from the beginning."""
    with patch("engine.limits.TELL_S", 0):
        asyncio.run(play(concurrent, 100, [*FULL_HOUSE[: 100 + concurrent], ("turn", 3), *plan]))
