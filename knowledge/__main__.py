"""`python -m knowledge`: the shared library from a shell."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence

from engine.arguments import Parser
from engine.errors import ZhidaError
from engine.settings import Settings
from knowledge.commands import Commands

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked; 1 where something was refused or is wrong, 130 after Ctrl-C."""
    try:
        arguments = _arguments(argv)
        return asyncio.run(_until_signal(_run(arguments)))
    except ZhidaError as error:
        print(error.words.zh, error.words.en, sep="\n", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(
            "已中断：没有完成的文件保持原样。",
            "Interrupted: unfinished files are as they were.",
            sep="\n",
            file=sys.stderr,
        )
        return INTERRUPTED


async def _run(arguments: argparse.Namespace) -> int:
    commands = Commands(Settings.load())
    try:
        if arguments.command == "add":
            return await commands.add(arguments.paths)
        if arguments.command == "remove":
            return await commands.remove(arguments.files)
        if arguments.command == "search":
            return await commands.search(" ".join(arguments.question))
        return await (commands.check() if arguments.command == "check" else commands.list())
    finally:
        commands.close()


async def _until_signal(work: Coroutine[None, None, int]) -> int:
    """`work`, cancelled by SIGTERM as by Ctrl-C."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="python -m knowledge", description="公共资料库：增删文件、检索、检查（位置取自 KNOWLEDGE_DIR）"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="命令")
    add = commands.add_parser("add", help="加入文件或整个文件夹；已有的换成新内容")
    add.add_argument("paths", nargs="+", metavar="路径")
    commands.add_parser("list", help="列出文件")
    remove = commands.add_parser("remove", help="删除文件，原文一并删除")
    remove.add_argument("files", nargs="+", metavar="名字或路径")
    search = commands.add_parser("search", help="检索，看问题能找到哪些段落")
    search.add_argument("question", nargs="+", metavar="问题")
    commands.add_parser("check", help="检查资料库是否完好")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
