"""`python -m bench tables`."""

import argparse
import asyncio
import math
import os
import secrets
import time
from pathlib import Path

from bench.app_command import app_level, calibrate
from bench.app_target import started
from bench.asking import Asker
from bench.chart import draw
from bench.engines import running
from bench.findings import Findings, find
from bench.levels import Work, own_pid, warm_up
from bench.memory import resources_now
from bench.prompts import NUMBERS, text
from bench.published import published
from bench.report import conclude
from bench.tables import markdown
from bench.versions import circumstances
from bench.words import say
from engine.errors import ZhidaError
from engine.hardware import detect_card
from engine.profiles import Profile
from engine.settings import Settings

CPU_MINUTES = 8.0
BROWSER_QUESTIONS = 5
BROWSER_WORK = Work((64,), 16, ignore_eos=False)
RESERVE_S = 45.0
"""For the app's questions, its end, and the chart."""
NOT_ASKED = "用了 --no-app"


async def run(arguments: argparse.Namespace) -> int:
    """Measure, and print the tables, the JSON last."""
    began, settings = time.perf_counter(), Settings.load()
    minutes = arguments.minutes or (math.inf if detect_card() else CPU_MINUTES)
    before = resources_now(os.getpid())
    async with running(settings) as engine:
        here = engine.choice is not None
        pid = own_pid(here)
        asker = Asker(engine.engine, secrets.randbelow(NUMBERS))
        await warm_up(asker, Work(), at_once=min(engine.plan.concurrent, 16))
        found = Findings(
            engine.engine.info.model, engine.load_s, engine.plan.concurrent,
            before if here else resources_now(None), resources_now(pid), here,
        )  # fmt: skip
        app_s = 0.0 if arguments.no_app else RESERVE_S + 1.5 * engine.load_s
        end = began + minutes * 60 - app_s
        await find(engine, asker, pid, found, None if math.isinf(minutes) else lambda: end - time.perf_counter())
    if arguments.no_app:
        found.why_no_browser = NOT_ASKED
    else:
        await _browser(found)
    return await _conclude(settings, arguments, found, engine.choice.profile if engine.choice else None)


async def _conclude(settings: Settings, arguments: argparse.Namespace, found: Findings, profile: Profile | None) -> int:
    chart: Path = arguments.chart or settings.data_dir / "bench" / "tables.png"
    print(markdown(found))
    await asyncio.to_thread(draw, found, chart)
    say(f"图：{chart}")
    results = {"kind": "tables", "published": published(), "here": found.json(), "chart": chart.name}
    conclude({**circumstances(settings, profile), **results}, arguments.save)
    return 0


async def _browser(found: Findings) -> None:
    """First token over the socket of an app of its own; where there is none, why."""
    say("启动应用，测页面上的首字……")
    number = secrets.randbelow(NUMBERS)
    try:
        async with started() as target:
            characters = await calibrate(target.url, number, BROWSER_WORK)
            questions = [text(number + 2 + each, characters) for each in range(BROWSER_QUESTIONS)]
            level = await app_level(target, questions, BROWSER_WORK.answer, 1, None, None)
            found.browser_first, found.app_load_s = level.first_s, target.load_s
            found.why_no_browser = "" if level.first_s else f"没有得到回答：{level.errors}"
    except ZhidaError as error:
        found.why_no_browser = error.words.zh
