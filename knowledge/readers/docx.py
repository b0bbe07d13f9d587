"""Word files, in body order: paragraphs with their automatic numbers, tables in tables, text boxes, notes, headers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from docx.oxml.ns import qn

from knowledge.base import Reading
from knowledge.readers import archives
from knowledge.readers.assembly import Paragraph, Table, assemble
from knowledge.readers.numbering import Numbering
from knowledge.readers.tables import EMPTY, Cell, Line
from knowledge.readers.word_parts import WordParts

_P, _TBL, _TR, _TC, _BOX = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc"), qn("w:txbxContent")
_SKIPPED = {qn("w:del"), qn("w:moveFrom"), _BOX, qn("w:pPr"), qn("w:rPr"), qn("w:footnoteReference"),
            "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"}  # fmt: skip
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SAID = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_PAGE_NUMBER = frozenset("0123456789第共页/-—– ")


class Style(NamedTuple):
    """What a paragraph style says: a heading's level, a list's number and level, a table of contents."""

    level: int | None
    num: tuple[str, int] | None
    is_contents: bool


def read(path: Path) -> Reading:
    """Raises FileRefused for a zip that inflates too far; KeyError and lxml's errors for a broken one."""
    archives.check(path)
    parts = WordParts(path)
    document = _Document(parts)
    blocks = assemble(list(document.walk(parts.body.find(qn("w:body")))))
    if blocks:  # a company's name above nothing but pictures is no text
        blocks.extend(assemble(list(document.margins())))
    return Reading(tuple(blocks))


class _Document:
    def __init__(self, parts: WordParts) -> None:
        self._parts = parts
        self._numbering = Numbering(parts.one("numbering"))
        self._styles = _styles(parts.one("styles"))
        self._notes = {**self._read_notes("footnote"), **self._read_notes("endnote")}

    def _read_notes(self, name: str) -> dict[tuple[str, str], str]:
        root = self._parts.one(f"{name}s")
        notes = root.iter(qn(f"w:{name}")) if root is not None else ()
        return {(name, note.get(qn("w:id"), "")): "".join(_texts(note)).strip() for note in notes}

    def margins(self) -> Iterator[Paragraph | Table]:
        """Headers and footers, each text once, page numbers apart."""
        seen = set[str]()
        for kind in ("header", "footer"):
            for root in self._parts.all(kind):
                for item in self.walk(root):
                    text = item.text if isinstance(item, Paragraph) else ""
                    if isinstance(item, Table) or (text not in seen and not set(text) <= _PAGE_NUMBER):
                        yield Paragraph(text, may_be_heading=False) if text else item
                    seen.add(text)

    def walk(self, parent: Any) -> Iterator[Paragraph | Table]:
        """The paragraphs and tables below an element, through content controls and tracked insertions."""
        for child in parent:
            if child.tag == _P:
                yield from self._paragraph(child)
            elif child.tag == _TBL:
                yield from self._table(child)
            elif child.tag not in _SKIPPED and len(child):
                yield from self.walk(child)

    def _paragraph(self, element: Any) -> Iterator[Paragraph | Table]:
        style = self._styles.get(_own(element, "w:pStyle"), _PLAIN)
        text = "".join(_texts(element))
        if style.is_contents:
            return
        if text.strip():
            level = _outline_level(element)
            numbered = self._label(element, style)
            yield Paragraph(numbered + text.strip(), style.level if level is None else level)
        for box in element.iter(_BOX):
            if not any(a.tag == _FALLBACK or a.tag == _BOX for a in box.iterancestors()):
                yield from self.walk(box)
        for name in ("footnote", "endnote"):
            for reference in element.iter(qn(f"w:{name}Reference")):
                note = self._notes.get((name, reference.get(qn("w:id"), "")))
                if note:
                    yield Paragraph(f"注：{note}", may_be_heading=False)

    def _label(self, element: Any, style: Style) -> str:
        properties = element.find(qn("w:pPr"))
        own = _num(properties) if properties is not None else None
        num = own or style.num
        return self._numbering.label(*num) if num else ""

    def _table(self, element: Any) -> Iterator[Paragraph | Table]:
        """Rows of cells; tables inside cells come after it as tables of their own."""
        lines, inner, above = list[Line](), list[Paragraph | Table](), dict[int, Cell]()
        for row in _rows(element):
            cells = list[Cell]()
            for _ in range(_grid(row, "w:gridBefore")):
                cells.append(EMPTY)
            for tc in _cells(row):
                cell = self._merged(tc, len(cells), above)
                if cell is None:
                    cell = self._cell(tc, inner)
                for _ in range(_span(tc)):
                    above[len(cells)] = cell
                    cells.append(cell)
            lines.append(Line(cells, is_marked=row.find(f"{qn('w:trPr')}/{qn('w:tblHeader')}") is not None))
        yield Table(lines)
        yield from inner

    def _merged(self, tc: Any, column: int, above: dict[int, Cell]) -> Cell | None:
        merge = tc.find(f"{qn('w:tcPr')}/{qn('w:vMerge')}")
        if merge is None or merge.get(qn("w:val")) == "restart":
            return None
        return None if "".join(_texts(tc)).strip() else above.get(column)

    def _cell(self, tc: Any, inner: list[Paragraph | Table]) -> Cell:
        texts = list[str]()
        for item in self.walk(tc):
            if isinstance(item, Table):
                inner.append(item)
            else:
                texts.append(item.text)
        return Cell("\n".join(texts), _is_bold(tc))


def _texts(element: Any) -> Iterator[str]:
    """What is printed of a paragraph; deletions, text boxes and fallbacks for old programs are not."""
    for child in element:
        if child.tag == qn("w:t"):
            yield child.text or ""
        elif child.tag in _SAID:
            yield _SAID[child.tag]
        elif child.tag not in _SKIPPED and len(child):
            yield from _texts(child)


def _rows(table: Any) -> Iterator[Any]:
    yield from (row for row in table.iter(_TR) if next(row.iterancestors(_TBL)) is table)


def _cells(row: Any) -> Iterator[Any]:
    yield from (cell for cell in row.iter(_TC) if next(cell.iterancestors(_TR)) is row)


def _span(tc: Any) -> int:
    return min(_integer(tc.find(f"{qn('w:tcPr')}/{qn('w:gridSpan')}"), 1), 64) or 1


def _grid(row: Any, name: str) -> int:
    return min(_integer(row.find(f"{qn('w:trPr')}/{qn(name)}"), 0), 64)


def _integer(element: Any, default: int) -> int:
    text = "" if element is None else element.get(qn("w:val"), "")
    return int(text) if text.isdigit() and len(text) < 6 else default


def _is_bold(tc: Any) -> bool:
    runs = [run for run in tc.iter(qn("w:r")) if run.find(qn("w:t")) is not None]
    return bool(runs) and all(run.find(f"{qn('w:rPr')}/{qn('w:b')}") is not None for run in runs)


def _own(paragraph: Any, name: str) -> str:
    element = paragraph.find(f"{qn('w:pPr')}/{qn(name)}")
    return "" if element is None else str(element.get(qn("w:val"), ""))


def _outline_level(paragraph: Any) -> int | None:
    value = _own(paragraph, "w:outlineLvl")
    return int(value) + 1 if value.isdigit() and int(value) < 9 else None


_PLAIN = Style(None, None, False)


def _styles(root: Any) -> dict[str, Style]:
    """Every paragraph style by its id, with what it inherits."""
    raw = {s.get(qn("w:styleId"), ""): s for s in root.iter(qn("w:style"))} if root is not None else {}
    return {key: _style(raw, key, 8) for key in raw}


def _style(raw: dict[str, Any], key: str, depth: int) -> Style:
    element = raw.get(key)
    if element is None or depth == 0:
        return _PLAIN
    based = element.find(qn("w:basedOn"))
    parent = _style(raw, based.get(qn("w:val"), ""), depth - 1) if based is not None else _PLAIN
    name_element = element.find(qn("w:name"))
    name = "" if name_element is None else name_element.get(qn("w:val"), "").lower()
    properties = element.find(qn("w:pPr"))
    num = _num(properties) if properties is not None else None
    return Style(_named_level(name, element, parent), num or parent.num, name.startswith(("toc ", "目录 ")))


def _named_level(name: str, element: Any, parent: Style) -> int | None:
    """1 to 9 for heading styles, 0 for the title; the outline level of others."""
    if name in ("title", "标题"):
        return 0
    word, _, digit = name.rpartition(" ")
    if word in ("heading", "标题") and digit in "123456789":
        return int(digit)
    level = element.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
    value = _integer(level, 9)
    return value + 1 if level is not None and value < 9 else parent.level


def _num(properties: Any) -> tuple[str, int] | None:
    num = properties.find(f"{qn('w:numPr')}/{qn('w:numId')}")
    if num is None:
        return None
    return num.get(qn("w:val"), ""), _integer(properties.find(f"{qn('w:numPr')}/{qn('w:ilvl')}"), 0)
