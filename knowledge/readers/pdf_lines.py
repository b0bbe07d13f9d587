"""A PDF page's lines with their places, in points from the lower left corner."""

import ctypes
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]  # has no types

from knowledge.cleaning import HYPHEN, clean

_GAP = 0.7
"""In font sizes: a wider gap parts two columns; a space is a quarter to a half."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line. `cells` are its texts between wide gaps, each with its left edge."""

    cells: tuple[tuple[str, float], ...]
    left: float
    right: float
    base: float
    """The baseline's height."""
    size: float
    """Of the font."""
    page_width: float

    @property
    def text(self) -> str:
        """The whole line."""
        return " ".join(text for text, _ in self.cells)


class _Places:
    """Places of characters by index, through PDFium's C interface: thousands a page."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._edges = tuple(ctypes.c_double() for _ in range(2))
        self._rect = pdfium.FS_RECTF()

    def box(self, index: int) -> tuple[float, float]:
        """Left and right, the character's own margins included; zeros where PDFium knows none."""
        if not pdfium.FPDFText_GetLooseCharBox(self._page, index, self._rect):
            return 0.0, 0.0
        return self._rect.left, self._rect.right

    def base(self, index: int) -> float:
        """The baseline."""
        pdfium.FPDFText_GetCharOrigin(self._page, index, *self._edges)
        return self._edges[1].value

    def size(self, index: int) -> float:
        """The font's size; its box where a matrix scales a font of size 1."""
        size = float(pdfium.FPDFText_GetFontSize(self._page, index))
        if not pdfium.FPDFText_GetLooseCharBox(self._page, index, self._rect):
            return size or 1.0
        height = abs(self._rect.top - self._rect.bottom)
        return size if size and 0.5 < height / size < 2.5 else height or 1.0


def text_lines(textpage: Any, text: str, page_width: float) -> list[TextLine]:
    """Lines in PDFium's order. `text` is that of the page, character by character as PDFium counts."""
    places, lines, start = _Places(textpage), list[TextLine](), 0
    for piece in text.split("\n"):
        bare = piece.rstrip("\r")
        if bare.strip():
            line = _line(places, bare, start, page_width)
            if lines and _is_beside(lines[-1], line):
                lines[-1] = _together(lines[-1], line)
            else:
                lines.append(line)
        start += len(piece) + 1
    return lines


def _line(places: _Places, text: str, start: int, page_width: float) -> TextLine:
    first = len(text) - len(text.lstrip())
    left, right = places.box(start + first)[0], places.box(start + len(text.rstrip()) - 1)[1]
    size = places.size(start + first)
    cells = _cells(places, text, start, first, size)
    return TextLine(cells, left, right, places.base(start + first), size, page_width)


def _is_beside(before: TextLine, line: TextLine) -> bool:
    """PDFium breaks some lines at a wide gap."""
    return abs(before.base - line.base) < 0.2 * before.size and line.left > before.right


def _together(before: TextLine, line: TextLine) -> TextLine:
    cells = before.cells + line.cells
    if line.left - before.right <= _GAP * before.size:
        (text, left), (more, _), *rest = before.cells[-1], line.cells[0], *line.cells[1:]
        cells = (*before.cells[:-1], (f"{text} {more}", left), *rest)
    return TextLine(cells, before.left, line.right, before.base, before.size, before.page_width)


def _cells(places: _Places, text: str, start: int, first: int, size: float) -> tuple[tuple[str, float], ...]:
    cells, begin, i = list[tuple[str, float]](), first, first
    while (i := text.find(" ", i)) >= 0:
        end = i
        while i < len(text) and text[i] == " ":
            i += 1
        if i >= len(text):
            break
        gap = places.box(start + i)[0] - places.box(start + end - 1)[1]
        if end > begin and gap > _GAP * size:
            cells.append((clean(text[begin:end]), places.box(start + begin)[0]))
            begin = i
    cells.append((_last(text[begin:]), places.box(start + begin)[0]))
    return tuple(cells)


def _last(text: str) -> str:
    """Cleaned, but for PDFium's sign of a word that goes on in the next line."""
    bare = text.rstrip(" ")
    return clean(bare) + (HYPHEN if bare.endswith(("\x02", "\ufffe", HYPHEN)) else "")
