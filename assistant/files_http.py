"""Files over HTTP: what a page sends, and what it may look at. Nothing that was uploaded is ever a page of this origin."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from chainlit import server
from chainlit.config import config
from chainlit.server import UserParam
from chainlit.session import WebsocketSession
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, UploadFile
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response

from assistant import page_picture, texts, upload_names
from engine.words import Words
from knowledge.base import SourceFile
from knowledge.readers.kinds import ACCEPTED
from knowledge.readers.limits import FILE_BYTES

if TYPE_CHECKING:
    from knowledge.library import Library

OPAQUE = "application/octet-stream"
ENVELOPE_BYTES = 64 * 1024
"""A form's own part of an upload."""
WAITING_FILES = 60
"""Uploaded and not yet sent with a message, of one chat: a page that floods fills no disk."""
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PICTURE = {**SAFE, "Cache-Control": "no-store"}
OpenLibrary = Callable[[], Awaitable["Library"]]


def mount(app: FastAPI, root_path: str, library: OpenLibrary) -> None:
    """Put the routes in the place of Chainlit's own, or of those of before a reload."""
    app.state.open_library = library
    ends: dict[str, tuple[str, Callable[..., Awaitable[Response]]]] = {
        "/project/file": ("POST", upload),
        "/project/file/{file_id}": ("GET", uploaded),
        "/knowledge/original/{digest}": ("GET", original),
        "/knowledge/page/{digest}/{page}": ("GET", page),
        "/public/elements/[{number}].jsx": ("GET", citation_element),
    }
    prefixes = {"", root_path.rstrip("/")}
    own = [
        APIRoute(prefix + path, end, methods=[method]) for prefix in prefixes for path, (method, end) in ends.items()
    ]
    taken = {route.path for route in own}
    app.router.routes[:] = [*own, *(route for route in app.router.routes if getattr(route, "path", None) not in taken)]


async def upload(request: Request, session_id: str, user: UserParam) -> Response:
    """A file for the next message. It is kept under a name of our own and as bytes of no kind, whatever the page says:
    Chainlit would take suffix and type from the page, reload at a .py under `-w` and serve a .html as one."""
    if words := await _refusal(request, session_id):
        return _sorry(words, request)
    async with request.form(max_files=1, max_fields=1) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            return _sorry(texts.LOST_UPLOAD, request)
        if words := _file_refusal(file):
            return _sorry(words, request)
        plain = UploadFile(
            file.file,
            size=file.size,
            filename=upload_names.shown(file.filename),
            headers=Headers({"content-type": OPAQUE}),
        )
        answer: Response = await server.upload_file(user, session_id, plain)  # type: ignore[arg-type]  # FastAPI's own class
        return answer


async def _refusal(request: Request, session_id: str) -> Words | None:
    """Why nothing more is taken; a body that is too large is read to its end, or the page would not hear the answer."""
    session = WebsocketSession.get_by_id(session_id)
    size = int(request.headers.get("content-length", 0))
    if size <= FILE_BYTES + ENVELOPE_BYTES and "content-length" in request.headers:
        waiting = sum(1 for file in session.files.values() if file["type"] == OPAQUE) if session else 0
        return texts.TOO_MANY_WAITING if waiting >= WAITING_FILES else None
    try:
        async for _ in request.stream():
            pass
    except ClientDisconnect:
        pass
    return texts.too_large_file(size, FILE_BYTES)


def _file_refusal(file: UploadFile) -> Words | None:
    if not file.size:
        return texts.EMPTY_FILE
    if file.size > FILE_BYTES:
        return texts.too_large_file(file.size, FILE_BYTES)
    if not upload_names.may_be_read(file.filename or ""):
        return texts.not_read(upload_names.shown(file.filename or ""), ACCEPTED)
    return None


def _sorry(words: Words, request: Request) -> Response:
    """Chainlit's page shows `detail` in its corner."""
    language = request.headers.get("accept-language", "zh").split(",")[0]
    return JSONResponse({"detail": words.speak(language)}, status_code=400)


async def uploaded(file_id: str, session_id: str, user: UserParam) -> Response:
    """A file of a chat, to be saved: never shown, never run."""
    found: FileResponse = await server.get_file(file_id, session_id, user)
    if not await asyncio.to_thread(Path(found.path).is_file):
        raise HTTPException(404, "File not found")
    session = WebsocketSession.get_by_id(session_id)
    assert session  # get_file has found the file in it
    name = session.files[file_id]["name"]
    return FileResponse(found.path, media_type=OPAQUE, filename=name or file_id, headers=SAFE)


async def original(request: Request, digest: str, session_id: str, user: UserParam) -> Response:
    """A file of the library as it was added; a PDF opens, all others are saved."""
    file, path = await _find(request, digest, session_id, user)
    is_pdf = await asyncio.to_thread(_is_pdf, path)
    kind, how = ("application/pdf", "inline") if is_pdf else (OPAQUE, "attachment")
    return FileResponse(path, media_type=kind, filename=file.name, content_disposition_type=how, headers=SAFE)


async def page(
    request: Request,
    digest: str,
    page: int,
    session_id: str,
    user: UserParam,
    mark: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006  (FastAPI copies it)
) -> Response:
    """A picture of a PDF's page, `mark`ed where these sentences stand."""
    _, path = await _find(request, digest, session_id, user)
    if not await asyncio.to_thread(_is_pdf, path):
        raise HTTPException(404, "no pages")
    picture = await page_picture.draw(path, page, [text[:500] for text in mark])
    if picture is None:
        raise HTTPException(404, "no such page")
    return Response(picture, media_type="image/png", headers=PICTURE)


async def citation_element(number: int) -> Response:
    """The element that a citation opens. Chainlit links an element by its name, which is [1], and asks for a script of
    that name."""
    return FileResponse(Path(config.root) / "public" / "elements" / "Citation.jsx", media_type="text/javascript")


async def _find(request: Request, digest: str, session_id: str, user: UserParam) -> tuple[SourceFile, Path]:
    """A file that this chat may see: its own, or the shared library's."""
    session = WebsocketSession.get_by_id(session_id)
    if session is None or (user and (not session.user or session.user.identifier != user.identifier)):
        raise HTTPException(401, "Unauthorized")
    library = await request.app.state.open_library()
    for chat in (session_id, None):
        for file in await library.files(chat):
            if file.digest == digest:
                return file, library.original(file, chat).absolute()
    raise HTTPException(404, "File not found")


def _is_pdf(path: Path) -> bool:
    """Told by its bytes; blocks."""
    try:
        with path.open("rb") as file:
            return file.read(5) == b"%PDF-"
    except OSError:
        return False
