"""A Ground of documents: found, refused or cited, and checked."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assistant import texts
from assistant.ground import Basis, Reply
from engine.words import Words
from knowledge.asking import find
from knowledge.base import Hit
from knowledge.check import MARK, Citation, check
from knowledge.grounding import refusal

if TYPE_CHECKING:
    from knowledge.library import Library

CITED = re.compile(r"\[(\d{1,2})\]")
NOT_THE_MODELS = re.compile(rf"\s*(?:{MARK}|\[\d{{1,2}}\])")
"""Marks and citations, which the check writes: a model that sees them in earlier answers writes its own."""


class Documents:
    """Answers come from the shared library and the chat's own files, or not at all."""

    searching: Words | None = texts.SEARCHING

    def __init__(self, library: Callable[[], Awaitable["Library"]], chat: str, system: str, language: str) -> None:
        self._library, self._chat, self._system, self._language = library, chat, system, language

    async def find(self, question: str, earlier: Sequence[str]) -> Basis:
        """See Ground. Below the gate the reply is the refusal, and the model is not asked."""
        library = await self._library()
        found = await find(library, question, earlier, self._chat)
        if not found.hits and not await library.files() and not await library.files(self._chat):
            return Basis(reply=Reply(texts.EMPTY_LIBRARY.speak(self._language), ""))
        if not found.passages:
            return Basis(reply=Reply(refusal(found.hits).speak(self._language), "", notices=(texts.NOT_ASKED,)))
        return Basis(found.passages)

    def system(self, own: str) -> str:
        """See Ground."""
        return self._system or own

    async def conclude(self, question: str, answer: str, passages: Sequence[Hit], is_whole: bool) -> Reply:
        """See Ground. What no passage supports is marked; part of an answer is never replaced by a quotation."""
        checked = await asyncio.to_thread(check, answer, passages, question)
        if checked.fallback and not is_whole:
            return Reply(answer + MARK, without_marks(answer), notices=(texts.marked(1),)) if answer else Reply("", "")
        notices = [texts.QUOTED] if checked.fallback else []
        if checked.marked and not checked.fallback:
            notices.append(texts.marked(checked.marked))
        text, cited = renumbered(checked.text, checked.citations)
        return Reply(text, without_marks(text), cited, tuple(notices))


def renumbered(text: str, cited: tuple[Citation, ...]) -> tuple[str, tuple[Citation, ...]]:
    """The answer with its citations counted from [1]; the model's numbers are places in a list that nobody else sees."""
    places = {citation.number: place for place, citation in enumerate(cited, 1)}
    text = CITED.sub(lambda match: f"[{places.get(int(match[1]), match[1])}]", text)
    return text, tuple(replace(citation, number=places[citation.number]) for citation in cited)


def without_marks(answer: str) -> str:
    """An answer as later turns are to see it."""
    return NOT_THE_MODELS.sub("", answer).strip()
