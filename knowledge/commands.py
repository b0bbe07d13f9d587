"""What `python -m knowledge` does."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from engine.settings import Settings
from knowledge.base import FileRefused, SourceFile, Stage
from knowledge.embedder import choose_embedder
from knowledge.inspection import inspect
from knowledge.library import Incoming, Library

AT_ONCE = 2
"""Files in work: one is read while another is indexed."""
STAGES = {
    Stage.WAITING: "等待",
    Stage.READING: "读取",
    Stage.SPLITTING: "切分",
    Stage.INDEXING: "建索引",
    Stage.READY: "可用",
}
EXCERPT = 80
KIB = 1024


class Commands:
    """The commands over one library; each returns the exit status."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError."""
        chosen = choose_embedder(settings)
        self._library = Library(settings.library, chosen.embedder)
        self._out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._err = Console(file=sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
        if chosen.words is not None:
            self._err.print(f"! {chosen.words.zh}")

    def close(self) -> None:
        """End the helper process."""
        self._library.close()

    async def add(self, paths: Sequence[str]) -> int:
        """1 where a file was refused; the others are taken in all the same."""
        files = list(dict.fromkeys(_walk(paths)))
        with _bar(self._err) as bar:
            whole = bar.add_task("文件", total=len(files))
            turns = asyncio.Semaphore(AT_ONCE)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._add_one(path, turns, bar, whole)) for path in files]
        refused = sum(not task.result() for task in tasks)
        self._out.print(f"共 {len(files)} 个文件：{len(files) - refused} 个可用，{refused} 个没有加入。")
        return 1 if refused or not files else 0

    async def _add_one(self, path: Path, turns: asyncio.Semaphore, bar: Progress, whole: TaskID) -> bool:
        async with turns:
            task = bar.add_task(path.name, total=1.0)
            try:
                file = await self._library.add(
                    Incoming(path, path.name, str(path)),
                    progress=lambda stage, share: bar.update(
                        task, description=f"{STAGES[stage]} {path.name}", completed=share or 0
                    ),
                )
            except FileRefused as error:
                self._out.print(f"✗ {path}：{error.words.zh}")
                return False
            finally:
                bar.remove_task(task)
                bar.advance(whole)
        self._out.print(f"✓ {path}：{file.passages} 段")
        for words in file.warnings:
            self._out.print(f"  ! {words.zh}")
        return True

    async def list(self) -> int:
        """A line a file."""
        files = await self._library.files()
        table = Table(box=None, pad_edge=False)
        for heading in ("名字", "大小 KiB", "页", "段", "加入时间（UTC）", "来源"):
            table.add_column(
                heading, justify="right" if heading in ("大小 KiB", "页", "段") else "left", overflow="fold"
            )
        for file in files:
            size, pages = f"{file.size / KIB:,.1f}", str(file.pages or "")
            table.add_row(file.name, size, pages, str(file.passages), file.added_at[:16].replace("T", " "), file.origin)
        self._out.print(table, soft_wrap=False)
        self._out.print(f"共 {len(files)} 个文件，{sum(file.passages for file in files):,} 段。")
        return 0

    async def remove(self, wanted: Sequence[str]) -> int:
        """By path, by origin, or by a name that one file alone has."""
        status = 0
        for text in wanted:
            files = _named(text, await self._library.files())
            if len(files) == 1 and await self._library.remove(files[0].origin):
                self._out.print(f"✓ 已删除 {files[0].origin}")
                continue
            status = 1
            if files:
                self._out.print(
                    f"✗ 有 {len(files)} 个文件叫 {text}，请写出来源：{'、'.join(file.origin for file in files)}"
                )
            else:
                self._out.print(f"✗ 资料库里没有 {text}。")
        return status

    async def search(self, question: str) -> int:
        """The passages found, with their scores; 1 where there are none."""
        await self._library.open()
        hits = await self._library.search([question])
        for number, hit in enumerate(hits, 1):
            at = hit.passage.at
            place = [f"第 {at.page} 页"] if at.page else []
            place += [at.sheet] if at.sheet else []
            place += [f"第 {at.row} 行"] if at.row else []
            scores = f"相关 {hit.relevance:.2f}，词语 {hit.bm25:.1f}"
            scores += f"，语义 {hit.cosine:.3f}" if hit.cosine is not None else ""
            self._out.print(f"{number}. {' · '.join([hit.file.name, *place, *at.headings])}（{scores}）")
            self._out.print(f"   {' '.join(hit.passage.text.split())[:EXCERPT]}")
        if not hits:
            self._out.print("没有找到相关的段落。")
        return 0 if hits else 1

    async def check(self) -> int:
        """1 where something is wrong."""
        findings = await asyncio.to_thread(inspect, self._library)
        for finding in findings:
            self._out.print(f"{'✓' if finding.is_right else '✗'} {finding.words.zh}")
        return 0 if all(finding.is_right for finding in findings) else 1


def _walk(paths: Sequence[str]) -> Iterator[Path]:
    """Files, those in folders too; not what editors and systems hide (.git, ~$lock files)."""
    for text in paths:
        path = Path(os.path.abspath(text))
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder, name) for name in sorted(names) if not name.startswith((".", "~$")))


def _named(text: str, files: Sequence[SourceFile]) -> list[SourceFile]:
    exact = [file for file in files if file.origin in (text, os.path.abspath(text))]
    return exact or [file for file in files if file.name == text]


def _bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip
