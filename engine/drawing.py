"""The planner's picture: one bar a profile, its memory divided into weights, overhead, KV pool and the rest."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError
from engine.room import GIB
from engine.words import Words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from engine.plan import Row, Survey

CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Microsoft YaHei", "PingFang SC", "Hiragino Sans GB",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "SimHei", "Noto Sans CJK JP", "Noto Serif CJK SC",
)  # fmt: skip
PARTS = (
    (Words("权重", "weights"), "#1f4e79"),
    (Words("其他开销", "other"), "#e0a030"),
    (Words("KV 缓存", "KV cache"), "#4a9d6e"),
    (Words("留给其他程序", "left to others"), "#e6e8eb"),
)
BAR, ROW_INCHES, WIDE_ENOUGH = 0.72, 0.36, 12


def draw(found: "Survey", file: Path) -> None:
    """Write `file`, SVG (text stays text, in the viewer's fonts) or PNG. Raises ConfigurationError."""
    kind = file.suffix.lower()
    if kind not in (".svg", ".png"):
        raise ConfigurationError(
            Words(
                f"图的文件名 {file.name} 应以 .svg 或 .png 结尾。", f"The picture {file.name} must end in .svg or .png."
            )
        )
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigurationError(
            Words(
                "没有安装 matplotlib，不能画图：请运行 make install。", "matplotlib is not installed: run make install."
            )
        ) from error
    fonts = _installed()
    in_chinese = kind == ".svg" or bool(fonts)
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.family": [*(CJK_FONTS if kind == ".svg" else fonts), "DejaVu Sans"],
    }
    with matplotlib.rc_context(style), _fonts_elsewhere():
        figure = Figure(figsize=(10, 1.5 + ROW_INCHES * len(found.rows)), layout="constrained")
        _bars(figure.add_subplot(), found, "zh" if in_chinese else "en")
        try:
            figure.savefig(file, dpi=150, bbox_inches="tight", pad_inches=0.2)
        except OSError as error:
            raise ConfigurationError(
                Words(f"不能写入 {file}：{error.strerror}。", f"Cannot write {file}: {error.strerror}.")
            ) from error


@contextmanager
def _fonts_elsewhere() -> Iterator[None]:
    """No word of fonts that are missing here: an SVG's are the viewer's."""
    finder = logging.getLogger("matplotlib.font_manager")
    finder.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        finder.disabled = False


def _installed() -> list[str]:
    """Chinese fonts of this machine."""
    from matplotlib import font_manager

    there = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in CJK_FONTS if name in there]


def _bars(axes: "Axes", found: "Survey", language: str) -> None:
    labels = [_label(row) for row in found.rows]
    lefts = [0.0] * len(found.rows)
    for part, (words, color) in enumerate(PARTS):
        shares = [100 * _sizes(row)[part] / sum(_sizes(row)) for row in found.rows]
        axes.barh(
            labels, shares, BAR, lefts, color=color, label=words.speak(language), edgecolor="white", linewidth=0.6
        )
        if part >= 2:
            _write_sizes(axes, found.rows, part, shares, lefts)
        lefts = [left + share for left, share in zip(lefts, shares, strict=True)]
    for index, row in enumerate(found.rows):
        axes.text(101, index, _right(row, language), va="center", fontsize=9)
    _frame(axes, found, language)


def _sizes(row: "Row") -> tuple[int, int, int, int]:
    plan = row.plan
    return plan.weights, plan.overhead, plan.pool, plan.rest


def _label(row: "Row") -> str:
    name = row.plan.profile.derived_for or row.plan.profile.name
    return f"{'▶ ' if row.is_here else ''}{name}  {row.plan.total / GIB:.0f} GiB"


def _write_sizes(axes: "Axes", rows: Sequence["Row"], part: int, shares: list[float], lefts: list[float]) -> None:
    """GiB inside the segments that are wide enough."""
    for index, (row, share, left) in enumerate(zip(rows, shares, lefts, strict=True)):
        if share > WIDE_ENOUGH or (part == 2 and share > WIDE_ENOUGH / 2):
            color = "white" if part == 2 else "#555555"
            axes.text(
                left + share / 2,
                index,
                f"{_sizes(row)[part] / GIB:.1f}",
                ha="center",
                va="center",
                color=color,
                fontsize=9,
            )


def _right(row: "Row", language: str) -> str:
    if row.plan.refusals:
        return Words("不能运行", "cannot run").speak(language)
    return Words(f"{int(row.plan.chats):,} 个满对话", f"{int(row.plan.chats):,} full chats").speak(language)


def _frame(axes: "Axes", found: "Survey", language: str) -> None:
    title = Words(
        f"{found.model.name}：各种显卡的内存去向（窗口 {found.window} 词元，数字单位 GiB）",
        f"{found.model.name}: where the memory goes (window {found.window} tokens, numbers in GiB)",
    )
    axes.set_title(title.speak(language), loc="left", fontsize=12, pad=30)
    axes.set_xlabel(Words("占内存的百分比", "percent of the memory").speak(language), fontsize=9)
    axes.set_xlim(0, 100)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.tick_params(axis="both", length=0, labelsize=9)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(PARTS), frameon=False, fontsize=9, borderaxespad=0.2
    )
