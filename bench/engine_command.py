"""`python -m bench engine`."""

import argparse
import secrets

from bench.asking import Asker
from bench.bare import Versus, against_bare
from bench.engines import Running, planned, running
from bench.levels import Work, closed_level, open_level, own_pid, warm_up
from bench.prompts import NUMBERS
from bench.report import conclude, show
from bench.samples import Level
from bench.versions import circumstances
from bench.words import refused
from engine.settings import Settings

DISTINCT = "每个请求的提示从第一个词元起就不同，前缀缓存帮不上忙（模型自带的系统提示除外）；多轮对话命中缓存的情形见 python -m bench tables"
HERE = "内存：本进程与其子进程的常驻内存之和（共享页重复计）"
ELSEWHERE = "引擎不在本进程：它的内存无法测量"
WHOLE_CARD = "显卡：整块卡已用的显存，含其他程序"
QUEUES = "并发超过同时生成的上限 {limit} 的请求在引擎内排队，首字时间含等待"


async def run(arguments: argparse.Namespace) -> int:
    """Measure the engine of the present settings."""
    settings = Settings.load()
    work = Work((arguments.input,), arguments.output, arguments.requests, arguments.seconds)
    _check(settings, work, arguments)
    planned(settings, arguments.eager)
    async with running(settings, arguments.eager) as engine:
        asker = Asker(engine.engine, secrets.randbelow(NUMBERS))
        if arguments.against:
            found = await _versus(engine, asker, work, arguments)
        else:
            found = await _levels(engine, asker, work, arguments)
    profile = engine.choice.profile if engine.choice else None
    conclude({**circumstances(settings, profile), **found}, arguments.save)
    return 0


def _check(settings: Settings, work: Work, arguments: argparse.Namespace) -> None:
    """Refuse, before anything is loaded, what cannot be measured."""
    if (arguments.against or arguments.eager) and settings.backend != "inprocess":
        raise refused(
            f"--against bare 和 --eager 只能用于本进程内的引擎，现在的引擎是 {settings.backend}。",
            f"--against bare and --eager are for the in-process engine; the backend is {settings.backend}.",
        )
    if arguments.input + arguments.output > settings.engine_max_model_len:
        raise refused(
            f"--input {arguments.input} 加 --output {arguments.output} 超过窗口 {settings.engine_max_model_len}。",
            f"--input {arguments.input} and --output {arguments.output} exceed the window of {settings.engine_max_model_len}.",
        )
    if arguments.rate is not None:
        work.schedule(arguments.rate, arguments.seed)  # refuses an empty one


async def _levels(engine: Running, asker: Asker, work: Work, arguments: argparse.Namespace) -> dict[str, object]:
    await warm_up(asker, work, at_once=max(arguments.concurrency) if arguments.rate is None else 0)
    pid = own_pid(engine.choice is not None)
    levels: list[Level] = []
    if arguments.rate is not None:
        levels.append(await open_level(asker, work, arguments.rate, arguments.seed, pid))
    else:
        for clients in arguments.concurrency:
            levels.append(await closed_level(asker, work, clients, pid))
    show(title(engine.engine.info.model, work), levels, notes(engine, levels))
    return {
        "kind": "engine",
        "load_s": engine.load_s,
        "work": work.json(),
        "levels": [level.json() for level in levels],
    }


def title(model: str, work: Work) -> str:
    """What was asked of what."""
    return f"{model} · 提示 {'/'.join(map(str, work.lengths))} 词元，回答 {work.answer} 词元"


def notes(engine: Running, levels: list[Level]) -> list[str]:
    """What a reader has to know."""
    found = [f"引擎就绪用时 {engine.load_s:.1f} 秒", DISTINCT, HERE if engine.choice else ELSEWHERE]
    if any(level.resources.gpu_mib is not None for level in levels):
        found.append(WHOLE_CARD)
    if engine.choice and max(level.most_at_once for level in levels) > engine.plan.concurrent:
        found.append(QUEUES.format(limit=engine.plan.concurrent))
    return found


async def _versus(engine: Running, asker: Asker, work: Work, arguments: argparse.Namespace) -> dict[str, object]:
    from engine.inprocess import InProcessEngine

    assert isinstance(engine.engine, InProcessEngine)
    await warm_up(asker, work, at_once=max(arguments.concurrency))
    found = [
        await against_bare(engine.engine, asker, work, clients, arguments.rounds) for clients in arguments.concurrency
    ]
    for versus in found:
        print(_sentence(versus))
    return {"kind": "against bare", "work": work.json(), "versus": [versus.json() for versus in found]}


def _sentence(versus: Versus) -> str:
    rounds = "；".join(f"{bare:,.1f} / {ours:,.1f}" for bare, ours in zip(versus.bare, versus.ours, strict=True))
    return f"并发 {versus.clients}：本引擎是 vLLM 直接输出的 {versus.ratio:.1%}（各轮 vLLM / 本引擎，词元/s：{rounds}）"
