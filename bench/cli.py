"""The command line: `python -m bench engine|app|tables|crosscheck|knowledge|knowledge-speed`."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path

from bench import app_command, crosscheck, engine_command, knowledge_speed, tables_command
from bench.words import refused
from engine.arguments import Parser
from engine.errors import ZhidaError

CONCURRENCY = "1,4,8,16,32"
INTERRUPTED = 130
URL = "http://127.0.0.1:8000"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 with one sentence where that is impossible, 130 after Ctrl-C."""
    try:
        arguments = _parser().parse_args(argv)
        return asyncio.run(_until_signal(arguments.run(arguments)))
    except ZhidaError as error:
        print(error.words.zh, error.words.en, sep="\n", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("已中断，引擎已结束。", "Interrupted; the engine has been ended.", sep="\n", file=sys.stderr)
        return INTERRUPTED


async def _until_signal(work: Coroutine[None, None, int]) -> int:
    """`work`, cancelled by SIGTERM as by Ctrl-C, so that whatever it has started is ended."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _parser() -> Parser:
    parser = Parser(
        prog="python -m bench",
        description="压测引擎和整个应用。引擎、模型与显卡配置取自 .env 和环境变量（ENGINE_BACKEND 等），与应用相同。"
        "标准输出的最后一行总是一个 JSON 对象。",
    )
    commands = parser.add_subparsers(required=True, metavar="命令")
    _engine(commands)
    _app(commands)
    _tables(commands)
    _crosscheck(commands)
    _knowledge(commands)
    _knowledge_speed(commands)
    return parser


def _engine(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = commands.add_parser(
        "engine", help="直接压测引擎", description="直接压测引擎，不经过页面，也没有排队的上限。"
    )
    _load(parser)
    parser.add_argument("--eager", action="store_true", help="不用 CUDA graph（只对本进程内的引擎有效）")
    parser.add_argument(
        "--against", choices=("bare",), help="bare：同一引擎上与 vLLM 的 AsyncLLM 交替各跑几轮，比较吞吐"
    )
    parser.add_argument("--rounds", type=_count, default=3, help="--against 时各跑的轮数（默认 3）")
    parser.set_defaults(run=engine_command.run)


def _app(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = commands.add_parser(
        "app", help="经 Socket.IO 压测整个应用", description="像浏览器一样经 Socket.IO 压测整个应用。"
    )
    _load(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--url", default=URL, help=f"运行中的应用的地址（默认 {URL}）")
    which.add_argument("--start", action="store_true", help="按现在的设置在空闲端口上启动应用，测完结束它")
    parser.add_argument("--processes", type=_count, help="压测端的进程数（默认每 32 个并发一个，至多核数的一半）")
    parser.add_argument("--against", choices=("engine",), help="engine：先单独测引擎，再启动应用测同样的问题，比较两者")
    parser.set_defaults(run=app_command.run)


def _tables(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = commands.add_parser(
        "tables",
        help="两份公开测试的表格，附本机数字",
        description="按两份公开测试的行列打印表格，本机的实测数字在旁。",
    )
    parser.add_argument("--minutes", type=_positive, help="限时（分钟）：没有显卡时默认 8，有显卡时不限")
    parser.add_argument("--chart", type=Path, help="图的位置（默认 DATA_DIR/bench/tables.png）")
    parser.add_argument("--no-app", action="store_true", help="不启动应用，不测页面上的首字")
    _save(parser)
    parser.set_defaults(run=tables_command.run)


def _crosscheck(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = commands.add_parser(
        "crosscheck",
        help="与 vLLM 自己的压测工具对照",
        description="同样的问题，交替用本压测和 vllm bench serve 各跑几轮；吞吐、首字、每词元相差超过一成时，退出状态为 1。",
    )
    parser.add_argument("--base-url", help="已有的 vLLM 服务，例如 http://127.0.0.1:8001/v1（默认自己启动一个）")
    parser.add_argument("--clients", type=_count, default=8, help="并发（默认 8）")
    parser.add_argument("--rounds", type=_count, default=3, help="各跑的轮数（默认 3）")
    _lengths(parser, 256, 128)
    parser.add_argument("--requests", type=_count, help="每轮的请求数（默认并发的 4 倍）")
    _save(parser)
    parser.set_defaults(run=crosscheck.run)


def _knowledge(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = commands.add_parser(
        "knowledge",
        help="资料库：检索、拒答、引用的准确程度",
        description="把自带的公司文件建成资料库，问自带的问题，报告检索、拒答、引用的准确程度和用时。",
    )
    parser.add_argument("--embedder", default="both", help="bundled、none、both（默认，两者并列），或向量服务的地址")
    parser.add_argument(
        "--answers", type=_whole, metavar="N", help="再由引擎回答报告半中均匀选出的 N 题（0：全部），检查引用"
    )
    parser.add_argument("--fit", action="store_true", help="先在拟合半上重新拟合拒答的门槛，写入 knowledge/gate.json")
    _save(parser)
    parser.set_defaults(run=_run_knowledge)


async def _run_knowledge(arguments: argparse.Namespace) -> int:
    from bench.knowledge import command  # it makes files with packages that only `make test` installs

    return await command.run(arguments)


def _knowledge_speed(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = commands.add_parser(
        "knowledge-speed",
        help="资料库：建索引和检索的快慢",
        description="用造出来的文件建索引，再在各种大小的资料库里检索，报告每秒页数、检索的 P50 与 P95、占用的磁盘。",
    )
    knowledge_speed.add_arguments(parser)
    parser.set_defaults(run=knowledge_speed.run)


def _load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--concurrency", type=_levels, default=CONCURRENCY, help=f"各级并发，逗号分开（默认 {CONCURRENCY}）"
    )
    _lengths(parser, 256, 512)
    parser.add_argument("--requests", type=_count, help="每级的请求数（默认并发的 2 倍）")
    parser.add_argument("--seconds", type=_positive, help="每级持续的秒数，代替 --requests")
    parser.add_argument("--rate", type=_positive, help="开环：每秒到达这么多请求（泊松过程），代替 --concurrency")
    parser.add_argument("--seed", type=int, default=0, help="到达时刻的随机种子（默认 0）")
    _save(parser)


def _lengths(parser: argparse.ArgumentParser, prompt: int, answer: int) -> None:
    parser.add_argument("--input", type=_count, default=prompt, help=f"提示的词元数，含对话模板（默认 {prompt}）")
    parser.add_argument("--output", type=_count, default=answer, help=f"回答的词元数（默认 {answer}）")


def _save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE.json", help="把结果连同版本、显卡、设置存到这个文件")


def _levels(text: str) -> tuple[int, ...]:
    try:
        levels = tuple(int(part) for part in text.split(","))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise refused(
            f"--concurrency {text!r} 不可用：应是逗号分开的正整数，例如 1,4,8。",
            f"--concurrency {text!r} cannot be used: it takes positive numbers and commas, e.g. 1,4,8.",
        )
    return levels


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise refused(f"{text!r} 不是正整数。", f"{text!r} is not a positive whole number.")
    return int(text)


def _whole(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise refused(f"{text!r} 不是正数。", f"{text!r} is not a positive number.")
    return value
