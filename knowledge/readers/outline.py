"""Headings told by their numbers (第三章, 第十二条, 一、, （一）, 1.2), and the path of those above a block."""

import re

from knowledge.readers.limits import HEADING

_NUMBER = "[一二三四五六七八九十百千零〇两0-9]+"
_PATTERNS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern), level)
    for pattern, level in (
        (f"第 ?{_NUMBER} ?[编篇]|第{_NUMBER}部分", 20),
        (f"第 ?{_NUMBER} ?章|附件{_NUMBER}?[ ：:]|附录", 21),
        (f"第 ?{_NUMBER} ?节", 22),
        (f"第 ?{_NUMBER} ?条(?![款件例])", 23),
        ("[一二三四五六七八九十]{1,3}、", 24),
        ("[（(][一二三四五六七八九十]{1,3}[）)]", 25),
        (r"\d{1,2}(?:[.．、](?=[^\d\s])|[.．] (?=\S))", 26),
        (r"\d{1,2}[.．]\d{1,2}(?![\d.．%％]) ?(?=[^\d\s.．%％])", 27),
        (r"\d{1,2}[.．]\d{1,2}[.．]\d{1,2}(?![\d.．]) ?(?=[^\d\s.．])", 28),
    )
)
CLAUSE = re.compile(f"第 ?{_NUMBER} ?条(?![款件例])")
CLAUSE_LEVEL = 23
ITEM = re.compile(
    r"(?:[（(]?(?:[一二三四五六七八九十]{1,3}|\d{1,2}|[a-zA-Z])[）)、]|\d{1,2}[.．](?!\d)|[①-⑳•·\-*–●○■◆▪])\s*\S"
)
LONGEST = 40
_SENTENCE = re.compile(r"[。；;！？!?，,：:…]$|[。；]")
_LEADER = re.compile(r"[.．·…]{3,} *\d+$")


def numbered_level(text: str) -> int | None:
    """The level of a short line that starts as a heading does; None for other text."""
    if len(text) > LONGEST or "\n" in text or _SENTENCE.search(text) or _LEADER.search(text):
        return None
    return next((level for pattern, level in _PATTERNS if pattern.match(text)), None)


def heading_levels(lines: list[str]) -> list[int | None]:
    """The level of each line that is a heading. Short numbered lines that follow one another without text between
    them are a list, not headings; chapters and clauses are headings all the same."""
    levels = [numbered_level(line) for line in lines]
    kept = list(levels)
    for i, level in enumerate(levels):
        if level is not None and level > CLAUSE_LEVEL:
            neighbours = (levels[j] for j in (i - 1, i + 1) if 0 <= j < len(levels))
            if level in neighbours or i == len(levels) - 1:
                kept[i] = None
    return kept


class Outline:
    """The headings above where a reader is now; a lower level number stands higher."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    @property
    def path(self) -> tuple[str, ...]:
        """Outermost first."""
        return tuple(text for _, text in self._open)

    def enter(self, level: int, text: str) -> None:
        """A heading is met: those of its level and below end."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, " ".join(text.split())[:HEADING]))

    def notice(self, text: str) -> None:
        """A paragraph that starts with a clause's number puts itself and what follows under it."""
        clause = CLAUSE.match(text)
        if clause:
            self.enter(CLAUSE_LEVEL, clause[0].replace(" ", ""))
