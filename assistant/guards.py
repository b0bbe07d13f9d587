"""What has to be put right in Chainlit 2.12.0 for this app; each guard says why. Safe to apply again after a reload."""

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import chainlit
from chainlit import server
from chainlit.config import config
from chainlit.context import init_ws_context
from chainlit.markdown import get_markdown_str
from chainlit.server import sio
from chainlit.session import WebsocketSession
from socketio.exceptions import ConnectionRefusedError  # type: ignore[import-untyped]  # has no types

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""uvicorn's own limit for a WebSocket frame."""
OUTSIDE_LINK = re.compile(r"<link\b[^>]*\bhref=\"https?://[^>]*>")
CHINESE, ENGLISH = "zh-CN", "en-US"


def apply() -> None:
    """Put every guard in place."""
    _raise_attribute_error()
    _stop_quietly()
    _take_long_messages()
    _speak_supported_languages()
    _fetch_nothing_outside()
    _refuse_strange_sessions()
    _tell_when_over()
    _ask_for_profiles_once()


def _raise_attribute_error() -> None:
    """Chainlit's lazy `__getattr__` raises KeyError for what it lacks. Pickling asks every module for attributes and
    expects AttributeError: torch.compile in a forked vLLM engine dies of it."""
    lazy: Callable[[str], Any] = vars(chainlit)["__getattr__"]
    if getattr(lazy, "guarded", False):
        return

    def guarded(name: str) -> Any:
        try:
            return lazy(name)
        except KeyError:
            raise AttributeError(f"module 'chainlit' has no attribute {name!r}") from None

    guarded.guarded = True  # type: ignore[attr-defined]
    vars(chainlit)["__getattr__"] = guarded


def _stop_quietly() -> None:
    """Chainlit's stop posts an English notice and cancels only the newest task; ours leaves it to on_stop."""

    @sio.on("stop")  # type: ignore[untyped-decorator]
    async def stop(sid: str) -> None:
        session = WebsocketSession.get(sid)
        newest = session.current_task if session else None  # before on_stop: a question sent meanwhile is not meant
        if session and config.code.on_stop:
            init_ws_context(session)
            await config.code.on_stop()
        if newest:
            newest.cancel()  # a question so new that it has no answer to end yet


def _take_long_messages() -> None:
    """Socket.IO drops the connection without a word at 1 MB; a question that long gets an answer saying so."""
    sio.eio.max_http_buffer_size = MAX_MESSAGE_BYTES


def _speak_supported_languages() -> None:
    """Chainlit knows languages by their exact tag: every zh-* gets Chinese, all others English."""

    def markdown(root: str, language: str) -> str | None:
        return get_markdown_str(root, supported(language))

    vars(server)["get_markdown_str"] = markdown
    translations = type(config).load_translation
    if not getattr(translations, "guarded", False):

        def load_translation(self: Any, language: str) -> Any:
            return translations(self, supported(language))

        load_translation.guarded = True  # type: ignore[attr-defined]
        setattr(type(config), "load_translation", load_translation)  # noqa: B010  (mypy refuses a plain assignment)


def _fetch_nothing_outside() -> None:
    """Chainlit's page links style sheets and fonts of other hosts; an office without internet waits for them."""
    template: Callable[[str], str] = vars(server)["get_html_template"]
    if getattr(template, "guarded", False):
        return

    def html_template(root_path: str) -> str:
        return OUTSIDE_LINK.sub("", template(root_path))

    html_template.guarded = True  # type: ignore[attr-defined]
    vars(server)["get_html_template"] = html_template


def _refuse_strange_sessions() -> None:
    """A page names its own session, and Chainlit makes and deletes a folder of that name: `../engine` would do."""
    handlers: dict[str, Any] = sio.handlers["/"]
    connect = handlers["connect"]
    if getattr(connect, "guarded", False):
        return

    async def guarded(sid: str, environ: dict[str, Any], auth: Any) -> Any:
        if not isinstance(auth, dict) or not is_session_id(auth.get("sessionId")):
            raise ConnectionRefusedError("session id refused")
        return await connect(sid, environ, auth)

    guarded.guarded = True  # type: ignore[attr-defined]
    sio.on("connect")(guarded)


def is_session_id(name: object) -> bool:
    """Whether a name is a UUID as pages write it."""
    try:
        return str(uuid.UUID(str(name))) == name
    except ValueError:
        return False


def _tell_when_over() -> None:
    """`on_chat_end` comes at every dropped socket; a chat is over when Chainlit deletes its session: at a new chat, or
    session_timeout after the socket went. `server.app.state.chat_over` is told then."""
    delete: Callable[[WebsocketSession], Awaitable[None]] = WebsocketSession.delete
    if getattr(delete, "guarded", False):
        return

    async def guarded(self: WebsocketSession) -> None:
        await delete(self)
        await server.app.state.chat_over(self.id)

    guarded.guarded = True  # type: ignore[attr-defined]
    setattr(WebsocketSession, "delete", guarded)  # noqa: B010  (mypy refuses a plain assignment)


def _ask_for_profiles_once() -> None:
    """Chainlit asks for a chat profile's own configuration in the running loop, which fails and leaves a warning in the
    console at every message; our profiles have none."""

    def get_config(self: WebsocketSession) -> Any:
        return config

    setattr(WebsocketSession, "get_config", get_config)  # noqa: B010  (mypy refuses a plain assignment)


def supported(language: str) -> str:
    """The language shown for a browser's tag."""
    return CHINESE if language.lower().split("-")[0] == "zh" else ENGLISH


def connected(session: WebsocketSession) -> bool:
    """Whether the session's browser is there now: its socket may have come back under a new id."""
    return bool(sio.manager.is_connected(session.socket_id, "/"))
