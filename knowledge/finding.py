"""Candidates for an answer out of one store: by words and by meaning, fused by reciprocal rank."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from lancedb.query import MatchQuery
from lancedb.rerankers import RRFReranker

from knowledge import rows
from knowledge.base import Passage, SourceFile
from knowledge.embedder_base import Vectors
from knowledge.store import Store

CANDIDATES = 30
"""By each text, from each store."""
PROBES, REFINE = 40, 2
"""Parts of the vector index that are looked into; twice the candidates are compared exactly."""
ATTEMPTS = 4
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Query:
    """One way of asking: its words (see tokens.cut_question), and its vector, (dim,)."""

    words: str
    vector: Vectors | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage found, and its scores, each the best over the queries."""

    key: str
    passage: Passage
    file: SourceFile
    bm25: float
    cosine: float | None
    fused: float
    """Reciprocal ranks, summed over the queries."""


def find(store: Store, queries: Sequence[Query], limit: int = CANDIDATES) -> list[Candidate]:
    """The candidates, in no order that matters."""
    if not store.exists:
        return []
    return retried(lambda: _find(store, queries, limit))


def retried(read: Callable[[], _T]) -> _T:
    """What `read` reads. A writer may delete the version that is being read: the next attempt reads its successor."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return read()
        except (RuntimeError, ValueError, OSError) as error:  # LanceDB has no exception of its own for it
            if attempt == ATTEMPTS:
                raise
            _log.info("A version of the library went away while it was read (%s): reading again", type(error).__name__)
    raise AssertionError("unreachable")


def _find(store: Store, queries: Sequence[Query], limit: int) -> list[Candidate]:
    state, table, files = store.state(), store.table(), {file.origin: file for file in store.files()}
    vectors = [query.vector for query in queries if query.vector is not None]
    is_ours = bool(vectors) and store.embedder is not None and state.dim and state.embedder == store.embedder.id
    vectors = vectors if is_ours else []
    found: dict[str, Candidate] = {}
    for query in queries:
        for row in _rows(table, query if is_ours else replace(query, vector=None), limit):
            file = files.get(row["origin"])
            if (
                file is None or file.digest != row["digest"]
            ):  # written between the two reads; it will be there next time
                continue
            fresh = _candidate(row, file, vectors)
            found[fresh.key] = _joined(found.get(fresh.key), fresh)
    return list(found.values())


def _rows(table: Any, query: Query, limit: int) -> list[dict[str, Any]]:
    if query.vector is None:
        return _by_words(table, query.words, limit)
    if not query.words:
        return _ranked(_probing(table.search(query.vector, query_type="vector"), limit).to_arrow())
    search = _probing(table.search(query_type="hybrid").vector(query.vector).text(_match(query.words)), limit)
    found: list[dict[str, Any]] = search.rerank(RRFReranker(return_score="all")).to_arrow().to_pylist()
    return found


def _by_words(table: Any, words: str, limit: int) -> list[dict[str, Any]]:
    if not words:
        return []
    columns = [name for name in table.schema.names if name not in ("tokens", "file")]
    return _ranked(table.search(_match(words), query_type="fts").select([*columns, "_score"]).limit(limit).to_arrow())


def _probing(search: Any, limit: int) -> Any:
    return search.distance_type("cosine").nprobes(PROBES).refine_factor(REFINE).limit(limit)


def _match(words: str) -> Any:
    query: Any = MatchQuery  # its fields' defaults are hidden from mypy
    return query(words, "tokens")


def _ranked(found: pa.Table) -> list[dict[str, Any]]:
    """With the scores that the fusion would have given."""
    constant = RRFReranker().K
    return [{**row, "_relevance_score": 1 / (constant + rank)} for rank, row in enumerate(found.to_pylist(), 1)]


def _candidate(row: dict[str, Any], file: SourceFile, vectors: Sequence[Vectors]) -> Candidate:
    own = row.get("vector")
    cosine = max(float(np.dot(np.asarray(own, np.float32), vector)) for vector in vectors) if own and vectors else None
    score = row.get("_score") or 0.0
    return Candidate(row["key"], rows.passage(row), file, score, cosine, row["_relevance_score"])


def _joined(before: Candidate | None, fresh: Candidate) -> Candidate:
    if before is None:
        return fresh
    return replace(before, bm25=max(before.bm25, fresh.bm25), fused=before.fused + fresh.fused)
