"""Both published tables in their own rows and columns, with this machine's figures beside them, as Markdown."""

from collections.abc import Sequence

from bench.findings import AT_ONCE, STEPS, Findings
from bench.published import CARDS, published
from bench.samples import Level, Spread

Rows = Sequence[Sequence[str]]
NO_CARD = "无法测量：本机没有显卡"
ELSEWHERE = "无法测量：引擎不在本进程"
UNPUBLISHED = "未公布"
MEMORY_KEYS = ("1", "4", "8")
SCENES = ("已加载，空闲", "1 个请求，256 入 512 出", "5 个请求，同样长度", "10 个请求，256–1024 入", "15 个请求，极限")
SCENE_KEYS = (None, "1", "5", "10", "15")
KINDS = {"short": "短回答", "medium": "中等回答（约 300 字）", "multi-turn": "多轮，历史 1200 词元"}
MIB_A_GIB = 1024


def markdown(found: Findings) -> str:
    """Everything, with footnotes."""
    parts = [
        f"# 两份公开测试的表格，与本机实测（{found.model}）",
        "## 甲：A10、A100、V100 的比较（article A）",
        "### 显存（MB；本机为 MiB）",
        grid(("显卡", "只有服务", "已加载，空闲", "1 个请求", "4 个请求", "8 个请求"), _memory_a(found)),
        "### 延迟与吞吐",
        grid(
            ("显卡", "首字均值 ms[^1]", "首字 P99 ms[^1]", "8 并发时 请求/s", "推荐并发", "加载 s"), _latency_a(found)
        ),
        "## 乙：单块 A10 的测试（article B）",
        "### 资源",
        grid(("场景", "显存 GB", "本机 GiB", "内存 GB", "本机 GiB", "显卡占用 %", "本机 %"), _resources_b(found)),
        "### 延迟[^2]",
        grid(("场景", "P50 ms", "本机", "P90 ms", "本机", "QPS", "本机"), _latency_b(found)),
        "### 其他",
        grid(("", "公布", "本机"), _others_b(found)),
        "\n".join(notes(found)),
    ]
    return "\n\n".join(parts) + "\n"


def grid(head: Sequence[str], rows: Rows) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _memory_a(found: Findings) -> Rows:
    theirs = published()["article_a"]["memory_mb"]
    rows = [[title, *(f"{value:,}" for value in theirs[card])] for card, title in CARDS.items()]
    seen = [found.before, found.idle, *(found.levels[key].resources for key in MEMORY_KEYS)]
    card = ["本机 显存", *(NO_CARD if each.gpu_mib is None else f"{each.gpu_mib:,.0f}" for each in seen)]
    ram = ["本机 内存[^3]", *(ELSEWHERE if each.ram_mib is None else f"{each.ram_mib:,.0f}" for each in seen)]
    return [*rows, card, ram]


def _latency_a(found: Findings) -> Rows:
    article = published()["article_a"]
    rows = []
    for card, title in CARDS.items():
        theirs, low_high = article["latency_throughput"][card], article["recommended_concurrency"][card]
        figures = [theirs.get(name, UNPUBLISHED) for name in ("ttft_mean_ms", "ttft_p99_ms", "req_s_at_8")]
        load = article["load_time_s"] if card == "a10" else UNPUBLISHED
        rows.append([title, *map(str, figures), "–".join(map(str, low_high)), str(load)])
    at_16, at_8 = found.levels["16"], found.levels["8"]
    rate = f"{at_8.requests_per_s:.2f}{shortened(found, '8')}"
    ours = [_ms(at_16.first_s, "mean"), _ms(at_16.first_s, "p99"), rate]
    return [*rows, ["本机", *ours, _profiles_limit(found), f"{found.load_s:.1f}"]]


def _resources_b(found: Findings) -> Rows:
    rows = []
    for scene, key, theirs in zip(SCENES, SCENE_KEYS, published()["article_b"]["resources"], strict=True):
        ours = found.levels[key].resources if key else found.idle
        card = NO_CARD if ours.gpu_mib is None else f"{ours.gpu_mib / MIB_A_GIB:.1f}"
        ram = ELSEWHERE if ours.ram_mib is None else f"{ours.ram_mib / MIB_A_GIB:.1f}"
        busy = NO_CARD if ours.gpu_use is None else f"{ours.gpu_use:.0%}".rstrip("%")
        rows.append([scene, str(theirs["gpu_gb"]), card, str(theirs["ram_gb"]), ram, str(theirs["gpu_util"]), busy])
    return rows


def _latency_b(found: Findings) -> Rows:
    rows = []
    for (key, title), theirs in zip(KINDS.items(), published()["article_b"]["latency"], strict=True):
        ours = found.levels[key]
        cells = (theirs["p50_ms"], _ms(ours.total_s, "p50"), theirs["p90_ms"], _ms(ours.total_s, "p90"), theirs["qps"])
        rows.append([f"{title}{shortened(found, key)}", *map(str, cells), f"{ours.requests_per_s:.2f}"])
    return rows


def _others_b(found: Findings) -> Rows:
    theirs = published()["article_b"]
    browser = _ms(found.browser_first, "p50") if found.browser_first else f"无法测量：{found.why_no_browser}"
    return [
        ["页面上的首字 ms[^4]", str(theirs["first_token_in_browser_ms"]), browser],
        ["冷启动 s", str(theirs["cold_start_s"]), f"{found.load_s:.1f}"],
        [
            "10 个请求时的首字 ms（均值，256–1024 入）",
            str(theirs["ttft_ms_at_10"]),
            _ms(found.levels["10"].first_s, "mean"),
        ],
        ["15 个请求时的首字 ms（均值，256 入）", str(theirs["ttft_ms_at_15"]), _ms(found.levels["15"].first_s, "mean")],
        ["推荐并发", str(theirs["recommended_concurrency"]), _profiles_limit(found)],
        ["极限并发", str(theirs["limit_concurrency"]), "没有测：由 KV 缓存决定，见 python -m engine.plan"],
    ]


def _profiles_limit(found: Findings) -> str:
    """Not measured: what the profile lets through."""
    return f"{found.concurrent}（显卡配置的上限）"


def _ms(spread: Spread | None, which: str) -> str:
    """Milliseconds of a mean or percentile; a level without an answer says so."""
    return "没有完成的请求" if spread is None else f"{getattr(spread, which) * 1000:,.0f}"


def shortened(found: Findings, key: str) -> str:
    """The length that was meant and the one that was run, where they differ."""
    (full,) = (step.answer for step in STEPS if step.key == key)
    return "" if found.answers[key] >= full else f"（{full} → {found.answers[key]} 词元，见注）"


def notes(found: Findings) -> list[str]:
    """What the figures mean, and what of the published ones cannot be."""
    waits = f"；本机同时生成至多 {found.concurrent} 个，其余在引擎内排队，首字含等待" if found.concurrent < 16 else ""
    cold = f"历史第一次出现时，首字 {_ms(found.history_first, 'p50')} ms；" if found.history_first else ""
    return [
        f"[^1]: 16 个请求同时，256 入 512 出{waits}。",
        f"[^2]: 全程时间。文章没有说几个同时；按它自己的 P50 × QPS 推算约 2 个，本机用 {AT_ONCE} 个。"
        f"P50 480 ms 写完约 200 词元，需每词元 2.4 ms，而同一模型形状在 H200 上以 eager 方式实测每词元 8 ms：公布的不像全程时间。"
        f"多轮：{cold}表中是历史已在前缀缓存里的情形。",
        "[^3]: 进程与子进程的常驻内存之和（共享页重复计）。vLLM 没有“只有服务、没有模型”的状态，此列是引擎启动之前。",
        "[^4]: 启动整个应用，像浏览器一样经 Socket.IO 提问，从发送到第一个字；不含浏览器的绘制。",
        "",
        "- 公布的显存随并发增长，而 vLLM 在就绪之前就占满 KV 缓存池，此后不随并发变化：那些列不可能是 KV 缓存。",
        *(f"- {note}" for note in [*_lengths(found), requests_of(found.levels), *_failures(found)]),
    ]


def _lengths(found: Findings) -> list[str]:
    """The lengths that were used, where they are not the full ones."""
    full = {step.key: step.answer for step in STEPS}
    short = [(key, answer) for key, answer in found.answers.items() if answer < full[key]]
    if not short:
        return ["各行都用文章的全部长度。"]
    cut = "，".join(f"{_row(key)} {full[key]} → {answer}" for key, answer in short)
    return [
        f"为了在限时内测完，回答缩短了（词元）：{cut}。请求/s、全程时间和 QPS 只能与同样长度的比；"
        "先到的写完得早，排队的首字也因此早一些。"
    ]


def _row(key: str) -> str:
    return KINDS.get(key, f"{key} 个同时")


def _failures(found: Findings) -> list[str]:
    return [f"{_row(key)}：{level.errors}" for key, level in found.levels.items() if level.errors]


def requests_of(levels: dict[str, Level]) -> str:
    """How many requests each row is made of."""
    return "每行的请求数：" + "，".join(f"{_row(key)} {level.answered} 个" for key, level in levels.items())
