"""What an answer stands on: nothing but the model, or documents. A Turn asks its Ground before and after the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.words import Words
from knowledge.base import Hit
from knowledge.check import Citation


@dataclass(frozen=True, slots=True)
class Reply:
    """What stands in the answer's place in the end."""

    text: str
    remembered: str
    """What the model sees of it in later turns; empty: nothing."""
    citations: tuple[Citation, ...] = ()
    notices: tuple[Words, ...] = ()


@dataclass(frozen=True, slots=True)
class Basis:
    """What was found for a question: passages for the model, best first, or the reply that makes the model needless."""

    passages: tuple[Hit, ...] = ()
    reply: Reply | None = None


class Ground(Protocol):
    """Where the answers of one chat come from."""

    searching: Words | None
    """Shown while `find` runs."""

    async def find(self, question: str, earlier: Sequence[str]) -> Basis:
        """What the question needs; `earlier`: the questions before it, oldest first. Raises ZhidaError."""

    def system(self, own: str) -> str:
        """The system prompt; `own` is the one in the chat's settings."""

    async def conclude(self, question: str, answer: str, passages: Sequence[Hit], is_whole: bool) -> Reply:
        """The answer as it is to stand; `passages`: those the model was given; `is_whole`: it ended by itself."""


class FreeTalk:
    """A Ground: the model answers from what it has learnt, and its answer stands as it came."""

    searching: Words | None = None

    async def find(self, question: str, earlier: Sequence[str]) -> Basis:
        """See Ground."""
        return Basis()

    def system(self, own: str) -> str:
        """See Ground."""
        return own

    async def conclude(self, question: str, answer: str, passages: Sequence[Hit], is_whole: bool) -> Reply:
        """See Ground."""
        return Reply(answer, answer)
