"""The corpus in a library of its own, and every question searched as the app would."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.knowledge.make_corpus import make
from bench.knowledge.metrics import Asked
from bench.knowledge.questions import Question
from bench.words import refused, say
from engine.settings import Settings
from knowledge.asking import find
from knowledge.base import FileRefused, SourceFile
from knowledge.embedder import choose_embedder
from knowledge.library import Incoming, Library


@dataclass(frozen=True, slots=True)
class Shelf:
    """A library that has taken in the corpus."""

    library: Library
    files: tuple[SourceFile, ...]
    index_s: float
    """From files on the disk to the last one searchable."""

    @property
    def passages(self) -> int:
        """Of all files."""
        return sum(file.passages for file in self.files)


@asynccontextmanager
async def shelf(embedder: str) -> AsyncIterator[Shelf]:
    """The corpus, indexed with the named embedder; deleted at the end. Raises ConfigurationError."""
    chosen = choose_embedder(Settings.load().model_copy(update={"knowledge_embedder": embedder}))
    if chosen.words:
        say(str(chosen.words))
    with tempfile.TemporaryDirectory(prefix="zhida-bench-") as folder:
        paths = await asyncio.to_thread(make, Path(folder) / "files")
        library = Library(Path(folder) / "library", chosen.embedder)
        try:
            began = time.perf_counter()
            for path in paths:
                await _add(library, path)
            index_s = time.perf_counter() - began
            yield Shelf(library, tuple(await library.files()), index_s)
        finally:
            library.close()


async def _add(library: Library, path: Path) -> None:
    try:
        await library.add(Incoming(path, path.name, str(path)))
    except FileRefused as error:
        raise refused(f"{path.name}：{error.words.zh}", f"{path.name}: {error.words.en}") from error


async def ask(library: Library, question: Question) -> Asked:
    """Condense, search, decide; the clock runs over the three."""
    began = time.perf_counter()
    found = await find(library, question.text, question.earlier)
    return Asked(question, found.texts, found.hits, found.passages, time.perf_counter() - began)


async def ask_all(library: Library, asking: Sequence[Question]) -> list[Asked]:
    """One after the other, as one person would; the first search, which opens things, is not kept."""
    await ask(library, asking[0])
    return [await ask(library, question) for question in asking]
