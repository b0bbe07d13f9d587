"""The tables as one picture; Chinese where a font for it is installed, else English."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import font_manager, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from bench.findings import A_STEPS, Findings
from bench.published import CARDS, published
from bench.samples import Spread
from bench.words import refused
from engine.words import Words

FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
         "Microsoft YaHei", "SimHei", "PingFang SC", "Heiti SC")  # fmt: skip
OURS, THEIRS = "#c0392b", ("#34495e", "#7f8c8d", "#bdc3c7")
SIZE_IN, DPI = (13.0, 8.5), 120


def draw(found: Findings, path: Path) -> None:
    """Write the PNG. Raises ConfigurationError where that is impossible."""
    font = _font()
    if font:
        rcParams["font.sans-serif"] = [font, "DejaVu Sans"]
    rcParams["axes.unicode_minus"] = False
    figure = Figure(figsize=SIZE_IN, dpi=DPI, layout="constrained")
    (memory, first), (latency, rate) = figure.subplots(2, 2)
    speak = "zh" if font else "en"
    _memory(memory, found, speak)
    _first(first, found, speak)
    _latency(latency, found, speak)
    _rate(rate, found, speak)
    figure.suptitle(
        _say(f"公开测试的数字与本机实测：{found.model}", f"Published figures and this machine's: {found.model}", speak)
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")
    except OSError as error:
        raise refused(f"无法写入 {path}：{error.strerror}。", f"Cannot write {path}: {error.strerror}.") from error


def _font() -> str | None:
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return next((font for font in FONTS if font in installed), None)


def _say(zh: str, en: str, language: str) -> str:
    return Words(zh, en).speak(language)


def _memory(axes: Axes, found: Findings, language: str) -> None:
    """Article A's memory, and ours: of the card, or resident where there is none."""
    theirs = published()["article_a"]["memory_mb"]
    stages = [_say("启动前", "before", language), _say("空闲", "idle", language), "1", "4", "8"]
    for (card, title), colour in zip(CARDS.items(), THEIRS, strict=True):
        axes.plot(stages, theirs[card], "o--", color=colour, label=title)
    seen = [found.before, found.idle, *(found.levels[key].resources for key in ("1", "4", "8"))]
    on_card = found.idle.gpu_mib is not None
    ours = [each.gpu_mib if on_card else each.ram_mib for each in seen]
    if None not in ours:
        what = (
            _say("本机显存", "this card", language)
            if on_card
            else _say("本机常驻内存（没有显卡）", "this machine's RAM (no GPU)", language)
        )
        axes.plot(stages, [value or 0.0 for value in ours], "s-", color=OURS, label=what)
    axes.set_ylim(bottom=0)
    _finish(axes, _say("甲：显存 MB，横轴为同时的请求", "A: memory, MB, by requests at once", language))


def _first(axes: Axes, found: Findings, language: str) -> None:
    """First tokens: article A at 16 at once, article B at 10 and 15, and in the browser."""
    a, b = published()["article_a"]["latency_throughput"], published()["article_b"]
    rows: list[tuple[str, float | None, str]] = [
        *((_say(f"{title} · 16 个 · 均值", f"{title}, 16, mean", language), a[card]["ttft_mean_ms"], THEIRS[0]) for card, title in CARDS.items()),
        (_say("本机 · 16 个 · 均值", "here, 16, mean", language), _mean_ms(found, "16"), OURS),
        (_say("A10（乙）· 10 个", "A10 (B), 10", language), b["ttft_ms_at_10"], THEIRS[0]),
        (_say("本机 · 10 个", "here, 10", language), _mean_ms(found, "10"), OURS),
        (_say("A10（乙）· 15 个", "A10 (B), 15", language), b["ttft_ms_at_15"], THEIRS[0]),
        (_say("本机 · 15 个", "here, 15", language), _mean_ms(found, "15"), OURS),
        (_say("A10（乙）· 页面", "A10 (B), browser", language), b["first_token_in_browser_ms"], THEIRS[0]),
        (_say("本机 · 页面", "here, browser", language), _scaled(found.browser_first, "p50"), OURS),
    ]  # fmt: skip
    _bars(axes, [row for row in rows if row[1] is not None])
    _finish(axes, _say("首字 ms（对数刻度）", "First token, ms (log scale)", language), legend=False)


def _mean_ms(found: Findings, key: str) -> float | None:
    return _scaled(found.levels[key].first_s, "mean")


def _scaled(spread: Spread | None, which: str) -> float | None:
    """Milliseconds."""
    return None if spread is None else float(getattr(spread, which)) * 1000


def _latency(axes: Axes, found: Findings, language: str) -> None:
    """Article B's latency rows."""
    titles = {
        "short": Words("短回答", "short"),
        "medium": Words("中等回答", "medium"),
        "multi-turn": Words("多轮", "multi-turn"),
    }
    rows: list[tuple[str, float | None, str]] = []
    for (key, title), theirs in zip(titles.items(), published()["article_b"]["latency"], strict=True):
        spread, name = found.levels[key].total_s, title.speak(language)
        for point in ("p50", "p90"):
            rows.append((f"A10 · {name} · {point.upper()}", theirs[f"{point}_ms"], THEIRS[0]))
            answer = found.answers[key]
            rows.append((_say(f"本机 · {name} · {point.upper()}（{answer} 词元）", f"here, {name}, {point} ({answer} tokens)", language),
                         _scaled(spread, point), OURS))  # fmt: skip
    _bars(axes, [row for row in rows if row[1] is not None])
    _finish(axes, _say("乙：全程 ms（对数刻度）", "B: end to end, ms (log scale)", language), legend=False)


def _bars(axes: Axes, rows: Sequence[tuple[str, float | None, str]]) -> None:
    """Horizontal, the first on top, each with its number."""
    values = [value or 0.0 for _, value, _ in rows]
    bars = axes.barh([name for name, _, _ in rows], values, color=[colour for _, _, colour in rows])
    axes.bar_label(bars, [f"{value:,.0f}" for value in values], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)


def _rate(axes: Axes, found: Findings, language: str) -> None:
    """What this machine answers, in tokens a second, by requests at once: neither article says."""
    keys = [step.key for step in A_STEPS]
    values = [found.levels[key].tokens_per_s for key in keys]
    bars = axes.bar(keys, values, color=OURS)
    axes.bar_label(bars, [f"{value:,.1f}" for value in values], fontsize=8)
    answer = min(found.answers[key] for key in keys)
    title = _say(
        f"本机：词元/s，横轴为同时的请求（256 入，{answer} 出；文章没有公布）",
        f"Here: tokens/s by requests at once (256 in, {answer} out; unpublished)",
        language,
    )
    _finish(axes, title, legend=False)


def _finish(axes: Axes, title: str, legend: bool = True) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_axisbelow(True)
    axes.grid(axis="both", alpha=0.25)
    if legend:
        axes.legend(fontsize=8)
