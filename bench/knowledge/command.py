"""`python -m bench knowledge`."""

import argparse
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

from rich.table import Table

from bench.engines import running
from bench.knowledge.answering import Answered, Answerer, summary
from bench.knowledge.fitting import fit_gate
from bench.knowledge.metrics import Asked, Ranking, Refusing, percentiles_ms, rankings, refusing
from bench.knowledge.questions import ABSENT, questions
from bench.knowledge.searching import Shelf, ask_all, shelf
from bench.report import UNKNOWN, conclude, wide_console
from bench.versions import circumstances
from bench.words import refused, say
from engine.settings import Settings

BOTH = ("bundled", "none")
KINDS = {
    "plain": "直接问", "table": "表格", "paraphrase": "换词", "number": "数字", "code": "代号", "year": "年份",
    "followup": "追问", "clause": "条款", "colloquial": "口语错字", "total": "合计",
}  # fmt: skip
EVERY = 5
"""Answers between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Found:
    """All questions asked of a library with one embedder."""

    embedder: str
    files: int
    passages: int
    index_s: float
    asked: Sequence[Asked]

    def half(self, half: str) -> list[Asked]:
        """Those of the questions that belong to it."""
        return [one for one in self.asked if one.question.half == half]

    def json(self) -> dict[str, object]:
        """Figures, and the questions that went wrong."""
        median, p95 = percentiles_ms([one.seconds for one in self.asked])
        return {
            "embedder": self.embedder, "files": self.files, "passages": self.passages, "index_s": self.index_s,
            "search_ms": {"p50": median, "p95": p95},
            "ranking": {kind: asdict(ranking) for kind, ranking in rankings(self.asked).items()},
            "ranking_report_half": asdict(rankings(self.half("report"))["total"]),
            "refusing": {half: refusing(self.half(half)).json() for half in ("fit", "report")},
            "wrong": {
                "not_in_three": [_named(o) for o in self.asked if not o.question.is_absent and (o.rank or 9) > 3],
                "refused": [_named(o) for o in self.asked if not o.question.is_absent and not o.is_sure],
                "not_refused": [_named(o) for o in self.asked if o.question.is_absent and o.is_sure],
            },
        }  # fmt: skip


def _named(asked: Asked) -> str:
    best = f"{asked.hits[0].relevance:.2f}" if asked.hits else UNKNOWN
    return f"{asked.question.id} {asked.question.kind} {asked.texts[-1]} rank={asked.rank} best={best}"


async def run(arguments: argparse.Namespace) -> int:
    """Ask everything with each embedder; fit the gate, or have answers written, where that is wanted."""
    settings = Settings.load()
    embedders = BOTH if arguments.embedder == "both" else (arguments.embedder,)
    if arguments.fit and arguments.embedder != "both":
        raise refused("--fit 需要 --embedder both：门槛按有、无向量两种情形拟合。", "--fit needs --embedder both.")
    async with AsyncExitStack() as open_shelves:
        shelves: dict[str, Shelf] = {}
        for embedder in embedders:
            say(f"建索引（向量：{embedder}）…")
            shelves[embedder] = await open_shelves.enter_async_context(shelf(embedder))
        if arguments.fit:
            await fit_gate(shelves)
        found = [await _found(embedder, shelves[embedder]) for embedder in embedders]
    _show(found)
    results: dict[str, object] = {"kind": "knowledge", "runs": [one.json() for one in found]}
    profile = None
    if arguments.answers is not None:
        async with running(settings) as engine:
            profile = engine.choice.profile if engine.choice else None
            results["answers"] = await _answers(Answerer(engine.engine, settings), found[0], arguments.answers)
    conclude({**circumstances(settings, profile), **results}, arguments.save)
    return 0


async def _found(embedder: str, shelved: Shelf) -> Found:
    say(f"提问（向量：{embedder}）…")
    asked = await ask_all(shelved.library, questions())
    return Found(embedder, len(shelved.files), shelved.passages, shelved.index_s, asked)


async def _answers(answerer: Answerer, found: Found, most: int) -> dict[str, object]:
    """Of the report half: all where `most` is 0, else as many, evenly from its whole length."""
    half = found.half("report")
    count = min(most or len(half), len(half))
    answered: list[Answered] = []
    for number in range(count):
        answered.append(await answerer.answer(half[number * len(half) // count], number))
        if len(answered) % EVERY == 0:
            say(f"已答 {len(answered)}/{count}")
    figures = summary(answered)
    median, p95 = percentiles_ms([one.seconds for one in answered if one.checked] or [0.0])
    figures |= {"embedder": found.embedder, "seconds": {"p50": median / 1000, "p95": p95 / 1000}}
    _show_answers(figures)
    return {**figures, "each": [one.json() for one in answered]}


def _show(found: Sequence[Found]) -> None:
    """Ranks by kind and the gate, a column an embedder."""
    console = wide_console()
    table = Table(title=f"检索：{found[0].files} 个文件，{found[0].passages} 段", title_justify="left")
    table.add_column("问法")
    table.add_column("题数", justify="right")
    for one in found:
        table.add_column(f"{one.embedder}\nhit@1  hit@3  MRR", justify="right")
    ranked = [rankings(one.asked) for one in found]
    for kind, ranking in ranked[0].items():
        table.add_row(KINDS[kind], str(ranking.questions), *(_ranking(ranks[kind]) for ranks in ranked))
    report = [rankings(one.half("report"))["total"] for one in found]
    table.add_row("合计（报告半）", str(report[0].questions), *map(_ranking, report), style="bold")
    console.print(table)
    gate = Table(title="拒答（应拒答的为正类）", title_justify="left")
    for column in ("向量", "报告半：精确  召回  F1", "拟合半：精确  召回  F1", "检索 ms P50  P95", "建索引 s"):
        gate.add_column(column, justify="left" if column == "向量" else "right")
    for one in found:
        median, p95 = percentiles_ms([asked.seconds for asked in one.asked])
        halves = [_refusing(refusing(one.half(half))) for half in ("report", "fit")]
        gate.add_row(one.embedder, *halves, f"{median:.1f}  {p95:.1f}", f"{one.index_s:.1f}")
    console.print(gate)
    absent = sum(asked.question.kind == ABSENT for asked in found[0].asked)
    console.print(
        f"· {len(found[0].asked)} 个问题，其中 {absent} 个资料里没有答案；门槛在拟合半上拟合，报告半从未用于拟合"
    )


def _ranking(ranking: Ranking) -> str:
    return f"{ranking.hit1:.3f}  {ranking.hit3:.3f}  {ranking.mrr:.3f}"


def _refusing(found: Refusing) -> str:
    return f"{found.precision:.3f}  {found.recall:.3f}  {found.f1:.3f}"


def _show_answers(figures: dict[str, object]) -> None:
    table = Table(title="回答（报告半）", title_justify="left")
    table.add_column("项目")
    table.add_column("数", justify="right")
    for name, value in figures.items():
        table.add_row(name, str(value))
    wide_console().print(table)
