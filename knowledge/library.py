"""The library as the rest of the product sees it: files in, passages found. Nothing here blocks the event loop."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.words import Words
from knowledge import relevance, rows
from knowledge.background import SENTENCES
from knowledge.base import FileRefused, Hit, Passage, Progress, Reading, SourceFile, Stage
from knowledge.chats import ChatFolders
from knowledge.embedder_base import Embedder, Unavailable, Vectors
from knowledge.finding import Candidate, Query, find, retried
from knowledge.reading import read_async
from knowledge.splitter import split
from knowledge.store import Store, StoreBroken, StoreBusy
from knowledge.tokens import cut_question
from knowledge.worker import Worker, WorkerLost

BATCH = 48
"""Passages between two files that take turns: two or three seconds; smaller ones make torch slower."""
READERS = 2
EMPTY = Words("文件里没有可以检索的文字。", "There is no text in the file that could be searched.")
_log = logging.getLogger(__name__)


def ignore(stage: Stage, share: float | None) -> None:
    """A Progress for nobody."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A file to take in: its bytes lie at `path`; `origin` is what a newer version replaces it by."""

    path: Path
    name: str
    origin: str


class Library:
    """The shared library, and beside it each chat's own files."""

    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        """Cheap: the store is opened by the first call that needs it."""
        self.embedder = embedder
        self.shared = Store(folder / "shared", embedder)
        self._chats = ChatFolders(folder / "chats")
        self._stores: dict[str, Store] = {}
        self._worker = Worker()
        self._reading, self._turn = asyncio.Semaphore(READERS), asyncio.Lock()
        self._opening, self._is_open = asyncio.Lock(), False
        self._background: Vectors | None = None

    async def open(self, progress: Progress = ignore) -> None:
        """Finish what a killed process left, and embed all passages anew after a change of the embedder. Once.

        Questions need not wait for it: until the new vectors are all there, they are searched by words alone.
        """
        async with self._opening:
            if self._is_open:
                return
            try:
                await asyncio.to_thread(self.shared.prepare, lambda share: progress(Stage.INDEXING, share))
            except (Unavailable, StoreBusy) as error:  # another process may be at just this
                _log.warning("%s", error.words.zh)
            self._is_open = True

    async def add(self, incoming: Incoming, chat: str | None = None, progress: Progress = ignore) -> SourceFile:
        """Take a file in; the same bytes again change nothing, other bytes replace the origin's in one step.

        Raises FileRefused. When it is cancelled, what was there stays, or, once it is being stored, the new file is whole.
        """
        progress(Stage.WAITING, None)
        try:
            if chat is None:  # a chat's own files need not wait for the shared library's vectors
                await self.open(progress)
            else:
                await asyncio.to_thread(self._chats.hold)
            return await self._add(incoming, self._store(chat), progress)
        except (Unavailable, WorkerLost, StoreBusy, StoreBroken) as error:
            raise FileRefused(error.words) from error

    async def remove(self, origin: str, chat: str | None = None) -> bool:
        """Delete a file, from the disk too; False where there is none of that origin. Raises StoreBusy."""
        if chat is None:  # whose own files need not wait for the shared library's vectors
            await self.open()
        return await asyncio.to_thread(self._store(chat).remove, rows.clean(origin))

    async def files(self, chat: str | None = None) -> list[SourceFile]:
        """Of the shared library, or of one chat alone; newest first."""
        store = self._store(chat)
        return await asyncio.to_thread(retried, store.files)

    async def search(self, texts: Sequence[str], chat: str | None = None, limit: int = 8) -> list[Hit]:
        """What may answer, best first: from the shared library and the chat's own files.

        texts: the question as asked, then the condensed one. An embedder that fails costs its part, not the answer.
        """
        return await asyncio.to_thread(self._search, list(dict.fromkeys(texts)), chat, limit)

    async def forget(self, chat: str) -> None:
        """A chat's own files go, from the disk too."""
        self._stores.pop(chat, None)
        await asyncio.to_thread(self._chats.forget, chat)

    async def forget_all_chats(self) -> None:
        """Of processes that have ended; those of others that run are theirs."""
        await asyncio.to_thread(self._chats.forget_dead)

    def original(self, file: SourceFile, chat: str | None = None) -> Path:
        """The file's own bytes."""
        return self._store(chat).originals.path(file.digest)

    async def headings(self, chat: str | None = None, limit: int = 50) -> list[tuple[SourceFile, str]]:
        """Innermost headings, from all files in turn, the newest first."""
        return await asyncio.to_thread(retried, lambda: _headings(self._store(chat), limit))

    async def warm(self) -> None:
        """Load what the first question would otherwise wait for (dictionary, embedder, its background), then `open`."""
        await asyncio.to_thread(self._queries, ["预热"])
        await asyncio.to_thread(self._anchors, [])
        await self.open()

    def close(self) -> None:
        """End the helper process, now rather than when it has been idle for a while."""
        self._worker.close()

    def _store(self, chat: str | None) -> Store:
        if chat is None:
            return self.shared
        if chat not in self._stores:
            self._stores[chat] = Store(self._chats.of(chat), self.embedder)
        return self._stores[chat]

    async def _add(self, incoming: Incoming, store: Store, progress: Progress) -> SourceFile:
        async with self._copied(store, incoming.path) as (copy, digest, size):
            name, origin = rows.clean(incoming.name), rows.clean(incoming.origin)
            before = await asyncio.to_thread(retried, lambda: store.file(origin))
            if before is not None and before.digest == digest:
                progress(Stage.READY, 1.0)
                return before
            async with self._reading:
                progress(Stage.READING, None)
                reading = await read_async(copy, name)
            progress(Stage.SPLITTING, None)
            passages = await asyncio.to_thread(split, reading, rows.title(name))
            if not passages:
                raise FileRefused(EMPTY)
            file = _described(name, origin, digest, size, reading, passages)
            table = await self._rows(file, passages, progress)
            await asyncio.to_thread(store.put, file, table, copy)
        progress(Stage.READY, 1.0)
        return file

    @asynccontextmanager
    async def _copied(self, store: Store, path: Path) -> AsyncIterator[tuple[Path, str, int]]:
        """The bytes as they are now: whatever happens to the file meanwhile, digest, text and original agree."""
        copy, digest, size = await asyncio.to_thread(store.originals.copy, path)
        try:
            yield copy, digest, size
        finally:
            await asyncio.to_thread(copy.unlink, missing_ok=True)

    async def _rows(self, file: SourceFile, passages: list[Passage], progress: Progress) -> pa.Table:
        """Batch by batch, taking turns with other files: a short one need not wait for the end of a long one."""
        cuts: list[str] = []
        parts: list[Vectors] = []
        for start in range(0, len(passages), BATCH):
            progress(Stage.INDEXING, start / len(passages))
            texts = [rows.in_full(file.name, passage) for passage in passages[start : start + BATCH]]
            async with self._turn:
                cuts += await asyncio.to_thread(self._worker.call, "cut", texts)
                if self.embedder is not None:
                    parts.append(await asyncio.to_thread(self.embedder.passages, texts))
        return rows.table(file, passages, cuts, np.concatenate(parts) if parts else None)

    def _search(self, texts: list[str], chat: str | None, limit: int) -> list[Hit]:
        queries = self._queries(texts)
        found: list[tuple[str | None, Candidate]] = [(None, candidate) for candidate in find(self.shared, queries)]
        if chat is not None:
            found += [(chat, candidate) for candidate in find(self._store(chat), queries)]
        hits = [_hit(candidate, whose) for whose, candidate in _distinct(found)]
        return relevance.rate(texts, hits, self._anchors(queries))[:limit]

    def _queries(self, texts: list[str]) -> list[Query]:
        words = [cut_question(text) for text in texts]
        try:
            vectors = list(self.embedder.query(texts)) if self.embedder is not None else [None] * len(texts)
        except Unavailable as error:
            _log.warning("%s 这次只按词语检索。", error.words.zh)
            vectors = [None] * len(texts)
        return [Query(*pair) for pair in zip(words, vectors, strict=True)]

    def _anchors(self, queries: list[Query]) -> float | None:
        """The mean cosine of the questions with sentences about everything; None without an embedder."""
        vectors = [query.vector for query in queries if query.vector is not None]
        if self.embedder is None or (queries and not vectors):
            return None
        if self._background is None:
            with contextlib.suppress(Unavailable):  # told already, or about to be
                self._background = self.embedder.passages(list(SENTENCES))
        if self._background is None or not vectors:
            return None
        return float(np.mean(np.stack(vectors) @ self._background.T))


def _described(
    name: str, origin: str, digest: str, size: int, read: Reading, passages: Sequence[Passage]
) -> SourceFile:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return SourceFile(origin, digest, name, size, read.pages, len(passages), now, read.warnings)


def _distinct(found: list[tuple[str | None, Candidate]]) -> list[tuple[str | None, Candidate]]:
    """The likeliest first, and each text of the same bytes once, though the file was added from two places."""
    found = sorted(found, key=lambda pair: -pair[1].fused)
    seen = {(pair[1].file.digest, pair[1].passage): pair for pair in reversed(found)}
    return [pair for pair in found if seen[pair[1].file.digest, pair[1].passage] is pair]


def _hit(candidate: Candidate, chat: str | None) -> Hit:
    return Hit(candidate.passage, candidate.file, chat, candidate.bm25, candidate.cosine)


def _headings(store: Store, limit: int) -> list[tuple[SourceFile, str]]:
    if not store.exists:
        return []
    files = store.files()
    found = store.table().search().where(f"ordinal BETWEEN 0 AND {limit}").select(["origin", "ordinal", "text", "at"])
    of: dict[str, dict[str, None]] = {file.origin: {} for file in files}
    for row in found.limit(None).to_arrow().sort_by("ordinal").to_pylist():
        headings = rows.passage(row).at.headings
        if headings and row["origin"] in of:
            of[row["origin"]][headings[-1]] = None
    columns = [[(file, heading) for heading in of[file.origin]] for file in files]
    return [pair for turn in zip_longest(*columns) for pair in turn if pair is not None][:limit]
