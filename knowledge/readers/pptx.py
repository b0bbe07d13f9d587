"""Presentations: a slide is a page; its title is the heading of what stands on it, notes last."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pptx import Presentation

from knowledge.base import FileRefused, Reading
from knowledge.readers import archives, limits
from knowledge.readers.assembly import Paragraph, Table, assemble
from knowledge.readers.refusals import TOO_MUCH
from knowledge.readers.tables import Cell, Line


def read(path: Path) -> Reading:
    """Raises FileRefused for a zip that inflates too far or too many slides."""
    archives.check(path)
    slides = Presentation(str(path)).slides
    if len(slides) > limits.PAGES:
        raise FileRefused(TOO_MUCH)
    blocks = (assemble(list(_slide(slide, page))) for page, slide in enumerate(slides, start=1))
    return Reading(tuple(chain.from_iterable(blocks)), pages=len(slides))


def _slide(slide: Any, page: int) -> Iterator[Paragraph | Table]:
    title = slide.shapes.title
    text = title.text_frame.text.replace("\v", " ").strip() if title is not None else ""
    yield Paragraph(text, 0 if text else None, page)
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape, page)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        yield from _lines(slide.notes_slide.notes_text_frame, page)


def _shape(shape: Any, page: int) -> Iterator[Paragraph | Table]:
    if hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _shape(inner, page)
    elif getattr(shape, "has_table", False):
        yield Table(_rows(shape.table), page)
    elif shape.has_text_frame:
        yield from _lines(shape.text_frame, page)


def _lines(frame: Any, page: int) -> Iterator[Paragraph]:
    for paragraph in frame.paragraphs:
        yield Paragraph(paragraph.text, page=page, may_be_heading=False)


def _rows(table: Any) -> list[Line]:
    """Cells of the grid; a merged one fills the places that it spans."""
    known: dict[tuple[int, int], Cell] = {}
    lines = []
    for r, row in enumerate(table.rows):
        cells = []
        for c, raw in enumerate(row.cells):
            cell = known.get((r, c)) or Cell(raw.text_frame.text)
            if raw.is_merge_origin:
                for dr in range(raw.span_height):
                    known.update({(r + dr, c + dc): cell for dc in range(raw.span_width)})
            cells.append(cell)
        lines.append(Line(cells, is_marked=r == 0 and table.first_row and len(row.cells) > 2))
    return lines
