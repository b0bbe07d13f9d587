"""Our in-process engine against the AsyncLLM that it holds: the same prompts, alternately, in one run."""

import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.asking import Asker
from bench.levels import Work, closed_level
from bench.load import closed
from bench.memory import Watch
from bench.samples import Sample
from bench.words import say
from engine.base import ChatMessage
from engine.inprocess import InProcessEngine


@dataclass(frozen=True, slots=True)
class Versus:
    """Tokens/s of each round, in the order in which they ran: bare, ours, bare, ours …"""

    clients: int
    bare: list[float]
    ours: list[float]

    @property
    def ratio(self) -> float:
        """Median of ours over median of bare."""
        return median(self.ours) / median(self.bare)

    def json(self) -> dict[str, object]:
        """As plain data."""
        return {**asdict(self), "ratio": self.ratio}


async def against_bare(engine: InProcessEngine, asker: Asker, work: Work, clients: int, rounds: int) -> Versus:
    """`rounds` of each; every round asks new prompts, rendered for the bare rounds before their clock starts."""
    found = Versus(clients, [], [])
    for number in range(1, rounds + 1):
        say(f"第 {number}/{rounds} 轮")
        found.bare.append(await _bare_round(engine, asker, work, clients))
        found.ours.append((await closed_level(asker, work, clients, None)).tokens_per_s)
    return found


async def _bare_round(engine: InProcessEngine, asker: Asker, work: Work, clients: int) -> float:
    """Tokens/s of vLLM's own iterators, of which nothing is done but counting."""
    asker.load(work.lengths, work.sampling)
    requests = work.asked(clients) or clients
    prompts = [await asker.fresh() for _ in range(requests)]
    ready = deque([await _rendered(engine, prompt, work) for prompt in prompts])

    async def ask() -> Sample:
        submitted, tokens = time.perf_counter(), 0
        async for output in ready.popleft():
            tokens += len(output.outputs[0].token_ids)
        return Sample(submitted, None, time.perf_counter() - submitted, answer_tokens=tokens)

    say(f"直接用 vLLM，并发 {clients}：{requests} 个请求……")
    with Watch(None):  # as in the rounds of ours
        began = time.perf_counter()
        samples = await closed(ask, clients, requests)
    wall_s = max(sample.submitted + sample.total_s for sample in samples) - began
    return sum(sample.answer_tokens for sample in samples) / wall_s


async def _rendered(engine: InProcessEngine, prompt: list[ChatMessage], work: Work) -> AsyncIterator[Any]:
    return await engine.bare(prompt, work.sampling, f"bare-{uuid.uuid4()}")
