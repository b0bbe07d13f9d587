"""Before and around the server's life: what must be right before anything loads, and the process's one EngineHost."""

import asyncio
import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chainlit.config import config
from chainlit.server import app

from assistant import files_http, guards, http
from assistant.chat import Chat
from engine import ports
from engine.endpoint import checked_address, is_this_machine
from engine.errors import ConfigurationError, ZhidaError
from engine.factory import planner
from engine.host import EngineHost
from engine.progress import console_progress
from engine.settings import Settings
from engine.words import Words

if TYPE_CHECKING:
    from knowledge.library import Library

KEPT = ("engine", "knowledge")
"""Packages whose modules outlive a reload: the process's one engine and one library are made of them."""
OPEN_WARNING = (
    "注意：监听地址是 {host}，而登录功能尚未启用：同一网络里的任何人都能使用。\n"
    "Warning: listening on {host} without sign-in: everybody on this network can use it."
)


def prepare() -> None:
    """Check what can be checked before the server starts, and put guards and routes in place.

    Runs at every load of app.py; under `-w` the checks are the first load's alone. Exits with status 1 and one
    sentence where the start must be refused.
    """
    guards.apply()
    logging.getLogger("watchfiles").setLevel(
        logging.WARNING
    )  # a console kept in a file here would report itself for ever
    http.mount(app, config.run.root_path, switch_allowed)
    files_http.mount(app, config.run.root_path, library)
    app.state.chat_over = _chat_over
    if not hasattr(app.state, "settings"):
        app.add_middleware(http.OwnOrigin)
        try:
            app.state.settings = settings = Settings.load()
            planner(settings)(settings.engine_profile)
            if words := settings.unwritable():
                raise ConfigurationError(words)
            if config.run.module_name:
                _check_addresses(settings, config.run.host, config.run.port)
        except ZhidaError as error:
            print(f"不能启动：{error.words.zh}\nCannot start: {error.words.en}", file=sys.stderr, flush=True)
            sys.exit(1)


def settings() -> Settings:
    """The settings in force."""
    loaded: Settings = app.state.settings
    return loaded


def host() -> EngineHost:
    """The process's engine host. It hangs where Chainlit does not look, so `-w` reloads callbacks and not the model."""
    found: EngineHost = app.state.host
    return found


def chats() -> dict[str, Chat]:
    """The chats that are not over, by the ids of their sessions."""
    found: dict[str, Chat] = app.state.chats
    return found


async def library() -> "Library":
    """The process's library, once it is open. Raises ZhidaError where it cannot be."""
    opening: asyncio.Task[Library] = app.state.library
    return await asyncio.shield(opening)


async def _open_library() -> "Library":
    """In the background, since its packages take seconds to import; what chats of an earlier run left goes."""
    opened = await asyncio.to_thread(_build_library)
    keep_modules()
    await opened.forget_all_chats()
    app.state.warming = asyncio.create_task(opened.warm())
    return opened


def _build_library() -> "Library":
    from knowledge.embedder import choose_embedder
    from knowledge.library import Library

    chosen = choose_embedder(settings())
    if chosen.words:
        print(chosen.words.zh, chosen.words.en, sep="\n", flush=True)
    return Library(settings().library, chosen.embedder)


def keep_modules() -> None:
    """Note the modules that app.py puts back after a reload."""
    app.state.kept_modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] in KEPT}


async def _chat_over(session_id: str) -> None:
    """A chat will not come back: its answers end, its own files go."""
    chat = chats().pop(session_id, None)
    if chat:
        await chat.end_turns("left")
        with suppress(ZhidaError):
            await (await library()).forget(session_id)


async def start() -> None:
    """Called once, in the server's loop: begin loading in the background."""
    app.state.chats = {}
    app.state.library = asyncio.create_task(_open_library())
    print(f"页面地址：http://localhost:{config.run.port}  （模型在后台加载）", flush=True)
    app.state.host = EngineHost(planner(settings()), settings().engine_profile, console_progress())
    app.state.host.launch()
    await app.state.host.planned()  # a page shows the profile in force, and questions are counted against its limits


async def stop() -> None:
    """Chainlit ends the process right after this: nothing of the engine may be left."""
    await host().stop()
    for session_id in list(chats()):
        await _chat_over(session_id)
    if warming := getattr(app.state, "warming", None):
        warming.cancel()
    with suppress(ZhidaError):  # one that could not be opened has nothing to close
        (await library()).close()


def local_only() -> bool:
    """Whether the app can be reached from this machine alone: not listening beyond it, and nobody came by a proxy."""
    return http.is_loopback(config.run.host) and not getattr(app.state, "proxied", False)


def switch_allowed() -> bool:
    """Whether the page may exchange the engine's profile and start the engine again."""
    allowed = settings().engine_allow_switch
    return local_only() if allowed is None else allowed


def edit_allowed() -> bool:
    """Whether the page may add files to the shared library and delete them."""
    allowed = settings().knowledge_allow_edit
    return local_only() if allowed is None else allowed


def _check_addresses(settings: Settings, host: str, port: int) -> None:
    """Refuse a taken port and a server address that is this app itself; warn when open to the network."""
    if settings.engine_base_url:
        server = urlsplit(checked_address(settings.engine_base_url)[0])
        if server.port == port and is_this_machine(settings.engine_base_url):
            raise ConfigurationError(
                Words(
                    f"ENGINE_BASE_URL 指向了本应用自己的端口 {port}。模型服务请用另一个端口，例如 http://127.0.0.1:8001/v1。",
                    f"ENGINE_BASE_URL points at this app's own port {port}. Use another port for the model server, "
                    "e.g. http://127.0.0.1:8001/v1.",
                )
            )
    if error := ports.fault(host, port):
        raise ConfigurationError(
            Words(
                f"端口 {port}（{host}）不可用：{error.strerror}。请关闭占用它的程序，或换一个端口：make run PORT={port + 1}。",
                f"Port {port} on {host} cannot be used: {error.strerror}. Close the program that holds it, or take "
                f"another: make run PORT={port + 1}.",
            )
        ) from error
    if not http.is_loopback(host):
        print(OPEN_WARNING.format(host=host), flush=True)
