"""From a PDF's lines to paragraphs and tables: repeated headers and footers go, broken lines are joined."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from statistics import median

from knowledge.cleaning import join
from knowledge.readers.assembly import Paragraph, Table
from knowledge.readers.outline import ITEM, LONGEST, numbered_level
from knowledge.readers.pdf_lines import TextLine
from knowledge.readers.tables import Cell, Line

_EDGE = 2
"""Lines at the top and at the bottom where headers and footers stand."""
_PAGE_MARK = re.compile(
    r"[-—–\s]*(?:第 ?)?\d{1,4} ?页?[-—–\s]*|第 ?\d+ ?页[ ，,/|]*(?:共 ?\d+ ?页)?|\d+ ?/ ?\d+|Page \d+(?: of \d+)?", re.I
)
_ENDS = "。！？；!?;"
_COLON = ("：", ":")
_SIZED = 10
"""Above the levels of files that mark their headings, below those told by numbers."""
_WIDE, _STEP = 15, 6
"""A line that may end at a column's edge, in font sizes; how far such ends may differ, in points."""
_ROW = 1.7
"""In font sizes: lines of one cell stand closer than rows."""
_CELL = 40
"""Characters: longer ones are columns of text, not a table's cells."""


class Layout:
    """All readable pages of one file, by number."""

    def __init__(self, pages: dict[int, list[TextLine]]) -> None:
        self._pages = _without_furniture(pages)
        sizes, ends = Counter[float](), Counter[int]()
        for line in (line for lines in self._pages.values() for line in lines):
            sizes[round(line.size, 1)] += len(line.text)
            if line.right - line.left > _WIDE * line.size:
                ends[round(line.right / _STEP)] += 1
        self._margins = sorted(end * _STEP for end, count in ends.items() if count >= max(4, ends.total() // 30))
        self._body = max(sizes, key=lambda size: sizes[size], default=0.0)
        bigger = sorted((s for s in sizes if s > 1.12 * self._body), reverse=True)
        self._ranks = {size: _SIZED + min(i, 8) for i, size in enumerate(bigger)}

    def items(self) -> list[Paragraph | Table]:
        """In the file's order. A paragraph that goes on over the page stands on its first."""
        items: list[Paragraph | Table] = []
        is_open, above = False, list[TextLine]()
        for number, lines in self._pages.items():
            for i, item in enumerate(self._page(number, lines)):
                before = items[-1] if items else None
                if i == 0 and is_open and self._goes_on(before, item, lines):
                    assert isinstance(before, Paragraph)
                    assert isinstance(item, Paragraph)
                    items[-1] = Paragraph(join(before.text, item.text), None, before.page)
                elif i == 0 and isinstance(before, Table) and isinstance(item, Table):
                    items.append(Table(item.lines, number, goes_on=_is_same_table(above, lines)))
                else:
                    items.append(item)
            above = list(lines)
            is_open = bool(lines) and self._is_full(lines[-1], lines) and not lines[-1].text.endswith((*_ENDS, *_COLON))
        return items

    def _goes_on(self, before: Paragraph | Table | None, item: Paragraph | Table, lines: Sequence[TextLine]) -> bool:
        if not isinstance(before, Paragraph) or not isinstance(item, Paragraph):
            return False
        is_plain = before.level is None and item.level is None and not _starts_anew(item.text)
        return is_plain and lines[0].left < min(line.left for line in lines) + lines[0].size

    def _page(self, number: int, lines: Sequence[TextLine]) -> Iterator[Paragraph | Table]:
        i = 0
        while i < len(lines):
            end = _table_end(lines, i)
            if end > i:
                yield Table([Line([Cell(text) for text in row]) for row in _rows(lines[i:end])], number)
                i = end
                continue
            end = i + 1
            while end < len(lines) and _table_end(lines, end) == end and self._is_joined(lines, end):
                end += 1
            yield self._paragraph(lines[i:end], number)
            i = end

    def _paragraph(self, lines: Sequence[TextLine], page: int) -> Paragraph:
        text = ""
        for line in lines:
            text = join(text, line.text.strip(" "))
        return Paragraph(text, self._sized_level(lines[0], text), page)

    def _sized_level(self, line: TextLine, text: str) -> int | None:
        is_short = len(text) <= LONGEST and not text.endswith((*_ENDS, *_COLON, "，", ","))
        numbered = numbered_level(text)
        if not is_short or (numbered is not None and numbered >= 20):
            return numbered if numbered is not None and round(line.size, 1) in self._ranks else None
        return self._ranks.get(round(line.size, 1))

    def _is_joined(self, lines: Sequence[TextLine], i: int) -> bool:
        """Whether line i goes on with the paragraph of the line before it."""
        before, line = lines[i - 1], lines[i]
        if abs(before.size - line.size) > 0.08 * before.size or _starts_anew(line.text):
            return False
        if not self._is_full(before, lines) or (
            numbered_level(before.text) is not None and before.right < _right(lines) - 2 * before.size
        ):
            return False
        pitch = before.base - line.base
        if pitch <= 0 or pitch > 2.6 * line.size or pitch > 1.35 * _pitch(lines):
            return False
        is_indented = line.left > _left(lines) + 1.4 * line.size
        was_indented = before.left > _left(lines) + 1.4 * line.size
        return not (is_indented and not was_indented) and not (is_indented and before.text.endswith(tuple(_ENDS)))

    def _is_full(self, line: TextLine, lines: Sequence[TextLine]) -> bool:
        """Whether a line ends because the column does: at a right edge of many wide lines, or of the page's text."""
        slack = 2.2 * line.size
        if line.right > 0.7 * line.page_width and line.right > _right(lines) - slack:
            return True
        is_wide = line.right - line.left > _WIDE * line.size
        return is_wide and any(-_STEP < margin - line.right < slack for margin in self._margins)


def _left(lines: Sequence[TextLine]) -> float:
    return min(line.left for line in lines)


def _right(lines: Sequence[TextLine]) -> float:
    return max(line.right for line in lines)


def _pitch(lines: Sequence[TextLine]) -> float:
    """The usual distance of two lines of a page."""
    steps = [a.base - b.base for a, b in pairwise(lines) if 0 < a.base - b.base < 3 * a.size]
    return median(steps) if steps else 1000.0


def _starts_anew(text: str) -> bool:
    return (
        bool(ITEM.match(text))
        or numbered_level(text[:LONGEST]) is not None
        or bool(re.match(r"第[^，。]{1,6}[章节条]|[问答QA][：:]", text))
    )


def _table_end(lines: Sequence[TextLine], start: int) -> int:
    """Where the table that starts here ends; `start` itself where none does. Its first line shows the columns: each
    piece of the lines below begins at one of them, and two rows at least fill more than one."""
    columns = [left for _, left in lines[start].cells]
    end = start + 1
    while len(columns) > 1 and end < len(lines) and _fits(lines[end], columns, lines[start].size):
        end += 1
    while end > start + 1 and _column(lines[end - 1].cells[-1][1], columns, lines[start].size) == 0:
        end -= 1
    rows = _rows(lines[start:end])
    texts = [text for row in rows for text in row if text]
    is_text = sum(len(text) > _CELL for text in texts) > len(texts) / 3
    return start if sum(sum(map(bool, row)) > 1 for row in rows) < 2 or is_text else end


def _is_same_table(above: Sequence[TextLine], below: Sequence[TextLine]) -> bool:
    """Whether the table that ends a page has the columns of the one that begins the next."""
    columns = [left for _, left in below[0].cells]
    return any(
        [_column(left, columns, line.size) for _, left in line.cells] == [*range(len(columns))] for line in above[-3:]
    )


def _column(left: float, columns: Sequence[float], size: float) -> int | None:
    """The column that begins here."""
    near = min(range(len(columns)), key=lambda i: abs(columns[i] - left))
    return near if abs(columns[near] - left) < 1.5 * size else None


def _fits(line: TextLine, columns: Sequence[float], size: float) -> bool:
    """Whether a line belongs to a table; a line of text below would reach over a column's end."""
    places = [_column(left, columns, size) for _, left in line.cells]
    if abs(line.size - size) > 0.08 * size or None in places or len(set(places)) < len(places):
        return False
    return len(places) > 1 or places[0] == len(columns) - 1 or line.right < columns[(places[0] or 0) + 1]


def _rows(lines: Sequence[TextLine]) -> list[list[str]]:
    """Cells of several lines are joined: PDFium gives a row's cells from left to right, so a row ends where it goes back."""
    columns, size = [left for _, left in lines[0].cells], lines[0].size
    rows, last, base = list[list[str]](), len(columns), lines[0].base
    for line in lines:
        for text, left in line.cells:
            column = _column(left, columns, size) or 0
            is_below = column == last == 0 and base - line.base > _ROW * size
            if column < last or is_below:
                rows.append([""] * len(columns))
            rows[-1][column] = join(rows[-1][column], text)
            last, base = column, line.base
    return rows


def _without_furniture(pages: dict[int, list[TextLine]]) -> dict[int, list[TextLine]]:
    """Headers and footers of most pages go, with page numbers that count along; a page is never emptied of other text."""
    counts = Counter(
        key
        for page, lines in pages.items()
        for key in {k for i in _edges(lines) for k in _keys(lines[i], page, len(pages))}
    )
    enough = max(2, len(pages) // 2 + 1)
    common = {key for key, count in counts.items() if count >= enough}
    kept = {}
    for page, lines in pages.items():
        marks = {
            i
            for i in _edges(lines)
            if len(pages) > 1 and _PAGE_MARK.fullmatch(lines[i].text.strip()) and _is_outer(lines, i)
        }
        repeated = {i for i in _edges(lines) if common & set(_keys(lines[i], page, len(pages)))} - marks
        gone = marks | repeated if len(marks | repeated) < len(lines) else marks
        kept[page] = [line for i, line in enumerate(lines) if i not in gone]
    return kept


def _edges(lines: Sequence[TextLine]) -> list[int]:
    """Indices of the lines at the top and bottom, but for a table's."""
    edges = sorted({*range(min(_EDGE, len(lines))), *range(max(0, len(lines) - _EDGE), len(lines))})
    return [i for i in edges if _table_end(lines, i) == i and not (i and _table_end(lines, i - 1) > i)]


def _is_outer(lines: Sequence[TextLine], i: int) -> bool:
    """The very first or last line, in place and not only in order."""
    heights = [line.base for line in lines]
    return lines[i].base in (max(heights), min(heights))


def _keys(line: TextLine, page: int, count: int) -> Iterator[str]:
    """The line's text at its height, once as it is and once for each way in which its numbers may be counting with the pages."""
    parts = re.split(r"(\d+)", "".join(line.text.split())[:80])
    ways = [[part, f"#{int(part) - page}"] if _may_count(part, count) else [part] for part in parts]
    if sum(len(way) - 1 for way in ways) > 3:
        ways = [[part] for part in parts]
    place = f"@{round(line.base / 4)}"
    yield from ("".join(choice) + place for choice in product(*ways))


def _may_count(part: str, count: int) -> bool:
    return part.isdecimal() and len(part) <= 4 and 0 < int(part) <= count + 50
