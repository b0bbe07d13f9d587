"""Word, Excel and PowerPoint files from a source, dated so that the same source gives the same bytes."""

import datetime
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]  # has no types
from docx import Document
from docx.document import Document as WordDocument
from docx.shared import Pt
from openpyxl.styles import Alignment, Font  # type: ignore[import-untyped]
from openpyxl.worksheet.worksheet import Worksheet  # type: ignore[import-untyped]
from pptx import Presentation
from pptx.util import Inches

from bench.knowledge.sources import ABOVE, Element, Source

DAY = datetime.datetime(2025, 1, 6, 9, 0)
ZIP_DAY = (2025, 1, 6, 9, 0, 0)
NUMBER = re.compile(r"[1-9]\d{0,7}(\.\d+)?|0(\.\d+)?")
PERCENT = re.compile(r"(\d+)%")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def docx(source: Source, path: Path) -> None:
    """Headings with Word's styles, real tables with merged cells, the header in the page's header."""
    document = Document()
    document.core_properties.created = document.core_properties.modified = DAY
    document.styles["Normal"].font.size = Pt(10.5)
    document.sections[0].header.paragraphs[0].text = source.header
    for element in source.elements:
        if element.kind == "heading":
            document.add_heading(element.text, element.level - 1)
        elif element.kind == "item":
            document.add_paragraph(element.text, "List Bullet")
        elif element.kind == "rule":
            document.add_page_break()  # type: ignore[no-untyped-call]
        elif element.kind == "table":
            _word_table(document, element)
        else:
            document.add_paragraph(element.text)
    document.save(str(path))
    _settle(path)


def _word_table(document: WordDocument, element: Element) -> None:
    table = document.add_table(len(element.rows), len(element.rows[0]), "Table Grid")
    for at, row in enumerate(element.rows):
        for column, text in enumerate(row):
            cell = table.cell(at, column)
            if text == ABOVE:
                table.cell(at - 1, column).merge(cell)
            else:
                cell.text = text


def xlsx(source: Source, path: Path) -> None:
    """A sheet for each heading of level 2: titles over all columns, a table, notes below it."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for title, elements in _parts(source):
        sheet = book.create_sheet(title)
        columns = max(len(element.rows[0]) for element in elements if element.rows)
        for element in elements:
            if element.rows:
                _sheet_table(sheet, element)
                continue
            at = (sheet.max_row if sheet.max_row > 1 or sheet["A1"].value else 0) + 1
            sheet.cell(at, 1, element.text).alignment = Alignment(horizontal="center")
            sheet.merge_cells(start_row=at, end_row=at, start_column=1, end_column=columns)
    book.save(path)
    _settle(path)


def _sheet_table(sheet: Worksheet, element: Element) -> None:
    top = sheet.max_row + 1
    for at, row in enumerate(element.rows, top):
        for column, text in enumerate(row, 1):
            if text == ABOVE:
                continue
            cell = sheet.cell(at, column)
            cell.value, cell.number_format = _typed(text) if at > top else (text, "General")
            cell.font = Font(bold=at == top)
    for column in range(len(element.rows[0])):
        for first, last in _runs([row[column] for row in element.rows]):
            sheet.merge_cells(start_row=top + first, end_row=top + last, start_column=column + 1, end_column=column + 1)


def _runs(cells: list[str]) -> Iterator[tuple[int, int]]:
    """First and last row of each cell that reaches over the rows below it."""
    first = 0
    for at, text in enumerate([*cells, ""]):
        if text != ABOVE:
            if at - 1 > first:
                yield first, at - 1
            first = at


def _typed(text: str) -> tuple[str | int | float | datetime.date | None, str]:
    """The value and its number format, as a bookkeeper would have typed it."""
    if NUMBER.fullmatch(text):
        return (float(text), "#,##0.00") if "." in text else (int(text), "General")
    if percent := PERCENT.fullmatch(text):
        return int(percent[1]) / 100, "0%"
    if DATE.fullmatch(text):
        return datetime.date.fromisoformat(text), "yyyy-mm-dd"
    return text or None, "General"


def pptx(source: Source, path: Path) -> None:
    """A slide for each heading of level 2: its title, its text, its table."""
    show = Presentation()
    show.core_properties.created = show.core_properties.modified = DAY
    for title, elements in _parts(source):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "\n".join(element.text for element in elements if not element.rows)
        for element in elements:
            if element.rows:
                size = (len(element.rows), len(element.rows[0]))
                table = slide.shapes.add_table(*size, Inches(1), Inches(4), Inches(8), Inches(2)).table
                for at, row in enumerate(element.rows):
                    for column, text in enumerate(row):
                        table.cell(at, column).text = text
    show.save(str(path))
    _settle(path)


def _parts(source: Source) -> list[tuple[str, list[Element]]]:
    """The headings of level 2, each with what stands below it."""
    parts: list[tuple[str, list[Element]]] = []
    for element in source.elements:
        if element.kind == "heading" and element.level == 2:
            parts.append((element.text, []))
        elif parts:
            parts[-1][1].append(element)
    return parts


def _settle(path: Path) -> None:
    """Take the time of writing out of an Office file: it stands in the archive and in the document's properties."""
    with zipfile.ZipFile(path) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts:
            if name == "docProps/core.xml":
                content = re.sub(rb"(<dcterms:(\w+)[^>]*>)[^<]*", rb"\g<1>2025-01-06T09:00:00Z", content)
            entry = zipfile.ZipInfo(name, ZIP_DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
