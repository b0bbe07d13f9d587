"""Where sentences begin and end: in passages, and in answers with their Markdown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

Span = tuple[int, int]
"""Start and end (exclusive) in a text."""

CITATION = re.compile(r"[\[［【]\s*(\d{1,2}(?:\s*[,，、]\s*\d{1,2})*)\s*[\]］】](?!\()")
"""[1], [1, 2], 【3】."""

_SHIELDED = re.compile(r"`[^`\n]+`|(?:https?://|www\.)[A-Za-z0-9\-._~/?#@&=%+:;,!$*]+|\]\([^)\s]*\)")
_END = re.compile(r"[。！？!?；;…]+|(?<=[A-Za-z0-9)\]”\"%])\.(?=\s|$)")
_CLOSERS = "”’\"'』」）)】》"
_PREFIX = re.compile(r"\s*(?:>\s*)*(?:#{1,6}\s+)?(?:[-*+•·]\s+)?(?:\[[ xX]\]\s+)?\**")
_ORDINAL = re.compile(
    r"(?:(\d{1,2})(?:\.(?!\d)|[、)）])|[（(](\d{1,2})[)）]|[①-⑳]|[（(]?[一二三四五六七八九十]{1,3}[、)）])\**\s*(?=\S)"
)
_FENCE = re.compile(r"\s*(```|~~~)")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"[\s|:\-–—*_=]+$")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence of an answer, a table's row, or a block of code."""

    start: int
    """After list markers and ordinals, which say nothing."""
    end: int
    """After the punctuation and the citations that belong to it."""
    point: int
    """Where a citation is added: before the closing punctuation."""
    is_lead: bool = False
    """A heading, a table's header, or a line that ends with a colon: announces, and claims nothing."""
    is_code: bool = False


def sentences(text: str) -> list[Span]:
    """The sentences of a passage, without the space around them."""
    spans = (_trimmed(text, start, end) for start, end in _cut(text, 0, len(text)))
    return [span for span in spans if span[0] < span[1]]


def _cut(text: str, start: int, end: int) -> Iterator[Span]:
    """Sentences between `start` and `end`; a line's end is a sentence's too."""
    shielded = _SHIELDED.sub(lambda match: "x" * len(match.group()), text[start:end])
    begun = 0
    for match in re.finditer(rf"(?:{_END.pattern})|\n", shielded):
        if match.start() < begun or _begins_image(shielded, match):
            continue
        after = _with_closers(shielded, begun, match.end())
        yield start + begun, start + after
        begun = after
    if begun < end - start:
        yield start + begun, end


def _begins_image(text: str, match: re.Match[str]) -> bool:
    return match.group() == "!" and text.startswith("[", match.end()) and not CITATION.match(text, match.end())


def _with_closers(text: str, begun: int, place: int) -> int:
    """The end of a sentence with the brackets, the bold, and the citations that close behind its punctuation."""
    while place < len(text) and text[place] in _CLOSERS:
        place += 1
    if text.startswith("**", place) and text.count("**", begun, place) % 2:
        place += 2
    while match := re.compile(rf"[ \t]*(?:{CITATION.pattern})").match(text, place):
        place = match.end()
    return place


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def units(text: str) -> list[Unit]:
    """The parts of an answer that are checked one by one; rules and empty lines are none."""
    found: list[Unit] = []
    fence, highest, place = -1, 0, 0
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        start, place = place, place + len(line)
        if _FENCE.match(line) and fence < 0:
            fence = start
        elif fence >= 0:
            if _FENCE.match(line) or number + 1 == len(lines):
                found.append(Unit(fence, start + len(line.rstrip()), start + len(line.rstrip()), is_code=True))
                fence = -1
        elif line.strip() and not _RULE.match(line):
            body, highest = _body(line, highest)
            following = lines[number + 1] if number + 1 < len(lines) else ""
            found.extend(_line(text, start, line, body, bool(_ROW.match(line)), following))
    if fence >= 0:
        found.append(Unit(fence, len(text.rstrip()), len(text.rstrip()), is_code=True))
    return found


def _body(line: str, highest: int) -> tuple[int, int]:
    """Where a line's text begins; an ordinal is passed over where it goes on from `highest`, or begins again."""
    prefix = _PREFIX.match(line)
    begun = prefix.end() if prefix else 0
    if ordinal := _ORDINAL.match(line, begun):
        number = int(ordinal.group(1) or ordinal.group(2) or 0)
        if number <= highest + 1:
            return ordinal.end(), max(highest, number)
    return begun, highest


def _line(text: str, start: int, line: str, body: int, is_row: bool, following: str) -> Iterator[Unit]:
    stripped = line.rstrip()
    if is_row:
        last = start + stripped.rindex("|")
        end = start + len(text[start:last].rstrip())
        if end > start:
            yield Unit(start, end, end, is_lead=bool(_RULE.match(following) and "|" in following))
        return
    for begun, end in _cut(text, start + body, start + len(stripped)):
        begun, end = _trimmed(text, begun, end)
        if begun < end:
            is_heading = line.lstrip().startswith("#")
            is_lead = is_heading or text[begun:end].rstrip("*").endswith((":", "："))
            yield Unit(begun, end, _point(text, begun, end), is_lead=is_lead)


def _point(text: str, start: int, end: int) -> int:
    """Before the closing punctuation and what follows it; the end where there is none."""
    shielded = _SHIELDED.sub(lambda match: "x" * len(match.group()), text[start:end])
    ends = [match.start() for match in _END.finditer(shielded) if match.start() > 0]
    tail = ends[-1] if ends else len(shielded)
    if re.fullmatch(rf"[。！？!?；;….{re.escape(_CLOSERS)}*_\s]*(?:{CITATION.pattern}|\s)*", shielded[tail:]):
        return start + tail
    return end
