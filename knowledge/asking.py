"""A question to the library: condensed, searched, judged; what the model is given, or nothing where it is not asked."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge.base import Hit
from knowledge.condense import condense
from knowledge.grounding import SHOWN, nearest
from knowledge.relevance import decide
from knowledge.terms import content

HITS = 8
"""Looked at for one question; those that are not near enough are named in a refusal."""
_BETWEEN = re.compile(r"[，,；;？?！!。、\n]|以及|还有|分别|和|与")


class Searching(Protocol):
    """The part of the library that is needed here."""

    async def search(self, texts: Sequence[str], chat: str | None = None, limit: int = HITS) -> list[Hit]:
        """See knowledge.library.Library."""


@dataclass(frozen=True, slots=True)
class Found:
    """`hits` best first; `passages` are for the model, and empty below the gate."""

    texts: tuple[str, ...]
    """What was searched: the question as asked, and condensed."""
    hits: tuple[Hit, ...]
    passages: tuple[Hit, ...]


async def find(library: Searching, question: str, earlier: Sequence[str], chat: str | None = None) -> Found:
    """For `question`, after the `earlier` ones of its chat, oldest first.

    A question of several parts is answered if it is as a whole, or if each of its parts is: then each part's best
    passage is among those for the model.
    """
    condensed = await asyncio.to_thread(condense, question, earlier)  # jieba's dictionary may have to be read
    texts = tuple(dict.fromkeys((question, condensed)))
    hits, passages = await _judged(library, texts, chat)
    best = [(await _judged(library, (part,), chat))[1][:1] for part in await asyncio.to_thread(parts, condensed)]
    if best and all(best):
        together = {(hit.file.origin, hit.passage): hit for hit in (*(hit for [hit] in best), *passages)}
        passages = list(together.values())[:SHOWN]
    return Found(texts, tuple(hits), tuple(passages))


def parts(question: str) -> list[str]:
    """The things that are asked for together; none where there is one, or where one names no thing of its own."""
    pieces = [piece for piece in _BETWEEN.split(question) if content(piece)]
    if not 2 <= len(pieces) <= SHOWN or not all(map(_names, pieces)):
        return []
    return pieces


def _names(piece: str) -> bool:
    """Whether it has more than a year, a number or a single character."""
    return any(len(term) > 1 and not term.isdigit() for term in content(piece))


async def _judged(library: Searching, texts: Sequence[str], chat: str | None) -> tuple[list[Hit], list[Hit]]:
    """The hits, and those for the model."""
    hits = await library.search(texts, chat, HITS)
    verdict = await asyncio.to_thread(decide, texts, hits)
    return hits, nearest(hits) if verdict.sure else []
