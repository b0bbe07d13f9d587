"""Load: closed loops of clients that ask again as soon as they are answered, and an open loop of Poisson arrivals."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.samples import Sample
from bench.words import refused

Ask = Callable[[], Awaitable[Sample]]
"""Ask the next prompt and measure; raises nothing but CancelledError."""
FATAL = "EngineDead"
"""After this every further request would fail at once."""


async def closed(ask: Ask, clients: int, requests: int | None, seconds: float | None = None) -> list[Sample]:
    """`clients` at once until `requests` have been asked, or `seconds` are over; what runs then is still awaited."""
    samples: list[Sample] = []
    tickets = iter(range(requests)) if requests is not None else _until(time.perf_counter() + (seconds or 0.0))

    async def client() -> None:
        for _ in tickets:
            sample = await ask()
            samples.append(sample)
            if sample.error == FATAL:
                return
            await asyncio.sleep(0)  # a refusal may come without anything having been awaited

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return samples


def _until(deadline: float) -> Iterator[None]:
    while time.perf_counter() < deadline:
        yield None


def arrivals(rate: float, requests: int | None, seconds: float | None, seed: int) -> list[float]:
    """Seconds after the start at which requests arrive: a Poisson process of `rate` a second, the same for the same seed.

    Raises ConfigurationError where none arrives within `seconds`.
    """
    chance, now = random.Random(seed), 0.0
    moments: list[float] = []
    while requests is None or len(moments) < requests:
        now += chance.expovariate(rate)
        if seconds is not None and now > seconds:
            break
        moments.append(now)
    if not moments:
        raise refused(
            f"每秒 {rate:g} 个，{seconds:g} 秒里没有一个请求到达：请加大 --rate 或 --seconds。",
            f"At {rate:g} a second no request arrives within {seconds:g} s: raise --rate or --seconds.",
        )
    return moments


async def opened(ask: Ask, moments: list[float]) -> list[Sample]:
    """A request at each of `moments`, however many are still running."""
    samples: list[Sample] = []

    async def request() -> None:
        samples.append(await ask())

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for moment in moments:
            await asyncio.sleep(began + moment - time.perf_counter())
            group.create_task(request())
    return samples
