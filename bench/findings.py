"""What the published tables are about, measured here."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle

from bench.asking import Asker, measure
from bench.engines import Running
from bench.levels import Work, closed_level
from bench.load import closed
from bench.memory import Resources, Watch
from bench.pace import Pace, Step, fitting
from bench.prompts import conversation, cut
from bench.samples import Level, Sample, Spread, summarise
from bench.words import say
from engine.base import ChatMessage, Sampling

A_STEPS = tuple(Step(str(clients), clients, clients, (256,), 512) for clients in (1, 4, 8, 16))
B_STEPS = (
    Step("5", 5, 5, (256,), 512),
    Step("10", 10, 10, (256, 512, 768, 1024), 512),
    Step("15", 15, 15, (256,), 512),
)
AT_ONCE = 2
"""Of the latency rows. Article B does not say how many asked at once; its own p50 x qps comes to 1.7 to 2.4."""
LATENCY_STEPS = (
    Step("short", AT_ONCE, 10, (64,), 32),
    Step("medium", AT_ONCE, 10, (128,), 200),
    Step("multi-turn", AT_ONCE, 8, (64,), 200, history=1200),
)
STEPS = (*A_STEPS, *LATENCY_STEPS, *B_STEPS)
MORE = 4
"""Times as many requests where there is no budget to keep to."""
PROBE_TOKENS = 16


@dataclass(slots=True)
class Findings:
    """Everything that the tables show; None where it has not been measured, `why_no_browser` then says why."""

    model: str
    load_s: float
    concurrent: int
    before: Resources
    idle: Resources
    here: bool
    levels: dict[str, Level] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    """Tokens of each answer, by step."""
    history_first: Spread | None = None
    """First token of a history that nothing is known of yet."""
    browser_first: Spread | None = None
    app_load_s: float | None = None
    why_no_browser: str = ""

    def json(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)


def steps(budgeted: bool) -> tuple[Step, ...]:
    """All of them; several waves of each where time does not press."""
    return STEPS if budgeted else tuple(replace(step, requests=MORE * step.requests) for step in STEPS)


async def pace_of(asker: Asker, most: int) -> Pace:
    """By a request alone, of 256 tokens, and by `most` short ones at once. The engine is warm already."""
    asker.load((256,), Sampling(max_tokens=PROBE_TOKENS, ignore_eos=True))
    alone = (await closed(asker, 1, 1))[0]
    asker.load((64,), asker.sampling)
    crowd = await closed(asker, most, most)
    among = max((sample.per_token_s or 0.0 for sample in crowd), default=0.0)
    each = alone.per_token_s or 0.0
    return Pace((alone.first_s or 0.0) / 256, each, max(among, each), most)


async def find(
    running: Running, asker: Asker, pid: int | None, findings: Findings, budget: Callable[[], float] | None
) -> None:
    """Fill in the levels. `budget` says how many seconds are left for them; without it every length is the full one."""
    pace = await pace_of(asker, min(running.plan.concurrent, 16))
    say(f"预热的速度：提示每词元 {pace.prompt_token * 1000:.2f} ms，回答每词元 {pace.alone * 1000:.1f} ms（单独）"
        f"、{pace.among_most * 1000:.1f} ms（{pace.most} 个一起）")  # fmt: skip
    remaining, share, slowness = list(steps(budget is not None)), 1.0, 1.0
    while remaining:
        if budget is not None:
            share = min(share, fitting(remaining, pace.slower(slowness), budget()))
        step = remaining.pop(0).scaled(share)
        began = time.perf_counter()
        findings.levels[step.key] = await _level(running, asker, step, pid, findings)
        findings.answers[step.key] = step.answer
        slowness = max(slowness, (time.perf_counter() - began) / max(pace.seconds(step), 1e-3))


async def _level(running: Running, asker: Asker, step: Step, pid: int | None, findings: Findings) -> Level:
    if not step.history:
        return await closed_level(asker, Work(step.lengths, step.answer, step.requests), step.clients, pid)
    return await _multi_turn(running, asker, step, pid, findings)


async def _multi_turn(running: Running, asker: Asker, step: Step, pid: int | None, findings: Findings) -> Level:
    """Questions after histories that the engine has answered before, one history a client: the prefix cache knows them."""
    engine, sampling = running.engine, Sampling(max_tokens=step.answer, ignore_eos=True)
    say(f"多轮：{step.clients} 段 {step.history} 词元的历史……")
    talks = [
        await conversation(asker.number(), step.history, step.lengths[0], engine.count) for _ in range(step.clients)
    ]
    first = [await measure(engine, talk, replace(sampling, max_tokens=1)) for talk in talks]
    findings.history_first = Spread.of([sample.first_s for sample in first if sample.first_s is not None])
    ready = await _questions(asker, running, talks, step)

    async def ask() -> Sample:
        return await measure(engine, ready.pop(0), sampling)

    with Watch(pid) as watch:
        began = time.perf_counter()
        samples = await closed(ask, step.clients, step.requests)
    return summarise(str(step.clients), samples, began, watch.resources)


async def _questions(
    asker: Asker, running: Running, talks: Sequence[Sequence[ChatMessage]], step: Step
) -> list[list[ChatMessage]]:
    """New questions, each after one of the histories in turn."""
    size = step.history + step.lengths[0]
    return [
        await cut(asker.number(), size, running.engine.count, talk[:-1])
        for talk, _ in zip(cycle(talks), range(step.requests), strict=False)
    ]
