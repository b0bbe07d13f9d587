"""Asking an engine, and how long it takes."""

import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing

from bench.prompts import cut
from bench.samples import Sample
from engine.base import ChatMessage, Delta, Engine, Sampling
from engine.errors import ZhidaError


async def measure(engine: Engine, messages: Sequence[ChatMessage], sampling: Sampling) -> Sample:
    """One request from submission to end."""
    submitted, first_s, characters = time.perf_counter(), None, 0
    last: Delta | None = None
    try:
        async with aclosing(engine.stream(messages, sampling, f"bench-{uuid.uuid4()}")) as deltas:
            async for last in deltas:
                if last.text:
                    characters += len(last.text)
                    if first_s is None:
                        first_s = time.perf_counter() - submitted
    except ZhidaError as error:
        return Sample(submitted, first_s, time.perf_counter() - submitted, error=type(error).__name__)
    total_s = time.perf_counter() - submitted
    usage = last.usage if last else None
    if usage is None:
        return Sample(submitted, first_s, total_s, characters=characters, error="NoUsage")
    return Sample(submitted, first_s, total_s, usage.prompt_tokens, usage.answer_tokens, characters)


class Asker:
    """Prompts of stated lengths, cut before the clock starts where their number is known, and the next one asked."""

    def __init__(self, engine: Engine, first_number: int) -> None:
        self._engine, self._number = engine, first_number
        self._ready: deque[list[ChatMessage]] = deque()
        self.lengths: Sequence[int] = (256,)
        self.sampling = Sampling(ignore_eos=True)
        self.counts_first = False
        """Count each prompt before its clock starts, as the app does: a server then need not be asked by `stream`."""

    def load(self, lengths: Sequence[int], sampling: Sampling) -> None:
        """What the next level asks: prompts whose lengths take turns, and how they are to be answered."""
        self.lengths, self.sampling = lengths, sampling
        self._ready.clear()

    async def prepare(self, prompts: int) -> None:
        """Cut prompts now."""
        for _ in range(prompts):
            self._ready.append(await self.fresh())

    async def fresh(self) -> list[ChatMessage]:
        """A prompt that no request has begun with yet."""
        number = self.number()
        return await cut(number, self.lengths[number % len(self.lengths)], self._engine.count)

    def number(self) -> int:
        """The next number that no prompt has begun with yet."""
        self._number += 1
        return self._number

    async def __call__(self) -> Sample:
        """See load.Ask."""
        try:
            messages = self._ready.popleft() if self._ready else await self.fresh()
            if self.counts_first:
                await self._engine.count(messages)
        except ZhidaError as error:
            return Sample(time.perf_counter(), None, 0.0, error=type(error).__name__)
        return await measure(self._engine, messages, self.sampling)
