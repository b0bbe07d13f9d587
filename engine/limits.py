"""Admission: a bounded number of answers at once, the others in order of arrival."""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from engine.errors import EngineBusy, EngineDead, ZhidaError
from engine.words import Words

TELL_S = 1.0
"""How often those who wait are told anew: once for all that moved meanwhile, so that 1,000 in the queue cost little."""
RECENT = 32
"""Answers whose time goes into the estimate."""
SHORT_S = 1.0
"""An estimate below this says nothing."""
MINUTES_FROM_S = 90


@dataclass(frozen=True, slots=True)
class Place:
    """How many wait in front, and about how many seconds it will take; None before there is any history."""

    in_front: int
    seconds: float | None

    @property
    def about(self) -> Words | None:
        """The estimate in words; None where there is none, or where it is all but over."""
        if self.seconds is None or self.seconds < SHORT_S:
            return None
        if self.seconds < MINUTES_FROM_S:
            whole = math.ceil(self.seconds)
            return Words(f"约 {whole} 秒", f"about {whole} s")
        minutes = round(self.seconds / 60)
        return Words(f"约 {minutes} 分钟", f"about {minutes} min")


OnPlace = Callable[[Place], None]
Ticket = asyncio.Future[None]


class Limiter:
    """`concurrent` slots and `queued` places to wait for one. While it is closed nobody is admitted, and those who would
    have a slot wait too: one queue, in order of arrival, before and after.

    The estimate: each answer is taken to hold its slot for the mean time of the last RECENT ones, so the running ones
    end in the order in which they began, each followed by the next in the queue.
    """

    def __init__(self, concurrent: int, queued: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.concurrent, self.queued = concurrent, queued
        self._clock = clock
        self._started: dict[Ticket, float] = {}
        self._queue: OrderedDict[Ticket, OnPlace] = OrderedDict()
        self._held: deque[float] = deque(maxlen=RECENT)
        self._teller: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_open = True
        self._refusal: Words | None = None

    @property
    def running(self) -> int:
        """Slots in use."""
        return len(self._started)

    @property
    def waiting(self) -> int:
        """Questions in the queue, without those cancelled in this very step, whose tasks have not resumed yet."""
        return sum(not ticket.done() for ticket in self._queue)

    def resize(self, concurrent: int, queued: int) -> None:
        """Take new limits, of a new engine: its speed is unknown; whoever runs or waits already is not disturbed."""
        self.concurrent, self.queued = concurrent, queued
        self._held.clear()
        self._admit()

    def open(self) -> None:
        """Admit. Whoever holds a slot already has waited in it: its time begins now."""
        self._is_open, self._refusal = True, None
        self._started = dict.fromkeys(self._started, self._clock())
        self._admit()

    def close(self, why: Words | None = None) -> None:
        """Admit nobody until `open`. Those who come meanwhile queue behind those who wait; given a reason, all are sent
        away with it."""
        self._is_open, self._refusal = False, why
        while why and self._queue:
            ticket, _ = self._queue.popitem(last=False)
            if not ticket.done():
                ticket.set_exception(EngineDead(why))
                ticket.exception()  # seen, even where its task is cancelled before it resumes

    async def idle(self) -> None:
        """Wait until no slot is in use."""
        await self._idle.wait()

    @asynccontextmanager
    async def slot(self, on_place: OnPlace) -> AsyncIterator[None]:
        """Hold a slot; `on_place` hears the place in the queue at once and then every TELL_S. Raises EngineBusy at once
        when the queue is full, EngineDead after `close` with a reason. An answer that fails says nothing of how long one takes."""
        ticket = await self._enter(on_place)
        has_failed = False
        try:
            yield
        except ZhidaError:
            has_failed = True
            raise
        finally:
            if not has_failed:
                self._held.append(self._clock() - self._started[ticket])
            self._leave(ticket)

    async def _enter(self, on_place: OnPlace) -> Ticket:
        if self._refusal:
            raise EngineDead(self._refusal)
        ticket: Ticket = asyncio.get_running_loop().create_future()
        if self._is_open and self.running < self.concurrent and not self._queue:
            self._start(ticket)
            return ticket
        self._refuse_beyond_the_queue()
        self._queue[ticket] = on_place
        try:
            on_place(self._place(self.waiting - 1, list(self._started.values())))
            self._tell_later()
            await ticket
        except BaseException:  # cancelled, above all: whatever the reason, the place is given up
            self._queue.pop(ticket, None)
            if ticket in self._started:  # admitted in the very step in which it was cancelled
                self._leave(ticket)
            raise
        return ticket

    def _refuse_beyond_the_queue(self) -> None:
        waiting = self.waiting
        idle_slots = 0 if self._is_open else max(0, self.concurrent - self.running)
        if waiting >= self.queued + idle_slots:
            raise EngineBusy(_full(self._place(waiting, list(self._started.values()))))

    def _place(self, in_front: int, started: Sequence[float]) -> Place:
        """`started`: when the running ones began, oldest first.

        The n-th departure is that of the n-th running answer, and beyond those that of whoever took the slot freed
        `concurrent` departures earlier. After a shrinking, the first departures admit nobody.
        """
        if not self._is_open or not self._held or not started:
            return Place(in_front, None)
        hold = sum(self._held) / len(self._held)
        departure = in_front + max(0, len(started) - self.concurrent)
        rounds = max(0, math.ceil((departure - len(started) + 1) / self.concurrent))
        until_free = max(0.0, started[departure - rounds * self.concurrent] + hold - self._clock())
        return Place(in_front, until_free + rounds * hold)

    def _start(self, ticket: Ticket) -> None:
        self._started[ticket] = self._clock()
        self._idle.clear()

    def _leave(self, ticket: Ticket) -> None:
        del self._started[ticket]
        if not self._started:
            self._idle.set()
        self._admit()

    def _admit(self) -> None:
        while self._is_open and self._queue and self.running < self.concurrent:
            ticket, _ = self._queue.popitem(last=False)
            if not ticket.done():  # cancelled in this very step, its task not yet resumed
                self._start(ticket)
                ticket.set_result(None)

    def _tell_later(self) -> None:
        if self._teller is None and self._queue:
            self._teller = asyncio.get_running_loop().call_later(TELL_S, self._tell)

    def _tell(self) -> None:
        self._teller = None
        started = list(self._started.values())
        here = (item for item in self._queue.items() if not item[0].done())
        for in_front, (_, on_place) in enumerate(list(here)):
            on_place(self._place(in_front, started))
        self._tell_later()


def _full(place: Place) -> Words:
    """The refusal: how many wait, and about how long it would take."""
    if place.in_front == 0:
        return Words("现在提问的人太多，请稍后再试。", "Too many questions at the moment, please try again shortly.")
    zh = f"，要等{place.about.zh}" if place.about else ""
    en = f", {place.about.en} long" if place.about else ""
    return Words(
        f"现在提问的人太多：前面还有 {place.in_front} 位在排队{zh}。请稍后再试。",
        f"Too many questions at the moment: {place.in_front} are queued{en}. Please try again shortly.",
    )
