"""`python -m bench app`."""

import argparse
import secrets
from collections.abc import Sequence

from bench.app_load import TOKENS, Share, generated, processes_for
from bench.app_target import Target, found, started
from bench.asking import Asker
from bench.chat_client import ChatClient
from bench.engines import planned, running
from bench.levels import WARM_UP_TOKENS, WAVES, Work, closed_level, warm_up
from bench.memory import Watch
from bench.prompts import NUMBERS, text
from bench.report import conclude, show
from bench.samples import Level, Sample, summarise
from bench.versions import circumstances
from bench.words import refused, say
from engine.settings import Settings

PROBE = 60
"""Characters of the shorter of the two questions that tell how many tokens a character is."""
NEW_CHATS = "每个问题都在新的对话里，对话在计时之前打开；系统提示词清空，提示即问题加对话模板，第一个词元起就不同"
COUNTED = "词元数取自页面的脚注；回答可能自己结束，不足设定的长度"
ADMISSION = "应用对同时生成的回答数有上限，超出的排队，首字时间含等待；排不下的计为错误"
BUSY_SHARE = 0.8
BUSY = "压测端的一个进程用了 {share:.0%} 的核，已接近极限：可加 --processes"


async def run(arguments: argparse.Namespace) -> int:
    """Measure the app, alone or against the engine."""
    settings = Settings.load()
    if arguments.seconds and not arguments.rate:
        raise refused(
            "压测应用时，--seconds 要与 --rate 一起用；闭环请用 --requests。",
            "For the app --seconds goes with --rate; closed loops take --requests.",
        )
    work = Work((arguments.input,), arguments.output, arguments.requests, arguments.seconds, ignore_eos=False)
    measured = await (_against(settings, work, arguments) if arguments.against else _alone(work, arguments))
    conclude({**circumstances(settings, None), **measured}, arguments.save)
    return 0


async def _alone(work: Work, arguments: argparse.Namespace) -> dict[str, object]:
    """The levels of one app."""
    moments = None if arguments.rate is None else work.schedule(arguments.rate, arguments.seed)
    async with started() if arguments.start else found(arguments.url) as target:
        number = secrets.randbelow(NUMBERS)
        characters = await calibrate(target.url, number, work)
        counter = iter(range(number + 2, number + NUMBERS))
        levels: list[Level] = []
        crowd = 1 if arguments.rate else max(arguments.concurrency)
        for clients in [0] if arguments.rate else arguments.concurrency:
            asked = len(moments) if moments is not None else work.asked(clients) or WAVES * clients
            questions = [text(next(counter), characters) for _ in range(asked)]
            if not levels:
                await _warm_up(target, [text(next(counter), characters) for _ in range(crowd)], arguments)
            levels.append(await app_level(target, questions, work.answer, clients, moments, arguments.processes))
    _show(target, work, levels)
    return {"kind": "app", "load_s": target.load_s, "work": work.json(), "levels": [level.json() for level in levels]}


def _show(target: Target, work: Work, levels: Sequence[Level]) -> None:
    notes = [NEW_CHATS, COUNTED, ADMISSION]
    if target.load_s is not None:
        notes.insert(0, f"应用从启动到能回答用时 {target.load_s:.1f} 秒")
    busiest = max((level.client_cpu or 0.0 for level in levels), default=0.0)
    if busiest > BUSY_SHARE:
        notes.append(BUSY.format(share=busiest))
    sizes = [level.prompt_tokens for level in levels]
    tokens = f"{min(low for low, _ in sizes)}–{max(high for _, high in sizes)}"
    show(f"{target.model} · 经应用的 Socket.IO · 提示 {tokens} 词元，回答至多 {work.answer} 词元", levels, notes)


async def calibrate(url: str, number: int, work: Work) -> int:
    """Characters of a question that makes a prompt of about `work`'s tokens, by the footers of two short answers.

    Raises ConfigurationError where the app does not take the lengths.
    """
    small, large = [await _probe(url, text(number + i, size), work.answer) for i, size in ((0, PROBE), (1, 4 * PROBE))]
    a_character = (large - small) / (3 * PROBE)
    characters = PROBE + round((work.lengths[0] - small) / a_character)
    if characters < 1:
        raise refused(
            f"--input {work.lengths[0]} 太短：对话模板本身就超过它。",
            f"--input {work.lengths[0]} is too short: the chat template alone is longer.",
        )
    return characters


async def _probe(url: str, question: str, answer: int) -> int:
    """Prompt tokens of a question, by the footer of its answer."""
    async with ChatClient(url) as page:
        longest = next(int(widget["max"]) for widget in page.settings if widget["id"] == "max_tokens")
        if answer > longest:
            raise refused(
                f"--output {answer} 超过应用允许的最长回答 {longest}。",
                f"--output {answer} exceeds the app's longest answer of {longest}.",
            )
        await page.change_settings(max_tokens=WARM_UP_TOKENS, system="")
        answered = await page.ask(question)
        counted = TOKENS.search(page.footer["facts"][-1]) if page.footers and page.footer["facts"] else None
        if counted is None:
            raise refused(f"预热的问题没有得到回答：{answered}", f"The warm-up question was not answered: {answered}")
        return int(counted[1])


async def _warm_up(target: Target, questions: Sequence[str], arguments: argparse.Namespace) -> None:
    """As many short answers at once as the first level has clients; not counted."""
    share = Share(target.url, questions, WARM_UP_TOKENS, len(questions))
    await generated(share, processes_for(len(questions), arguments.processes))


async def app_level(
    target: Target, questions: Sequence[str], answer: int, clients: int, moments: list[float] | None, wanted: int | None
) -> Level:
    """One level: `clients` at once, or arrivals at `moments`."""
    at_once = clients or len(questions)
    processes = processes_for(at_once, wanted)
    load = str(clients) if moments is None else f"{len(moments) / max(moments[-1], 1e-9):.2g}/s"
    say(f"应用，负载 {load}：{len(questions)} 个问题，压测端 {processes} 个进程……")
    whole = Share(target.url, questions, answer, at_once, moments)
    with Watch(target.pid) as watch:
        began, outcomes = await generated(whole, processes)
    samples: list[Sample] = [sample for outcome in outcomes for sample in outcome.samples]
    return summarise(load, samples, began, watch.resources, max(outcome.cpu for outcome in outcomes))


async def _against(settings: Settings, work: Work, arguments: argparse.Namespace) -> dict[str, object]:
    """The engine alone, then the app with an engine of the same kind and size, over prompts of the same lengths."""
    if arguments.rate:
        raise refused(
            "--against engine 只比较闭环，不能用 --rate。", "--against engine compares closed loops: no --rate."
        )
    planned(settings)
    asked = {clients: work.asked(clients) or WAVES * clients for clients in arguments.concurrency}
    async with running(settings) as engine:
        asker = Asker(engine.engine, secrets.randbelow(NUMBERS))
        await warm_up(asker, work, at_once=max(arguments.concurrency))
        alone = [await closed_level(asker, work, clients, None) for clients in arguments.concurrency]
        questions = {
            clients: [(await asker.fresh())[-1]["content"] for _ in range(asked[clients])] for clients in asked
        }
        warming = [(await asker.fresh())[-1]["content"] for _ in range(max(arguments.concurrency))]
    context = found(arguments.url) if settings.backend == "server" and not arguments.start else started()
    async with context as target:
        await _warm_up(target, warming, arguments)
        through = [
            await app_level(target, questions[clients], work.answer, clients, None, arguments.processes)
            for clients in arguments.concurrency
        ]
    show(f"{target.model} · 引擎单独", alone)
    _show(target, work, through)
    ratios = [_ratios(clients, *pair) for clients, pair in zip(asked, zip(alone, through, strict=True), strict=True)]
    for ratio in ratios:
        print(_sentence(ratio))
    rows = {"alone": [level.json() for level in alone], "through_app": [level.json() for level in through]}
    return {"kind": "app against engine", "work": work.json(), **rows, "ratios": ratios}


def _ratios(clients: int, alone: Level, through: Level) -> dict[str, float]:
    """Tokens/s as a share, and what the app adds to the first token, in seconds, mean and median."""
    found = {
        "clients": float(clients),
        "tokens_per_s": through.tokens_per_s / alone.tokens_per_s if alone.tokens_per_s else 0.0,
    }
    if alone.first_s and through.first_s:
        found["first_mean_added_s"] = through.first_s.mean - alone.first_s.mean
        found["first_p50_added_s"] = through.first_s.p50 - alone.first_s.p50
    return found


def _sentence(ratio: dict[str, float]) -> str:
    added = f"，首字多 {ratio['first_p50_added_s'] * 1000:.0f} ms（P50）" if "first_p50_added_s" in ratio else ""
    return f"并发 {ratio['clients']:.0f}：经应用的吞吐是引擎单独的 {ratio['tokens_per_s']:.1%}{added}"
