"""Small libraries for tests."""

import hashlib
import os
from pathlib import Path

import numpy as np

from engine.words import Words
from knowledge import rows
from knowledge.base import Locator, Passage, SourceFile
from knowledge.embedder_base import Unavailable, Vectors
from knowledge.store import Store
from knowledge.tokens import cut


class HashEmbedder:
    """Vectors that depend on the text alone; counts what it embeds, and fails where it is told to."""

    def __init__(self, name: str = "hash", dim: int = 8) -> None:
        self.id, self.dim = name, dim
        self.embedded = 0
        self.is_down = False
        self.given = dim
        """Numbers a vector that it really gives."""

    def passages(self, texts: list[str]) -> Vectors:
        if self.is_down:
            raise Unavailable(Words("向量服务没有应答。", "No answer."))
        self.embedded += len(texts)
        return self.query(texts)

    def query(self, texts: list[str]) -> Vectors:
        if self.is_down:
            raise Unavailable(Words("向量服务没有应答。", "No answer."))
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) for text in texts]
        vectors = np.stack([np.random.default_rng(seed).normal(size=self.given) for seed in seeds]).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


def put(store: Store, origin: str, *texts: str, name: str = "规定.txt") -> SourceFile:
    """Texts as a file of one passage each."""
    source = store.folder.with_name(f"source-{os.getpid()}.bin")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("\n".join(texts), encoding="utf-8")
    copy, digest, size = store.originals.copy(source)
    passages = [Passage(text, Locator(page=number)) for number, text in enumerate(texts, 1)]
    file = SourceFile(origin, digest, name, size, len(texts), len(texts), "2026-01-01T00:00:00+00:00")
    full = [rows.in_full(name, passage) for passage in passages]
    vectors = store.embedder.passages(full) if store.embedder is not None else None
    store.put(file, rows.table(file, passages, [cut(text) for text in full], vectors), copy)
    return file


def texts(store: Store) -> list[str]:
    """All passages, sorted."""
    found = store.table().search().where("ordinal >= 0").select(["text"]).limit(None).to_arrow()
    return sorted(found["text"].to_pylist())


def holding(folder: Path, marker: str) -> list[str]:
    """The files below `folder` in which the marker's bytes lie, in either case."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and marker.lower().encode() in path.read_bytes().lower()
    ]
