"""A reading becomes passages: a clause, a list with its lead-in, a question with its answer, a paragraph or two.

Why 120 to 320 characters: the embedder sees 512 tokens, about 700 characters with the headings; a model of 0.5B quotes
well from a few sentences and loses its way in more; eight passages of 320 take half of a window of 4,096 tokens.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from knowledge.base import Block, Locator, Passage, Reading
from knowledge.readers.outline import ITEM

ENOUGH, MOST, LIST_MOST = 120, 320, 480
"""Characters: a passage takes in the next paragraph below ENOUGH, has MOST, or LIST_MOST to keep a list whole."""
_LEAD_MOST = 100
_QUESTION = re.compile(r"(?:问题?|Q) ?\d{0,3} ?[：:.、]", re.IGNORECASE)
_ANSWER = re.compile(r"(?:答案?|回答|A) ?\d{0,3} ?[：:.、]", re.IGNORECASE)
_CUTS = tuple(re.compile(p) for p in (r"[。！？；!?;\n][”’」』）)\"]*|\.(?=\s)", r"[，、,：:]", r"\s"))
_CODE = re.compile(r"[0-9A-Za-z][0-9A-Za-z.,:/_@%+\-]*[0-9A-Za-z%]")


@dataclass(slots=True)
class _Unit:
    """What stays together if it can: `lead` is said again before each part where it cannot."""

    at: Locator
    parts: list[str]
    lead: str = ""
    most: int = MOST

    @property
    def text(self) -> str:
        return "\n".join(self.parts)


@dataclass(slots=True)
class _Open:
    """The passage that is being filled."""

    at: Locator | None = None
    texts: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.texts)) + len(self.texts)

    def close(self) -> Iterator[Passage]:
        if self.texts and self.at is not None:
            yield Passage("\n".join(self.texts), self.at)
        self.texts, self.at = [], None


def split(reading: Reading, title: str) -> list[Passage]:
    """Every word of the blocks is in a passage's text or in the headings above it; `title`, the file's, is no heading."""
    passages = list[Passage]()
    for (_, is_row), group in groupby(_content(reading.blocks), key=lambda b: (b.at.headings, b.is_row)):
        passages.extend((_rows if is_row else _section)(list(group)))
    return [Passage(p.text, _under(p.at, title)) for p in passages if p.text.strip()]


def _under(at: Locator, title: str) -> Locator:
    same = at.headings[:1] == (title,)
    return Locator(at.page, at.headings[1:] if same else at.headings, at.sheet, at.row)


def _content(blocks: Sequence[Block]) -> Iterator[Block]:
    """Texts and rows; a heading only where nothing below it carries its text."""
    for i, block in enumerate(blocks):
        if block.is_heading:
            own = (*block.at.headings, " ".join(block.text.split()))
            following = blocks[i + 1].at.headings if i + 1 < len(blocks) else ()
            if following[: len(own)] == own:
                continue
        if block.text.strip():
            yield block


def _rows(blocks: Sequence[Block]) -> Iterator[Passage]:
    for block in blocks:
        for piece in pieces(block.text, LIST_MOST):
            yield Passage(piece, block.at)


def _section(blocks: Sequence[Block]) -> Iterator[Passage]:
    """The texts under one heading: small ones together, large ones cut."""
    filling = _Open()
    for unit in _units(blocks):
        size = len(unit.text)
        if filling.texts and (filling.size >= ENOUGH or filling.size + size > unit.most or unit.lead):
            yield from filling.close()
        if size > unit.most:
            yield from filling.close()
            yield from _large(unit)
            continue
        filling.at = filling.at or unit.at
        filling.texts.append(unit.text)
        if unit.lead:
            yield from filling.close()
    yield from filling.close()


def _units(blocks: Sequence[Block]) -> Iterator[_Unit]:
    """Lead-ins with their items, questions with their answers, else single paragraphs."""
    i = 0
    while i < len(blocks):
        text = blocks[i].text
        end = i + 1
        if _QUESTION.match(text):
            while (
                end < len(blocks)
                and not _QUESTION.match(blocks[end].text)
                and (end > i + 1 or _ANSWER.match(blocks[end].text))
            ):
                end += 1
        elif text.rstrip().endswith(("：", ":")):
            while end < len(blocks) and ITEM.match(blocks[end].text):
                end += 1
            if end == i + 1 < len(blocks):
                end += 1
        if end == i + 1:
            yield _Unit(blocks[i].at, [text])
        else:
            lead = text if len(text) <= _LEAD_MOST else text[-1:]
            yield _Unit(blocks[i].at, [b.text for b in blocks[i:end]], lead, LIST_MOST)
        i = end


def _large(unit: _Unit) -> Iterator[Passage]:
    """Cut between parts, and inside a part that is too long; the lead-in stands before each."""
    lead = unit.lead if len(unit.lead) > 1 else ""
    parts = unit.parts[1:] if lead else unit.parts
    room = MOST - len(lead) - 1
    filling = _Open(unit.at, [])
    for part in parts:
        for piece in pieces(part, room):
            if filling.texts and filling.size + len(piece) > room + len(lead) + 1:
                yield from filling.close()
            if not filling.texts:
                filling.at = unit.at
                filling.texts = [lead] if lead else []
            filling.texts.append(piece)
    yield from filling.close()


def pieces(text: str, most: int) -> list[str]:
    """The text cut into pieces of at most `most` characters, at the ends of sentences where there are any, else at
    commas, else at spaces; never inside a number or a code that fits."""
    cut, rest = list[str](), text
    while len(rest) > most:
        at = _cut_at(rest, most)
        cut.append(rest[:at].strip())
        rest = rest[at:].lstrip()
    return [piece for piece in [*cut, rest.strip()] if piece]


def _cut_at(text: str, most: int) -> int:
    """Even pieces: a text a little over the limit is cut near its middle, not into a whole and a scrap."""
    count = -(-len(text) // most)
    target = min(most, len(text) // count + most // 8)
    codes = [found.span() for found in _CODE.finditer(text, 0, most + 80)]
    for pattern in _CUTS:
        ends = [found.end() for found in pattern.finditer(text, 0, most) if not _inside(found.end(), codes)]
        good = [end for end in ends if end >= most // 4]
        if good:
            return min(good, key=lambda end: abs(end - target))
    start = next((begin for begin, end in codes if begin < most < end and begin > 0 and end - begin <= most), most)
    return start


def _inside(at: int, codes: Sequence[tuple[int, int]]) -> bool:
    return any(begin < at < end for begin, end in codes)
