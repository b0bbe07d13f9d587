"""Levels of load over one engine: warmed up, asked, watched, and summed up."""

import math
import os
import time
from dataclasses import asdict, dataclass

from bench.asking import Asker
from bench.load import arrivals, closed, opened
from bench.memory import Watch
from bench.samples import Level, Sample, summarise
from bench.words import refused, say
from engine.base import Sampling

WARM_UP_TOKENS = 16
WAVES = 2
"""Without a number of requests, every client of a closed loop asks this often."""


@dataclass(frozen=True, slots=True)
class Work:
    """What each request asks and for how long: prompt and answer lengths in tokens, requests or seconds a level."""

    lengths: tuple[int, ...] = (256,)
    answer: int = 512
    requests: int | None = None
    seconds: float | None = None
    ignore_eos: bool = True

    @property
    def sampling(self) -> Sampling:
        """At the product's temperature; to the full length, unless the model may end by itself."""
        return Sampling(max_tokens=self.answer, ignore_eos=self.ignore_eos)

    def json(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)

    def asked(self, clients: int) -> int | None:
        """Requests of a closed loop; None where seconds decide."""
        return None if self.seconds is not None else self.requests or WAVES * clients

    def schedule(self, rate: float, seed: int) -> list[float]:
        """Arrivals of an open loop, without requests and seconds for about 10 s. Raises ConfigurationError for none."""
        requests = self.requests if self.requests or self.seconds else max(1, math.ceil(10 * rate))
        return arrivals(rate, requests, self.seconds, seed)


async def warm_up(asker: Asker, work: Work, at_once: int = 0) -> list[Sample]:
    """One request, then `at_once` together, none of them counted. Raises ConfigurationError where nothing is answered."""
    asker.load(work.lengths, Sampling(max_tokens=min(WARM_UP_TOKENS, work.answer), ignore_eos=work.ignore_eos))
    await asker.prepare(1)  # a length that cannot be had is refused here
    samples = await closed(asker, 1, 1)
    if samples[0].error:
        raise refused(
            f"预热的请求没有得到回答（{samples[0].error}），没有测量。",
            f"The warm-up request was not answered ({samples[0].error}); nothing was measured.",
        )
    if at_once:
        samples += await closed(asker, at_once, at_once)
    return samples


async def closed_level(asker: Asker, work: Work, clients: int, pid: int | None) -> Level:
    """`clients` that ask again as soon as they are answered."""
    asker.load(work.lengths, work.sampling)
    requests = work.asked(clients)
    await asker.prepare(clients if requests is None else requests)
    say(f"并发 {clients}：{f'{requests} 个请求' if requests is not None else f'{work.seconds:g} 秒'}……")
    with Watch(pid) as watch:
        began, cpu = time.perf_counter(), time.process_time()
        samples = await closed(asker, clients, requests, work.seconds)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
    return summarise(str(clients), samples, began, watch.resources, share)


async def open_level(asker: Asker, work: Work, rate: float, seed: int, pid: int | None) -> Level:
    """Arrivals at `rate` a second, whether or not earlier ones have been answered."""
    moments = work.schedule(rate, seed)
    asker.load(work.lengths, work.sampling)
    await asker.prepare(len(moments))
    say(f"每秒 {rate:g} 个（泊松）：{len(moments)} 个请求……")
    with Watch(pid) as watch:
        began, cpu = time.perf_counter(), time.process_time()
        samples = await opened(asker, moments)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
    return summarise(f"{rate:g}/s", samples, began, watch.resources, share)


def own_pid(is_here: bool) -> int | None:
    """The process whose memory counts for an engine: this one, where the engine is here."""
    return os.getpid() if is_here else None
