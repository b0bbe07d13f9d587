"""The list of files in the page: those of this chat and those of the shared library, and what may be done with them."""

from pathlib import Path
from typing import Any

import chainlit as cl
from chainlit.types import CommandDict

from assistant import boot, grounds, page, texts
from engine.errors import ZhidaError
from engine.words import Words
from knowledge.base import SourceFile

ELEMENT = "LibraryShelf"
COMMANDS = (texts.SHELF.zh, texts.SHELF.en)


def command(language: str) -> CommandDict:
    """The command that opens the list, as the composer offers it."""
    return CommandDict(
        id=texts.SHELF.speak(language),
        description=texts.SHELF_HINT.speak(language),
        icon="library",
        button=True,
        persistent=False,
        selected=False,
    )


async def open_shelf() -> None:
    """Show the list as the newest message; one a chat is enough."""
    if shown := page.on_page(cl.user_session.get("shelf")):
        await shown.remove()
    element = cl.CustomElement(name=ELEMENT, display="inline", props=await listed())
    cl.user_session.set("shelf", await page.show(element))


async def refresh(error: Words | None = None) -> dict[str, Any]:
    """The files may have changed: so does a list that is on the page. Returns what it shows."""
    props = await listed(error)
    if shown := page.on_page(cl.user_session.get("shelf")):
        (element,) = shown.elements
        element.props = props  # type: ignore[attr-defined]  # Chainlit's annotation leaves custom elements out
        await cl.context.emitter.send_element(element.to_dict())
    return props


async def listed(error: Words | None = None) -> dict[str, Any]:
    """This chat's files, then the shared ones, newest first."""
    try:
        library = await boot.library()
        own, shared = await library.files(cl.context.session.id), await library.files()
    except ZhidaError as closed:
        own, shared, error = [], [], closed.words
    return {
        "files": [*(_row(file, False) for file in own), *(_row(file, True) for file in shared)],
        "mayEdit": boot.edit_allowed(),
        "error": page.speak(error) if error else "",
    }


async def remove(origin: str, is_shared: bool) -> dict[str, Any]:
    """A file and all its passages go; returns the list as it is then."""
    if is_shared and not boot.edit_allowed():
        return await refresh(texts.EDIT_FORBIDDEN)
    library = await boot.library()
    try:
        is_gone = await library.remove(origin, None if is_shared else cl.context.session.id)
    except ZhidaError as error:
        return await refresh(error.words)
    await grounds.settle(page.chat(), cl.context.session.id, page.language())
    return await refresh(None if is_gone else texts.GONE)


async def share(origin: str) -> dict[str, Any]:
    """A file of this chat moves to the shared library; returns the list as it is then."""
    if not boot.edit_allowed():
        return await refresh(texts.EDIT_FORBIDDEN)
    library, chat = await boot.library(), cl.context.session.id
    file = next((own for own in await library.files(chat) if own.origin == origin), None)
    if file is None:
        return await refresh(texts.GONE)
    there = {shared.origin: shared.digest for shared in await library.files()}
    is_replacing = there.get(_shared_origin(file), file.digest) != file.digest
    try:
        await _move(file, chat)
    except ZhidaError as error:
        return await refresh(error.words)
    return await refresh(texts.SHARED_REPLACED if is_replacing else None)


async def _move(file: SourceFile, chat: str) -> None:
    from knowledge.library import Incoming

    library = await boot.library()
    old = library.original(file, chat)
    moved = await library.add(Incoming(old, file.name, _shared_origin(file)))
    await library.remove(file.origin, chat)
    _relink(old, library.original(moved))


def _shared_origin(file: SourceFile) -> str:
    """One file of a name in the shared library: a newer one takes its place."""
    return f"upload:{file.name}"


def _relink(old: Path, new: Path) -> None:
    """The link of the message that brought the file leads to where it lies now."""
    for upload in cl.context.session.files.values():
        if Path(upload["path"]) == old:
            upload["path"] = new


def _row(file: SourceFile, is_shared: bool) -> dict[str, Any]:
    return {
        "origin": file.origin,
        "name": file.name,
        "size": file.size,
        "pages": file.pages,
        "passages": file.passages,
        "addedAt": file.added_at,
        "warnings": [page.speak(words) for words in file.warnings],
        "shared": is_shared,
        "digest": file.digest,
    }
