"""Before and around the server's life: what must be right before anything loads, and the process's one EngineHost."""

import logging
import sys
from urllib.parse import urlsplit

from chainlit.config import config
from chainlit.server import app

from assistant import guards, http
from engine import ports
from engine.endpoint import checked_address, is_this_machine
from engine.errors import ConfigurationError, ZhidaError
from engine.factory import planner
from engine.host import EngineHost
from engine.progress import console_progress
from engine.settings import Settings
from engine.words import Words

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


async def start() -> None:
    """Called once, in the server's loop: begin loading in the background."""
    print(f"页面地址：http://localhost:{config.run.port}  （模型在后台加载）", flush=True)
    app.state.host = EngineHost(planner(settings()), settings().engine_profile, console_progress())
    app.state.host.launch()
    await app.state.host.planned()  # a page shows the profile in force, and questions are counted against its limits


async def stop() -> None:
    """Chainlit ends the process right after this: nothing of the engine may be left."""
    await host().stop()


def local_only() -> bool:
    """Whether the app can be reached from this machine alone: not listening beyond it, and nobody came by a proxy."""
    return http.is_loopback(config.run.host) and not getattr(app.state, "proxied", False)


def switch_allowed() -> bool:
    """Whether the page may exchange the engine's profile and start the engine again."""
    allowed = settings().engine_allow_switch
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
