"""Comma, semicolon, tab or bar separated tables; the separator is the one that cuts all rows alike."""

import csv
from pathlib import Path

from knowledge.base import Locator, Reading
from knowledge.readers import limits
from knowledge.readers.decoding import decode
from knowledge.readers.tables import Cell, Line, speak

_SEPARATORS = ",\t;|，"
_SAMPLE = 50


def read(path: Path) -> Reading:
    """Row numbers are the records': a record with line breaks counts once. Raises FileRefused for no text."""
    csv.field_size_limit(limits.CHARACTERS)
    lines = decode(path).replace("\0", "").splitlines(keepends=True)
    reader = csv.reader(lines, delimiter=_separator(lines[:_SAMPLE]))
    rows = [Line([Cell(text) for text in row], number) for number, row in enumerate(reader, start=1)]
    return Reading(tuple(speak(rows, Locator()).blocks))


def _separator(lines: list[str]) -> str:
    """The one that gives the most rows the same number of columns, more than one; a comma where none does."""

    def score(separator: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        usual = max(set(widths), key=widths.count, default=1)
        return (widths.count(usual) / len(widths), usual) if usual > 1 else (0.0, 0)

    return max(_SEPARATORS, key=score)
