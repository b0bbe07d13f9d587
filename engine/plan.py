"""`python -m engine.plan`: what each kind of card, and this machine, would carry. Loads and fetches nothing."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from engine.arguments import Parser
from engine.config_values import Unforeseeable
from engine.errors import ConfigurationError
from engine.hardware import Card, detect_card
from engine.known_model import KnownModel, find
from engine.planner import MemoryPlan, plan
from engine.preflight import kv_space
from engine.profiles import MIB_A_GIB, Choice, Profile, choose, load_profiles
from engine.room import GIB
from engine.settings import Settings

SOURCES = {"published": "公开测试", "derived": "推导", "measured": "实测", "own": "自己的设置"}
HEADINGS = ("显卡配置", "内存 GiB", "权重", "其他开销", "KV 缓存", "KV 词元", "满对话", "先到的上限")
WIDTH = 120


@dataclass(frozen=True, slots=True)
class Row:
    """A forecast; `card` is the one in this machine, where the row is about it."""

    plan: MemoryPlan
    is_here: bool
    card: Card | None = None

    @property
    def label(self) -> str:
        """The profile's name, marked where it is what runs here."""
        profile = self.plan.profile
        return f"{'▶' if self.is_here else ' '} {profile.name}{'（推导）' if profile.derived_for else ''}"


@dataclass(frozen=True, slots=True)
class Survey:
    """All that is printed: `chosen` is the row whose reasons are told."""

    model: KnownModel
    window: int
    choice: Choice
    rows: Sequence[Row]
    chosen: Row


def survey(settings: Settings, model: str, wanted: str, card: Card | None) -> Survey:
    """The forecasts for `wanted`, a profile's name or `all`. Raises ConfigurationError or Unforeseeable."""
    known, window = find(model), settings.engine_max_model_len
    choice = _here(settings, card)
    profiles = load_profiles(settings.engine_profiles)
    here = _row(known, settings.limited(choice.profile), window, card, is_here=True)
    others = [
        _row(known, settings.limited(profile), window, None, is_here=False)
        for profile in profiles.values()
        if profile != choice.profile
    ]
    rows = [here, *others]
    if wanted == "auto":
        rows = [here]
    elif wanted != "all":
        rows = [row for row in rows if row.plan.profile.name == wanted][:1]
        if not rows:
            choose(wanted, card, settings.engine_profiles)  # says which there are
    return Survey(known, window, choice, rows, rows[0])


def _here(settings: Settings, card: Card | None) -> Choice:
    """What would run here; where ENGINE_PROFILE names what cannot, what `auto` takes."""
    try:
        return choose(settings.engine_profile, card, settings.engine_profiles)
    except ConfigurationError:
        return choose("auto", card, settings.engine_profiles)


def _row(known: KnownModel, profile: Profile, window: int, card: Card | None, *, is_here: bool) -> Row:
    memory = psutil.virtual_memory()
    profile = replace(profile, kv_cache_gib=kv_space(profile))
    forecast = plan(known.footprint(profile.dtype), profile, window, card, (memory.total, memory.available))
    return Row(forecast, is_here, card if profile.on_gpu else None)


def report(found: Survey, width: int | None = None) -> str:
    """The table and what there is to say, in Chinese."""
    from rich.console import Console  # here, for the time that it takes
    from rich.table import Table

    console = Console(width=width or WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in (HEADINGS[0], HEADINGS[-1]) else "right", no_wrap=True)
    for row in found.rows:
        table.add_row(*_cells(row))
    with console.capture() as capture:
        console.print(f"模型 {found.model.name}（{found.model.source.zh}），窗口 {found.window} 词元\n", soft_wrap=True)
        console.print(table)
        console.print("\n".join(["", *_told(found)]), soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _cells(row: Row) -> tuple[str, ...]:
    forecast = row.plan
    sizes = (forecast.total, forecast.weights, forecast.overhead, forecast.pool)
    texts = [f"{size / GIB:.{digits}f}" for size, digits in zip(sizes, (1, 2, 2, 1), strict=True)]
    limit = "✗ 不能运行" if forecast.refusals else forecast.limit.zh
    return (row.label, *texts, f"{forecast.tokens:,}", f"{int(forecast.chats):,}", limit)


def _told(found: Survey) -> list[str]:
    """Below the table: this machine, what is in the way, and the reasons of the chosen profile."""
    chosen = found.chosen.plan
    lines = [f"▶ 这台机器：{_machine(found)}"] if any(row.is_here for row in found.rows) else []
    lines += [f"✗ {row.plan.profile.name}：{words.zh}" for row in found.rows for words in row.plan.refusals]
    lines += [f"! {row.plan.profile.name}：{words.zh}" for row in found.rows for words in row.plan.warnings]
    lines += [
        "单位 GiB。满对话：同时写满窗口的对话数。其他开销：按 vLLM 试运行的峰值估算，在 H200 的实测上校准；没有在其他显卡上量过。",
        "",
        f"{chosen.profile.name}（{chosen.profile.title}）的各个值：",
    ]
    for name, reason in chosen.profile.reasons.items():
        value = getattr(chosen.profile, name)
        lines.append(f"  {name} = {value}  [{SOURCES[reason.source]}] {reason.text}")
    lines += [f"  公开测试的建议：{name} = {text}" for name, text in chosen.profile.published.items()]
    return lines


def _machine(found: Survey) -> str:
    row = next(row for row in found.rows if row.is_here)
    if row.card is None:
        return f"{found.choice.reason.zh}可用内存 {row.plan.available / GIB:.1f} GiB"
    return f"{found.choice.reason.zh}现在空闲 {row.card.free_mib / MIB_A_GIB:.1f} / {row.card.memory_mib / MIB_A_GIB:.1f} GiB"


def as_json(found: Survey) -> str:
    """The same as one JSON object, sizes in bytes."""
    return json.dumps(
        {
            "model": found.model.name, "source": found.model.source.zh, "window": found.window,
            "here": found.choice.profile.name, "reason": found.choice.reason.zh,
            "profiles": [_row_as_json(row) for row in found.rows],
        },
        ensure_ascii=False,
    )  # fmt: skip


def _row_as_json(row: Row) -> dict[str, Any]:
    forecast, profile = row.plan, row.plan.profile
    return {
        "name": profile.name, "title": profile.title, "is_here": row.is_here, "dtype": profile.dtype,
        "total": forecast.total, "available": forecast.available, "weights": forecast.weights,
        "overhead": forecast.overhead, "pool": forecast.pool, "rest": forecast.rest, "tokens": forecast.tokens,
        "chats": round(forecast.chats, 2), "max_concurrent": profile.max_concurrent, "limit": forecast.limit.zh,
        "refusals": [words.zh for words in forecast.refusals], "warnings": [words.zh for words in forecast.warnings],
        "reasons": {name: {"value": getattr(profile, name), "source": reason.source, "reason": reason.text}
                    for name, reason in profile.reasons.items()},
        "published": dict(profile.published),
    }  # fmt: skip


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m engine.plan", description="每种显卡、这台机器能承载多少：不加载也不下载")
    parser.add_argument("--model", help="仓库名、本地文件夹或 demo（默认取 ENGINE_MODEL）")
    parser.add_argument("--profile", default="all", help="显卡配置的名字、auto（这台机器）或 all（默认）")
    parser.add_argument("--json", action="store_true", help="只输出一个 JSON 对象")
    parser.add_argument("--picture", type=Path, help="另外画成图：文件名以 .svg 或 .png 结尾")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the forecasts; 1 where the chosen profile cannot run, or with one sentence where nothing can be told."""
    try:
        arguments = _arguments(argv)
        settings = Settings.load()
        found = survey(settings, arguments.model or settings.engine_model, arguments.profile, detect_card())
        if arguments.picture:
            from engine.drawing import draw

            draw(found, arguments.picture)
    except (ConfigurationError, Unforeseeable) as error:
        print(error.words.zh, error.words.en, sep="\n", file=sys.stderr)
        return 1
    print(as_json(found) if arguments.json else report(found), end="\n" if arguments.json else "")
    return 1 if found.chosen.plan.refusals else 0


if __name__ == "__main__":
    sys.exit(main())
