"""Workbooks: each row with its header, sheet and row number. Values, not formulas, as the cells show them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from openpyxl import load_workbook  # type: ignore[import-untyped]  # has no types
from openpyxl.utils.cell import range_boundaries  # type: ignore[import-untyped]

from engine.words import Words
from knowledge.base import Block, FileRefused, Locator, Reading
from knowledge.readers import archives, limits
from knowledge.readers.refusals import TOO_MUCH
from knowledge.readers.tables import EMPTY, Cell, Line, Spoken, speak
from knowledge.readers.values import shown

_MERGE = re.compile(rb'<(?:\w+:)?mergeCell [^>]*?ref="([A-Z]+[0-9]+:[A-Z]+[0-9]+)"')
_UNCALCULATED = re.compile(rb"(?:</f>|<f[^>]*/>)\s*(?:<v\s*/>|<v></v>)?\s*</c>")
_CHUNK = 1 << 20
_MERGES = 10_000


def read(path: Path) -> Reading:
    """Raises FileRefused for a zip that inflates too far; openpyxl's own errors for one that is no workbook."""
    archives.check(path)
    with path.open("rb") as file:  # by its path, openpyxl refuses a file without its suffix
        return _read(load_workbook(file, read_only=True, data_only=True))


def _read(book: Any) -> Reading:
    blocks, warnings, hidden = list[Block](), list[Words](), list[str]()
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            hidden.append(sheet.title)
            continue
        merges, uncalculated = _extras(sheet)
        blocks.extend(_sheet(sheet, merges))
        if uncalculated:
            warnings.append(_no_results(sheet.title, uncalculated))
    if hidden:
        listed = "、".join(hidden)
        warnings.append(Words(f"隐藏的工作表没有收录：{listed}。", f"Hidden sheets were left out: {listed}."))
    return Reading(tuple(blocks), pages=len(book.worksheets), warnings=tuple(warnings))


def _no_results(title: str, count: int) -> Words:
    return Words(
        f"工作表“{title}”有 {count} 个公式没有保存计算结果，已跳过。请用 Excel 或 WPS 打开并保存一次。",
        f"Sheet {title}: {count} formulas have no stored result: left out. Open the file in Excel and save it once.",
    )


def _extras(sheet: Any) -> tuple[dict[int, list[tuple[int, int, int]]], int]:
    """What openpyxl's bounded mode leaves out: merged areas, as first row -> (first column, last row, last column),
    and how many formulas have no stored result."""
    merges, uncalculated, tail = dict[int, list[tuple[int, int, int]]](), 0, b""
    seen = set[bytes]()
    with sheet.parent._archive.open(sheet._worksheet_path) as source:
        while piece := source.read(_CHUNK):
            data = tail + piece
            cut = max(data.rfind(b"</c>") + 4, data.rfind(b"<mergeCell ")) if len(piece) == _CHUNK else len(data)
            uncalculated += len(_UNCALCULATED.findall(data, 0, cut))
            for reference in _MERGE.findall(data):
                if reference not in seen and len(seen) < _MERGES:
                    seen.add(reference)
                    left, top, right, bottom = range_boundaries(reference.decode())
                    merges.setdefault(top, []).append((left, bottom, right))
            tail = data[cut:]
    return merges, uncalculated


def _sheet(sheet: Any, merges: dict[int, list[tuple[int, int, int]]]) -> Iterator[Block]:
    """Parts parted by empty rows are spoken each on their own; one without a header of its own keeps the last."""
    at, last, part = Locator(sheet=sheet.title), Spoken(), list[Line]()
    for line in _lines(sheet, merges):
        if line.distinct():
            part.append(line)
            continue
        last, part = speak(_packed(part), at, last), []
        yield from last.blocks
    yield from speak(_packed(part), at, last).blocks


def _packed(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.cells]


def _lines(sheet: Any, merges: dict[int, list[tuple[int, int, int]]]) -> Iterator[Line]:
    sheet.reset_dimensions()  # some programs write a wrong size, and openpyxl then stops early
    open_areas: list[tuple[int, int, int, Cell]] = []
    size = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells = [_cell(raw) for raw in row]
        while cells and not cells[-1].text:
            cells.pop()
        open_areas = [area for area in open_areas if area[1] >= number]
        for left, bottom, right in merges.get(number, ()):
            if left <= len(cells) and cells[left - 1].text:
                open_areas.append((left, bottom, min(right, 256), cells[left - 1]))
        size += sum(len(c.text) for c in cells)
        if size > limits.CHARACTERS:
            raise FileRefused(TOO_MUCH)
        yield Line(_filled(cells, open_areas), number)


def _cell(raw: Any) -> Cell:
    if raw.value is None:
        return EMPTY
    return Cell(shown(raw.value, raw.number_format or "General"), bool(raw.font and raw.font.b))


def _filled(cells: list[Cell], areas: Sequence[tuple[int, int, int, Cell]]) -> list[Cell]:
    for left, _, right, cell in areas:
        cells.extend([EMPTY] * (right - len(cells)))
        for column in range(left - 1, right):
            cells[column] = cell
    return cells
