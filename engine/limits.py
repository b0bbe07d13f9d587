"""Admission: a bounded number of answers at once, the others in order of arrival."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.errors import EngineBusy
from engine.words import Words


class Limiter:
    """`concurrent` slots and `queued` places to wait for one."""

    def __init__(self, concurrent: int, queued: int) -> None:
        self.concurrent, self.queued = concurrent, queued
        self._running = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._notify: dict[asyncio.Future[None], Callable[[int], None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """Slots in use."""
        return self._running

    @property
    def waiting(self) -> int:
        """Questions in the queue."""
        return len(self._queue)

    def resize(self, concurrent: int, queued: int) -> None:
        """Take new limits; whoever runs or waits already is not disturbed."""
        self.concurrent, self.queued = concurrent, queued
        self._admit()

    async def idle(self) -> None:
        """Wait until no slot is in use."""
        await self._idle.wait()

    @asynccontextmanager
    async def slot(self, on_place: Callable[[int], None]) -> AsyncIterator[None]:
        """Hold a slot; `on_place` hears how many wait in front, each time that changes. Raises EngineBusy at once
        when the queue is full."""
        await self._enter(on_place)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, on_place: Callable[[int], None]) -> None:
        if self._running < self.concurrent and not self._queue:
            self._take()
            return
        if len(self._queue) >= self.queued:
            raise EngineBusy(
                Words("现在提问的人太多，请稍后再试。", "Too many questions at the moment, please try again shortly.")
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._notify[turn] = on_place
        on_place(len(self._queue) - 1)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            elif turn in self._queue:  # else it was passed over already
                self._queue.remove(turn)
                self._tell_places()
            raise
        finally:
            del self._notify[turn]

    def _take(self) -> None:
        self._running += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._running -= 1
        if not self._running:
            self._idle.set()
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._running < self.concurrent:
            turn = self._queue.popleft()
            if not turn.done():  # cancelled in this very step, its task not yet resumed
                self._take()
                turn.set_result(None)
        self._tell_places()

    def _tell_places(self) -> None:
        for place, turn in enumerate(self._queue):
            self._notify[turn](place)
