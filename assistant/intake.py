"""The files of one message on their way into the chat's library, and the element that shows how far each is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chainlit as cl
from chainlit.session import WebsocketSession

from assistant import texts, upload_names
from engine.errors import ZhidaError
from engine.words import Words
from knowledge.base import SourceFile, Stage

if TYPE_CHECKING:
    from knowledge.library import Library

log = logging.getLogger(__name__)

ELEMENT = "FileProgress"
REFRESH_S = 0.25
MAX_FILES = 20
"""Of one message; .chainlit/config.toml tells the page, which alone looks at it."""
TAKEN = "application/x-taken-in"
"""The kind of an upload that has been read: it is not read again when its message is edited."""
REFUSED, STOPPED = "refused", "stopped"


@dataclass(slots=True)
class Arriving:
    """One file of the message."""

    id: str
    path: Path
    name: str
    origin: str
    size: int
    stage: str = Stage.WAITING.value
    share: float | None = None
    notes: list[Words] = field(default_factory=list)
    source: SourceFile | None = None

    def props(self, language: str) -> dict[str, Any]:
        """As the element takes it."""
        return {
            "name": self.name,
            "size": self.size,
            "stage": self.stage,
            "share": self.share,
            "passages": self.source.passages if self.source else None,
            "pages": self.source.pages if self.source else None,
            "notes": [words.speak(language) for words in self.notes],
        }


def arriving(session: WebsocketSession, message: cl.Message) -> list[Arriving]:
    """The files of a message that have not been read yet."""
    uploads = [session.files.get(element.chainlit_key or "") for element in message.elements]
    waiting = [upload for upload in uploads if upload and upload["type"] != TAKEN]
    names = [upload_names.shown(upload["name"]) for upload in waiting]
    origins = upload_names.origins(names)
    return [
        Arriving(upload["id"], Path(upload["path"]), upload_names.told_apart(name, origin), origin, upload["size"])
        for upload, name, origin in zip(waiting, names, origins, strict=True)
    ]


class Intake:
    """Reads files one after another into a chat's own library; a bad one is refused, the rest goes on."""

    def __init__(self, session: WebsocketSession, files: list[Arriving], language: str) -> None:
        self._session, self._files, self._language = session, files, language
        self.note: Words | None = None
        """Said below the files."""
        self._shown = self._props()
        self.element = cl.CustomElement(name=ELEMENT, display="inline", props=self._shown)
        """To be sent with a message."""

    @property
    def ready(self) -> int:
        """How many files can be asked."""
        return sum(1 for file in self._files if file.stage == Stage.READY)

    async def run(self, open_library: Callable[[], Awaitable["Library"]]) -> None:
        """Returns when every file is ready or refused. Cancelled, it lets the file in hand go, and says so."""
        showing = asyncio.create_task(self._keep_showing())
        try:
            for place, file in enumerate(self._files):
                if place >= MAX_FILES:
                    await self._refuse(file, texts.too_many_files(MAX_FILES))
                else:
                    await self._take(file, open_library)
        finally:
            for file in self._files:
                if file.stage not in (Stage.READY, REFUSED):
                    file.stage, file.share = STOPPED, None
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing
            await self.show()

    async def show(self) -> None:
        """Send the element as it is now. Sent as an event: Chainlit's own update writes a file each time."""
        props = self._props()
        if props != self._shown:
            self._shown = self.element.props = props
            await cl.context.emitter.send_element(self.element.to_dict())

    async def _keep_showing(self) -> None:
        while True:
            await self.show()
            await asyncio.sleep(REFRESH_S)

    async def _take(self, file: Arriving, open_library: Callable[[], Awaitable["Library"]]) -> None:
        def progress(stage: Stage, share: float | None) -> None:
            if stage is not Stage.READY:  # that is said once `add` has returned
                file.stage, file.share = stage.value, share

        try:
            library = await open_library()
            before = {source.origin: source for source in await library.files(self._session.id)}
            file.source = await library.add(_incoming(file), self._session.id, progress)
            await self._keep(file, library.original(file.source, self._session.id))
        except ZhidaError as error:
            await self._refuse(file, error.words)
        except Exception:  # the other files go on; the console gets it whole
            log.exception("a file could not be taken in")
            await self._refuse(file, texts.INTERNAL_FILE)
        else:
            file.notes = [*_told(before.get(file.source.origin), file.source), *file.source.warnings]
            file.stage, file.share = Stage.READY.value, None

    async def _keep(self, file: Arriving, original: Path) -> None:
        """The library has the bytes now: the message's link leads there, the upload goes."""
        upload = self._session.files[file.id]
        upload["path"], upload["type"] = original, TAKEN
        if file.path != original:
            await asyncio.to_thread(file.path.unlink, missing_ok=True)

    async def _refuse(self, file: Arriving, words: Words) -> None:
        file.stage, file.share, file.notes = REFUSED, None, [words]
        self._session.files.pop(file.id, None)
        await asyncio.to_thread(file.path.unlink, missing_ok=True)

    def _props(self) -> dict[str, Any]:
        return {
            "files": [file.props(self._language) for file in self._files],
            "note": self.note.speak(self._language) if self.note else "",
        }


def _incoming(file: Arriving) -> Any:
    from knowledge.library import Incoming

    return Incoming(file.path, file.name, file.origin)


def _told(before: SourceFile | None, now: SourceFile) -> list[Words]:
    """What became of an older file of the same name."""
    if before is None:
        return []
    return [texts.UNCHANGED if before.digest == now.digest else texts.REPLACED]
