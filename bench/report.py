"""Results as a table for people and as JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.samples import Level, Spread
from bench.words import refused

COLUMNS = (
    "负载", "完成/请求", "词元/s", "请求/s", "首字 ms\n均值 P50 P90 P99", "每词元 ms\n均值 P50 P90 P99",
    "全程 s\n均值 P50 P90 P99", "内存", "显卡", "压测端 CPU",
)  # fmt: skip
WIDE = 150
"""Columns of a table that goes to a file or a pipe."""
UNKNOWN = "—"


def wide_console() -> Console:
    """Standard output, as wide as the terminal, or WIDE where it is none."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    return console


def table(title: str, levels: Sequence[Level]) -> Table:
    """A row a level."""
    found = Table(title=title, title_justify="left")
    for number, column in enumerate(COLUMNS):
        found.add_column(column, justify="left" if number == 0 else "right")
    for level in levels:
        found.add_row(*_row(level))
    return found


def _row(level: Level) -> tuple[str, ...]:
    seen = level.resources
    card = UNKNOWN if seen.gpu_mib is None else f"{seen.gpu_mib:,.0f} MiB"
    use = "" if seen.gpu_use is None else f" {seen.gpu_use:.0%}"
    return (
        level.load,
        f"{level.answered}/{level.requests}",
        f"{level.tokens_per_s:,.1f}",
        f"{level.requests_per_s:.2f}",
        spread(level.first_s, 1000),
        spread(level.per_token_s, 1000, 2),
        spread(level.total_s, 1, 2),
        UNKNOWN if seen.ram_mib is None else f"{seen.ram_mib:,.0f} MiB",
        card + use,
        UNKNOWN if level.client_cpu is None else f"{level.client_cpu:.0%}",
    )


def spread(found: Spread | None, scale: float, digits: int = 0) -> str:
    """Mean and percentiles in a cell."""
    if found is None:
        return UNKNOWN
    return "  ".join(f"{value * scale:,.{digits}f}" for value in (found.mean, found.p50, found.p90, found.p99))


def show(title: str, levels: Sequence[Level], notes: Sequence[str] = ()) -> None:
    """Print the table, the errors by kind, and notes."""
    console = wide_console()
    console.print(table(title, levels))
    for level in levels:
        for kind, times in level.errors.items():
            console.print(f"负载 {level.load}：{times} 次 {kind}", markup=False)
    for note in notes:
        console.print(f"· {note}", markup=False)


def conclude(results: Mapping[str, object], save: Path | None) -> None:
    """Keep the results in `save` where one is named, and print them as standard output's last line.

    Raises ConfigurationError where they cannot be kept; printed they are in any case.
    """
    problem = _keep(results, save) if save else None
    print(json.dumps(results, ensure_ascii=False, default=str), flush=True)
    if problem and save:
        raise refused(f"无法写入 {save}：{problem.strerror}。", f"Cannot write {save}: {problem.strerror}.")


def _keep(results: Mapping[str, object], save: Path) -> OSError | None:
    try:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(json.dumps(results, ensure_ascii=False, indent=1, default=str) + "\n", encoding="utf-8")
    except OSError as error:
        return error
    return None
