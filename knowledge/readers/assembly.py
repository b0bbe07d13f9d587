"""Paragraphs and tables, in their order, become blocks with the headings above them."""

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.base import Block, Locator
from knowledge.cleaning import clean
from knowledge.readers.outline import Outline, heading_levels
from knowledge.readers.tables import Line, Spoken, speak


@dataclass(frozen=True, slots=True)
class Paragraph:
    """`level`: of a heading that the file marks as one, lower is higher; None where only its number may tell."""

    text: str
    level: int | None = None
    page: int | None = None
    may_be_heading: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Its rows, the header too."""

    lines: Sequence[Line]
    page: int | None = None
    goes_on: bool = False
    """It is the rest of the table before it, from over the page."""


def assemble(items: Sequence[Paragraph | Table]) -> list[Block]:
    """Cleaned blocks; empty ones go."""
    cleaned = [
        Paragraph(clean(i.text), i.level, i.page, i.may_be_heading) if isinstance(i, Paragraph) else i for i in items
    ]
    kept = [i for i in cleaned if isinstance(i, Table) or i.text.strip()]
    texts = [i.text if isinstance(i, Paragraph) and i.level is None and i.may_be_heading else "" for i in kept]
    outline, blocks, spoken = Outline(), list[Block](), Spoken()
    for item, numbered in zip(kept, heading_levels(texts), strict=True):
        if isinstance(item, Table):
            spoken = speak(item.lines, Locator(item.page, outline.path), spoken if item.goes_on else Spoken())
            blocks.extend(spoken.blocks)
            continue
        level = item.level if item.level is not None else numbered
        if level is not None:
            at = Locator(item.page, _above(outline, level, item.text))
        else:
            if item.may_be_heading:
                outline.notice(item.text)
            at = Locator(item.page, outline.path)
        blocks.append(Block(item.text, at, is_heading=level is not None))
    return blocks


def _above(outline: Outline, level: int, text: str) -> tuple[str, ...]:
    """Enter a heading; the path above it."""
    outline.enter(level, text)
    return outline.path[:-1]
