"""An answer's place on the Chainlit page."""

import asyncio
import re
import time
from typing import Any

import chainlit as cl
from chainlit.utils import utc_now

from assistant import citations, texts
from assistant.turn import Footer
from engine.words import Words

COALESCE_S = 0.04
"""One event and one render carry what comes within this time: a page that gets every token alone falls behind."""
COALESCE_S_A_CHARACTER = 1e-5
"""More for a long answer, since each render lays out the whole of it: 0.08 s at 4,000 characters."""

ROW, BREAK = re.compile(r"^[ \t]*\|.*$", re.MULTILINE), re.compile(r"<br ?/?>", re.IGNORECASE)
AVATAR = "zhida"
"""The file in public/avatars; Chainlit takes no Chinese name there."""


class AnswerMessage:
    """A Screen: one Chainlit message that is placeholder, states and answer in turn."""

    def __init__(self, question_id: str, language: str) -> None:
        self._question_id, self._language = question_id, language
        self._message = cl.Message(content="", metadata={"avatarName": AVATAR}, created_at=utc_now())
        self._state = texts.PLACEHOLDER
        self._pending = ""
        self._written = False
        self._flushed_at = 0.0
        self._flush_later: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()

    async def open(self) -> None:
        """See Screen. Begun as a stream, the message has no buttons until it is closed."""
        await self._message.stream_token(self._state, is_sequence=True)

    async def state(self, state: Words) -> None:
        """See Screen."""
        text = state.speak(self._language)
        if not self._written and text != self._state:
            self._state = text
            await self._message.stream_token(text, is_sequence=True)

    async def write(self, text: str) -> None:
        """See Screen. Text is sent at once, or with what follows within COALESCE_S."""
        self._pending += text
        pause = COALESCE_S + COALESCE_S_A_CHARACTER * len(self._message.content)
        due = self._flushed_at + pause - time.monotonic()
        if due <= 0:
            await self._flush()
        elif self._flush_later is None:
            self._flush_later = asyncio.create_task(self._flush_after(due))

    async def revise(self, text: str) -> None:
        """See Screen. The page learns of it when the message is closed."""
        await self._flush()
        self._message.content, self._written = text, True

    async def close(self, instead: Words | None, footer: Footer) -> None:
        """See Screen."""
        await self._flush()
        if not self._written and instead:
            self._message.content = instead.speak(self._language)
        self._message.content = table_breaks(self._message.content)
        self._message.actions = [_regenerate(self._question_id, self._language)]
        elements = citations.elements(footer.citations, self._language)
        if element := _footer_element(footer, self._message.id, self._language):
            elements.append(element)
        self._message.elements = elements  # type: ignore[assignment]  # Chainlit's annotation leaves custom elements out
        await self._message.update()

    async def retire(self) -> None:
        """A newer question was asked: only the newest answer can be made again."""
        for action in self._message.actions:
            await action.remove()
        self._message.actions = []

    async def vanish(self) -> None:
        """See Screen."""
        self._drop_timer()
        await self._message.remove()

    async def _flush_after(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._flush_later = None
        await self._flush()

    async def _flush(self) -> None:
        self._drop_timer()
        async with self._sending:
            text, self._pending = self._pending, ""
            if text:
                self._flushed_at = time.monotonic()
                first, self._written = not self._written, True
                await self._message.stream_token(text, is_sequence=first)

    def _drop_timer(self) -> None:
        if self._flush_later:
            self._flush_later.cancel()
            self._flush_later = None


def _regenerate(question_id: str, language: str) -> cl.Action:
    label = texts.REGENERATE.speak(language)
    return cl.Action(
        name="regenerate", payload={"question_id": question_id}, label=label, tooltip=label, icon="refresh-cw"
    )


def table_breaks(text: str) -> str:
    """`<br>` in a table's row as the character that it stands for: the page shows HTML as text, and breaks there."""
    return ROW.sub(lambda row: BREAK.sub("&#10;", row[0]), text)


def _footer_element(footer: Footer, message_id: str, language: str) -> cl.CustomElement | None:
    """The quiet lines below the answer; an element, so that copying the answer copies the answer alone."""
    if not footer.notices and not footer.facts and not footer.citations:
        return None
    props: dict[str, Any] = {
        "notices": [notice.speak(language) for notice in footer.notices],
        "facts": [fact.speak(language) for fact in footer.facts],
        "tone": "warning" if footer.warning else "normal",
    }
    if footer.citations:
        props["messageId"] = message_id
        props["sources"] = [citations.source(citation, language) for citation in footer.citations]
    return cl.CustomElement(name="AnswerFooter", display="inline", props=props)
