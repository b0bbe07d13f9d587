"""The labelled questions: what people ask, where the answer stands, what it says."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from knowledge.base import Hit

FILE = Path(__file__).with_name("questions.jsonl")
ABSENT = "absent"
"""The kind of a question that the files do not answer."""
GAP = "…"
"""In a quote: anything may stand here, as between the cells of a row."""

Half = Literal["fit", "report"]


def squeezed(text: str) -> str:
    """Without spaces and line ends, and without the commas inside amounts: how files lay it out does not matter."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", re.sub(r"\s", "", text))


@dataclass(frozen=True, slots=True)
class Answer:
    """A passage of `file` that has all parts of `quote` answers the question."""

    file: str
    quote: str

    def stands_in(self, text: str) -> bool:
        """Whether every part of the quote is in `text`."""
        text = squeezed(text)
        return all(squeezed(part) in text for part in self.quote.split(GAP))


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its label; any one of `answers` will do, none are there for an absent one."""

    id: str
    kind: str
    text: str
    earlier: tuple[str, ...]
    """What was asked before it in the same chat, oldest first."""
    answers: tuple[Answer, ...]
    facts: tuple[str, ...]
    """What a right answer says."""

    @property
    def is_absent(self) -> bool:
        """The files do not answer it: it is to be refused."""
        return self.kind == ABSENT

    @property
    def half(self) -> Half:
        """The gate is fitted on one half and reported on the other; a question keeps its half for ever."""
        return "fit" if hashlib.sha256(self.id.encode()).digest()[0] % 2 else "report"

    def is_answered_by(self, hit: Hit) -> bool:
        """Whether the passage, read with its headings, has the answer."""
        text = "".join((*hit.passage.at.headings, hit.passage.text))
        return any(answer.file == hit.file.name and answer.stands_in(text) for answer in self.answers)

    def rank_in(self, hits: Sequence[Hit]) -> int | None:
        """Place of the first hit with the answer, from 1."""
        return next((place for place, hit in enumerate(hits, 1) if self.is_answered_by(hit)), None)


@cache
def questions() -> tuple[Question, ...]:
    """All of them, in the file's order."""
    return tuple(_question(json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines())


def _question(found: dict[str, object]) -> Question:
    answers = found["answers"]
    assert isinstance(answers, list)
    return Question(
        id=str(found["id"]),
        kind=str(found["kind"]),
        text=str(found["question"]),
        earlier=_texts(found.get("earlier", [])),
        answers=tuple(Answer(answer["file"], answer["quote"]) for answer in answers),
        facts=_texts(found["facts"]),
    )


def _texts(found: object) -> tuple[str, ...]:
    assert isinstance(found, list)
    return tuple(str(text) for text in found)
