"""A passage as a row of the table, and back."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from engine.words import Words
from knowledge.base import Locator, Passage, SourceFile
from knowledge.embedder_base import Vectors

MARK = -1
"""The ordinal of the one row that is no passage: it changes with every write, see store.py."""


def schema(dim: int | None) -> pa.Schema:
    """The table's; without vectors where `dim` is None."""
    fields = [
        pa.field("key", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("ordinal", pa.int32()),
        pa.field("text", pa.string()),
        pa.field("at", pa.string()),
        pa.field("file", pa.string()),  # the SourceFile, in its first passage's row alone
        pa.field("tokens", pa.string()),
    ]
    if dim is not None:
        fields.append(pa.field("vector", pa.list_(pa.float32(), dim)))
    return pa.schema(fields)


def table(file: SourceFile, passages: Sequence[Passage], cuts: Sequence[str], vectors: Vectors | None) -> pa.Table:
    """One file's rows. vectors: (passages, dim), or None."""
    records = [
        {
            "key": key(file, ordinal, passage), "origin": file.origin, "digest": file.digest, "ordinal": ordinal,
            "text": passage.text, "at": _dump_at(passage.at), "tokens": cut,
            "file": dump_file(file) if ordinal == 0 else "",
        }
        for ordinal, (passage, cut) in enumerate(zip(passages, cuts, strict=True))
    ]  # fmt: skip
    rows = pa.Table.from_pylist(records, schema=schema(None))
    return rows if vectors is None else with_vectors(rows, vectors)


def with_vectors(rows: pa.Table, vectors: Vectors) -> pa.Table:
    """The same rows with the column `vector`; vectors: (rows, dim)."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
    return rows.append_column(pa.field("vector", column.type), column)


def mark(nonce: str, table_schema: pa.Schema) -> pa.Table:
    """The row that changes with every write."""
    record = dict.fromkeys(("key", "origin", "digest", "at", "file", "tokens"), "")
    return pa.Table.from_pylist([{**record, "ordinal": MARK, "text": nonce}], schema=table_schema)


def key(file: SourceFile, ordinal: int, passage: Passage) -> str:
    """By origin, the file's bytes, the place in it, and the text."""
    parts = (file.origin, file.digest, str(ordinal), passage.text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def passage(row: dict[str, Any]) -> Passage:
    """A row's passage."""
    at = json.loads(row["at"])
    return Passage(row["text"], Locator(**{**at, "headings": tuple(at.get("headings", ()))}))


def _dump_at(at: Locator) -> str:
    return json.dumps({name: value for name, value in asdict(at).items() if value}, ensure_ascii=False)


def dump_file(file: SourceFile) -> str:
    """As JSON."""
    return json.dumps(asdict(file), ensure_ascii=False)


def load_file(text: str) -> SourceFile:
    """From JSON."""
    values = json.loads(text)
    return SourceFile(**{**values, "warnings": tuple(Words(**words) for words in values["warnings"])})


def title(name: str) -> str:
    """A file's name without its ending."""
    return PurePath(name).stem or name


def in_full(name: str, passage: Passage) -> str:
    """The passage under its file's title and its headings: what it is found by."""
    lines = dict.fromkeys([title(name), *passage.at.headings, passage.at.sheet or "", passage.text])
    return "\n".join(line for line in lines if line)


def clean(text: str) -> str:
    """Without lone surrogates (undecodable bytes in a path), which no table takes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
