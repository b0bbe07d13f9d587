"""What a finished answer claims and cites, told without the code that checks answers in the app."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.knowledge.questions import Question, squeezed
from knowledge.base import Hit
from knowledge.check import MARK

CITATIONS = re.compile(r"(?:\[\d+\])+")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
SENTENCE_END = re.compile(r"[。！？!?;；\n]|〕")
ESCAPE = re.compile(r"\\(?=[^\w\s])")
OR = "／"
"""Between ways of saying one fact."""
SHARED = 0.5
"""Of a sentence's pairs of letters, so many at least stand in a passage that says what the sentence says."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A stretch of an answer and the numbers [n] right behind it."""

    text: str
    cited: tuple[int, ...]

    def is_right(self, passages: Sequence[Hit]) -> bool:
        """Each [n] exists, and together the cited passages have the claim's figures and most of its words."""
        if not all(1 <= number <= len(passages) for number in self.cited):
            return False
        source = "".join(_whole(passages[number - 1]) for number in self.cited)
        pairs = _pairs(self.text)
        return numbers(self.text) <= numbers(source) and len(pairs & _pairs(source)) >= SHARED * len(pairs)


def claims(text: str) -> list[Claim]:
    """Each group of citations with the sentence before it; a group that stands behind no word claims nothing."""
    text = ESCAPE.sub("", text)
    found: list[Claim] = []
    start = 0
    for group in CITATIONS.finditer(text):
        before = text[start : group.start()].rstrip('。！？!?;；.> \n"”')
        sentence = SENTENCE_END.split(before)[-1]
        if re.search(r"\w", sentence):
            found.append(Claim(sentence, tuple(int(n) for n in re.findall(r"\d+", group.group()))))
        start = group.end()
    return found


def unsupported(text: str, passages: Sequence[Hit], question: str) -> tuple[int, int]:
    """Numbers of `text` outside citations and marked sentences, and those of them that neither a passage nor the
    question has."""
    kept = "".join(part for part in _sentences(ESCAPE.sub("", text)) if MARK not in part)
    said = [_plain(number) for number in NUMBER.findall(CITATIONS.sub("", kept))]
    known = numbers(question).union(*(numbers(_whole(hit)) for hit in passages))
    return len(said), sum(number not in known for number in said)


def has_facts(text: str, question: Question) -> bool:
    """Whether it says all that a right answer says."""
    plain, figures = squeezed(ESCAPE.sub("", text)).lower(), numbers(CITATIONS.sub("", text))
    ways = (fact.split(OR) for fact in question.facts)
    return all(any(way in figures if way.isdecimal() else squeezed(way).lower() in plain for way in of) for of in ways)


def numbers(text: str) -> set[str]:
    """As digits, without the commas of amounts and idle zeros."""
    return {_plain(number) for number in NUMBER.findall(squeezed(text))}


def _plain(number: str) -> str:
    number = squeezed(number)
    return number.rstrip("0").rstrip(".") if "." in number else number


def _sentences(text: str) -> list[str]:
    """With what ends them and the mark behind that."""
    return re.findall(rf".*?(?:[。！？!?\n]+(?:\[\d+\])*\s*(?:{MARK})?|$)", text, re.DOTALL)


def _whole(hit: Hit) -> str:
    at = hit.passage.at
    return " ".join(
        (hit.file.name, *at.headings, at.sheet or "", f"第{at.page}页" if at.page else "", hit.passage.text)
    )


def _pairs(text: str) -> set[str]:
    plain = re.sub(r"[^\w]", "", text)
    return {plain[at : at + 2] for at in range(len(plain) - 1)}
