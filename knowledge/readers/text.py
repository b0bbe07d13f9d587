"""Plain text: a line is a paragraph, except where lines were broken at a fixed width."""

from pathlib import Path
from unicodedata import east_asian_width

from knowledge.base import Reading
from knowledge.cleaning import clean, join
from knowledge.readers.assembly import Paragraph, assemble
from knowledge.readers.decoding import decode
from knowledge.readers.outline import ITEM, numbered_level

_ENDS = '。！？；：.!?;:…”"）)】|'


def read(path: Path) -> Reading:
    """Raises FileRefused for what is no text."""
    groups = clean(decode(path)).split("\n\n")
    return Reading(tuple(assemble([Paragraph(text) for group in groups for text in paragraphs(group.split("\n"))])))


def paragraphs(lines: list[str]) -> list[str]:
    """Lines joined where the one before is as wide as the widest and ends in mid-sentence."""
    full = max(map(_width, lines), default=0)
    texts = list[str]()
    is_open = False
    for line in lines:
        if is_open and not ITEM.match(line) and numbered_level(line) is None:
            texts[-1] = join(texts[-1], line)
        else:
            texts.append(line)
        is_open = full >= 60 and _width(line) > full - 12 and not line.endswith(tuple(_ENDS))
    return texts


def _width(line: str) -> int:
    """In columns of a terminal."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in line)
