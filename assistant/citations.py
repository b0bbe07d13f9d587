"""What a citation opens: elements that Chainlit links from the answer's text by their names."""

from typing import Any

import chainlit as cl

from assistant import texts
from knowledge.check import Citation


def elements(cited: tuple[Citation, ...], language: str) -> list[cl.CustomElement]:
    """One for each number. Chainlit takes an element's name for the text to link and for its script (see files_http), and
    opens one that is for the side by itself, over a phone's whole page: so AnswerFooter.jsx opens these, when asked."""
    return [
        cl.CustomElement(name=f"[{citation.number}]", display="page", props=_props(citation, language))
        for citation in cited
    ]


def source(citation: Citation, language: str) -> dict[str, Any]:
    """A line of the list of sources."""
    passage = citation.hit.passage
    return {
        "number": citation.number,
        "name": citation.hit.file.name,
        "place": texts.place(passage.at).speak(language),
    }


def _props(citation: Citation, language: str) -> dict[str, Any]:
    hit = citation.hit
    return {
        **source(citation, language),
        "headings": list(hit.passage.at.headings),
        "pieces": pieces(hit.passage.text, citation.spans),
        "page": hit.passage.at.page,
        "isPdf": hit.file.name.lower().endswith(".pdf"),
        "digest": hit.file.digest,
        "isShared": hit.chat is None,
    }


def pieces(text: str, spans: tuple[tuple[int, int], ...]) -> list[dict[str, Any]]:
    """The passage in pieces, each with whether it is highlighted."""
    found: list[dict[str, Any]] = []
    done = 0
    for start, end in sorted(spans):
        start = max(start, done)
        if start < end:
            found += [{"text": text[done:start], "marked": False}, {"text": text[start:end], "marked": True}]
            done = end
    found.append({"text": text[done:], "marked": False})
    return [piece for piece in found if piece["text"]]
