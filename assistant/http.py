"""Health and metrics over HTTP, beside Chainlit's own routes."""

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from chainlit.config import config
from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette import status
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assistant.status import both, full_status, readiness
from engine.base import EngineState
from engine.host import EngineHost
from engine.vitals import exposition

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' blob:; connect-src 'self'; "
    "worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
"""Nothing from outside is ever loaded, not even a picture that an answer names. Chainlit's custom elements are
compiled in the page, hence 'unsafe-eval'."""
FORWARDED = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded")
NEVER_STORED = {"Cache-Control": "no-store"}


class OwnOrigin:
    """Middleware that sends POLICY with every HTTP answer, and refuses sockets that another site's page opens.

    Socket.IO accepts any Origin: without this, any page open in a user's browser could question a private engine.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Content-Security-Policy"] = POLICY
            await send(message)

        if scope["type"] in ("http", "websocket") and _by_proxy(Headers(scope=scope)):
            scope["app"].state.proxied = True
        if _is_socket(scope) and not _same_origin(Headers(scope=scope)):
            await _refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send_with_policy)


def _by_proxy(headers: Headers) -> bool:
    """Whether a visitor came through a proxy, and may be anybody, though this app listens to its own machine alone."""
    if any(name in headers for name in FORWARDED):
        return True
    try:
        return not is_loopback(urlsplit(f"//{headers.get('host', '')}").hostname or "localhost")
    except ValueError:  # no address at all
        return True


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_socket(scope: Scope) -> bool:
    return scope["type"] == "websocket" or (scope["type"] == "http" and "/ws/socket.io" in scope["path"])


def _same_origin(headers: Headers) -> bool:
    """Whether the page comes from here, or from where Chainlit's allow_origins says; clients that are no page may pass."""
    origin = headers.get("origin")
    hosts = {headers.get("host"), headers.get("x-forwarded-host")}
    return origin is None or urlsplit(origin).netloc in hosts or bool({origin, "*"} & set(config.project.allow_origins))


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": status.WS_1008_POLICY_VIOLATION})
    else:
        await Response(status_code=status.HTTP_403_FORBIDDEN)(scope, receive, send)


def mount(app: FastAPI, root_path: str, may_control: Callable[[], bool]) -> None:
    """Add the routes before Chainlit's catch-all; again after a reload, in the place of the old ones.

    Behind a proxy that serves the app below `root_path`, the page finds them there; probes need no path.
    `may_control`: whether the page's users answer for the engine, and are to see its warnings.
    """
    app.state.may_control = may_control
    ends = {"/health/live": live, "/health/ready": ready, "/engine/status": engine_status, "/metrics": metrics}
    own = [Route(prefix + path, end) for prefix in {"", root_path.rstrip("/")} for path, end in ends.items()]
    paths = {route.path for route in own}
    app.router.routes[:] = [*own, *(route for route in app.router.routes if getattr(route, "path", None) not in paths)]


async def live(request: Request) -> Response:
    """200 while the event loop turns."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 when questions are answered, else 503; the JSON says how far it is."""
    host: EngineHost = request.app.state.host
    is_ready = host.state is EngineState.READY
    content = {**readiness(host), "warnings": _warnings(request)}
    return JSONResponse(content, status_code=200 if is_ready else 503, headers=NEVER_STORED)


async def engine_status(request: Request) -> Response:
    """What the console shows, as JSON; 200 in any state."""
    host: EngineHost = request.app.state.host
    elsewhere = request.app.state.settings.backend == "server"
    content = {**full_status(host, await host.machine_use(), elsewhere), "warnings": _warnings(request)}
    return JSONResponse(content, headers=NEVER_STORED)


def _warnings(request: Request) -> list[Any]:
    """What is wrong with the engine, for those who answer for it alone."""
    alarms = request.app.state.host.alarms.values() if request.app.state.may_control() else ()
    return [both(words) for words in alarms]


async def metrics(request: Request) -> Response:
    """Prometheus exposition."""
    host: EngineHost = request.app.state.host
    vitals, use = host.vitals(), await host.machine_use()
    text = await asyncio.to_thread(lambda: host.metrics.text() + exposition(vitals, use))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
