"""One library on disk: a LanceDB table of passages, and the files they come from.

    store.json      which table is in force, and whose vectors it holds; replaced in one step
    tables/         LanceDB's
    originals/      the files' bytes, under their SHA-256
    incoming/       copies of files that are being indexed
    lock            one writer at a time, of whatever process
    erase           there while a deleted text may still lie in old versions

Every change is one commit of LanceDB's, so that after a kill either the old or the new is there. A commit leaves the old
text in old versions and in the full-text index; `_settle` then writes both anew. LanceDB leaves a fragment alone that has
few deleted rows and no neighbour: so one row, the mark, is replaced in every commit and always makes a neighbour.
"""

import json
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from lancedb.index import FTS, IvfSq

from engine.errors import RequestError
from engine.words import Words
from knowledge import rows
from knowledge.base import SourceFile
from knowledge.embedder_base import Embedder, Unavailable, Vectors
from knowledge.originals import Originals

LOCK_S = 600.0
"""A re-indexing by another process may take minutes."""
OPENING_S = 5.0
AT_ONCE = timedelta(milliseconds=1)
UNINDEXED_LEAST, UNINDEXED_SHARE = 500, 20
"""Rows outside the indexes are searched one by one: up to so many, or one in so many."""
FRAGMENTS = 24
VECTOR_INDEX_FROM = 10_000
"""Rows; below, comparing with each vector takes some 15 ms and finds all."""
SEGMENTS = 6
"""Of the vector index: each optimising adds one; more are trained into one again."""
REEMBED_BATCH = 32
TEXT_INDEX = FTS(
    base_tokenizer="whitespace", with_position=False, lower_case=False, stem=False, remove_stop_words=False,
    ascii_folding=False, max_token_length=None,
)  # fmt: skip
BUSY = Words("资料库正被另一个程序写入，请稍后再试。", "Another program is writing to the library; try again later.")
_log = logging.getLogger(__name__)


BROKEN = Words(
    "资料库的登记文件（store.json）损坏，或由别的版本写成。请从备份恢复，或移走资料库文件夹后重新加入文件。",
    "The library's record (store.json) is broken or of another version. Restore it from a backup, or move the library's "
    "folder away and add the files again.",
)


class StoreBroken(RequestError):
    """The library on the disk cannot be read."""


class StoreBusy(RequestError):
    """Another process keeps the library's lock."""


@dataclass(frozen=True, slots=True)
class State:
    """What store.json says."""

    table: str
    embedder: str | None = None
    dim: int | None = None
    format: int = 1


class Store:
    """A library in `folder`. Blocking; from any thread, and from several processes."""

    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        """Touches nothing yet."""
        self.folder, self.embedder = folder, embedder
        self.originals = Originals(folder)
        self._opened: tuple[State, Any] | None = None
        self._files: tuple[tuple[str, int], dict[str, SourceFile]] | None = None

    @property
    def exists(self) -> bool:
        """Whether anything was ever put here."""
        return (self.folder / "store.json").exists()

    def prepare(self, progress: Callable[[float], None] = lambda share: None) -> None:
        """Finish what a killed process left, and embed anew what has other vectors or none. Nothing where nothing is.

        Raises StoreBusy, and Unavailable where the embedder fails on the way: the old vectors stay in force.
        """
        if not self.exists:
            return
        with self.writing(OPENING_S):
            state = self.state()
            if (self.folder / "erase").exists():
                self._settle(erase=True)
            self.originals.sweep({file.digest for file in self.files()})
            self._drop_all_but(state.table)
            wanted = self._wanted()
            if wanted and (state.embedder != wanted[0] or self._lacking(state)):
                self._embed_anew(state, wanted, progress)

    def put(self, file: SourceFile, table: pa.Table, copy: Path) -> None:
        """Take `file` in with its rows, in place of what its origin had. table: see rows.table; its vectors may lack."""
        with self.writing():
            state = self.state()
            table = _fitted(table, rows.schema(state.dim))
            self.originals.keep(copy, file.digest)
            self._commit(file.origin, table, replaces=self.file(file.origin) is not None)

    def remove(self, origin: str) -> bool:
        """Whether there was one to remove."""
        if not self.exists:
            return False
        with self.writing():
            if self.file(origin) is None:
                return False
            self._commit(origin, rows.schema(self.state().dim).empty_table(), replaces=True)
            return True

    def files(self) -> list[SourceFile]:
        """Newest first."""
        if not self.exists:
            return []
        return sorted(self._by_origin().values(), key=lambda file: (file.added_at, file.name), reverse=True)

    def file(self, origin: str) -> SourceFile | None:
        """The one of that origin."""
        return self._by_origin().get(origin) if self.exists else None

    def state(self) -> State:
        """What is in force now, in whatever process it was made so. Raises StoreBroken."""
        try:
            return State(**json.loads((self.folder / "store.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:  # cut short, or of another version
            raise StoreBroken(BROKEN) from error

    def table(self) -> Any:
        """LanceDB's table that is in force; it reads the newest version by itself."""
        state = self.state()
        if self._opened is None or self._opened[0] != state:
            self._opened = (state, self._database().open_table(state.table))
        return self._opened[1]

    @contextmanager
    def writing(self, patience_s: float = LOCK_S) -> Iterator[None]:
        """Alone, with a table there. Raises StoreBusy. Not reentrant."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / "lock", timeout=patience_s):
                if not self.exists:
                    self._create()
                yield
        except Timeout as error:
            raise StoreBusy(BUSY) from error

    def _by_origin(self) -> dict[str, SourceFile]:
        table = self.table()
        version = (table.name, int(table.version))
        if self._files is None or self._files[0] != version:
            found = table.search().where("ordinal = 0").select(["origin", "file"]).limit(None).to_arrow()
            self._files = (version, {row["origin"]: rows.load_file(row["file"]) for row in found.to_pylist()})
        return self._files[1]

    def _database(self) -> Any:
        return lancedb.connect(self.folder / "tables", read_consistency_interval=timedelta(0))

    def _create(self) -> None:
        self._drop_all_but(None)
        embedder = self._wanted()
        state = State(_name(), *(embedder or (None, None)))
        self._make(state)
        self._enforce(state)

    def _make(self, state: State) -> Any:
        table = self._database().create_table(state.table, schema=rows.schema(state.dim))
        table.create_index("tokens", config=TEXT_INDEX)
        return table

    def _enforce(self, state: State) -> None:
        fresh = self.folder / "store.json.new"
        fresh.write_text(json.dumps(asdict(state)), encoding="utf-8")
        fresh.replace(self.folder / "store.json")

    def _drop_all_but(self, name: str | None) -> None:
        """Tables of a re-embedding that was killed."""
        database = self._database()
        for other in database.list_tables().tables:
            if other != name:
                database.drop_table(other)

    def _wanted(self) -> tuple[str, int] | None:
        """The embedder's id and dimension; None without one, or while it cannot be asked."""
        if self.embedder is None:
            return None
        try:
            return self.embedder.id, self.embedder.dim
        except Unavailable as error:
            _log.warning("%s", error.words.zh)
            return None

    def _commit(self, origin: str, table: pa.Table, *, replaces: bool) -> None:
        if replaces:
            (self.folder / "erase").touch()
        fresh = pa.concat_tables([table, rows.mark(secrets.token_hex(8), table.schema)])
        merge = self.table().merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        merge.when_not_matched_by_source_delete(f"origin = '{origin.replace(chr(39), chr(39) * 2)}'")
        merge.execute(fresh, on_bad_vectors="null")
        self._settle(erase=replaces)
        if replaces:
            self.originals.sweep({file.digest for file in self.files()})

    def _settle(self, *, erase: bool) -> None:
        """Bring the indexes up to date where it is worth while; with `erase`, leave nothing of what was deleted."""
        table = self.table()
        stats = table.index_stats("tokens_idx")
        many = max(UNINDEXED_LEAST, table.count_rows() // UNINDEXED_SHARE)
        is_small = stats is not None and stats.num_indexed_rows < UNINDEXED_LEAST  # its word statistics are no good yet
        fragments = table.stats()["fragment_stats"]["num_fragments"]
        if erase:  # optimising keeps the words of deleted rows
            table.create_index("tokens", config=TEXT_INDEX, replace=True)
        if erase or is_small or stats.num_unindexed_rows > many or fragments > FRAGMENTS:
            table.optimize(cleanup_older_than=AT_ONCE, delete_unverified=True)
            self._index_vectors(table)
        if erase:
            (self.folder / "erase").unlink(missing_ok=True)

    def _index_vectors(self, table: Any) -> None:
        if self.state().dim is None or table.count_rows("vector IS NOT NULL") < VECTOR_INDEX_FROM:
            return
        stats = table.index_stats("vector_idx")
        if stats is None or (stats.num_indices or 0) > SEGMENTS:
            table.create_index("vector", config=IvfSq(distance_type="cosine"), replace=True)
            table.optimize(cleanup_older_than=AT_ONCE, delete_unverified=True)

    def _lacking(self, state: State) -> bool:
        """Whether some passages have no vectors: they were added while there was no embedder."""
        return bool(self.table().count_rows(f"vector IS NULL AND ordinal > {rows.MARK}")) if state.dim else False

    def _embed_anew(self, state: State, wanted: tuple[str, int], progress: Callable[[float], None]) -> None:
        """All passages into a new table that is put in force when it is complete."""
        assert self.embedder is not None
        old = self.table().search().where(f"ordinal > {rows.MARK}").limit(None).to_arrow()
        files = self._by_origin()
        names = [files[origin].name for origin in old["origin"].to_pylist()]
        texts = [
            rows.in_full(name, rows.passage({"text": text, "at": at}))
            for name, text, at in zip(names, old["text"].to_pylist(), old["at"].to_pylist(), strict=True)
        ]
        vectors = np.zeros((len(texts), wanted[1]), np.float32)
        for start in range(0, len(texts), REEMBED_BATCH):
            vectors[start : start + REEMBED_BATCH] = self._passages(texts[start : start + REEMBED_BATCH], wanted[1])
            progress(min(1.0, (start + REEMBED_BATCH) / len(texts)))
        fresh = State(_name(), *wanted)
        table = self._make(fresh)
        if texts:
            table.add(rows.with_vectors(old.select(rows.schema(None).names), vectors))
        table.optimize(cleanup_older_than=AT_ONCE, delete_unverified=True)
        self._enforce(fresh)
        self._drop_all_but(fresh.table)
        self._settle(erase=False)

    def _passages(self, texts: list[str], dim: int) -> Vectors:
        assert self.embedder is not None
        vectors = self.embedder.passages(texts)
        if vectors.shape != (len(texts), dim):
            raise Unavailable(
                Words(
                    f"向量的维数不对：应为 {dim}，实为 {vectors.shape[-1]}。",
                    f"The vectors have {vectors.shape[-1]} numbers instead of {dim}.",
                )
            )
        return vectors


def _name() -> str:
    return f"passages-{secrets.token_hex(4)}"


def _fitted(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """With exactly the columns of `wanted`: vectors that the table in force has no place for are left out."""
    if (
        "vector" in wanted.names
        and "vector" in table.schema.names
        and table.schema.field("vector") != wanted.field("vector")
    ):
        table = table.drop_columns(["vector"])
    if "vector" in wanted.names and "vector" not in table.schema.names:
        table = table.append_column(wanted.field("vector"), pa.nulls(len(table), wanted.field("vector").type))
    return table.select(wanted.names)
