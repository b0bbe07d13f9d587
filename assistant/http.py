"""Health and metrics over HTTP, beside Chainlit's own routes."""

import asyncio
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

from assistant import texts
from engine.base import EngineState
from engine.host import EngineHost
from engine.words import Words

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' blob:; connect-src 'self'; "
    "worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
"""Nothing from outside is ever loaded, not even a picture that an answer names. Chainlit's custom elements are
compiled in the page, hence 'unsafe-eval'."""


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

        if _is_socket(scope) and not _same_origin(Headers(scope=scope)):
            await _refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send_with_policy)


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


def mount(app: FastAPI, root_path: str) -> None:
    """Add the routes before Chainlit's catch-all; again after a reload, in the place of the old ones.

    Behind a proxy that serves the app below `root_path`, the page finds them there; probes need no path.
    """
    ends = {"/health/live": live, "/health/ready": ready, "/metrics": metrics}
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
    return JSONResponse(readiness(host), status_code=200 if is_ready else 503, headers={"Cache-Control": "no-store"})


def readiness(host: EngineHost) -> dict[str, Any]:
    """The state as the page's status strip takes it: texts in both languages, `fraction` 0 to 1 or null."""
    engine, loading = host.engine, host.loading
    message = host.reason
    if host.state is EngineState.LOADING:
        message = loading.step
    return {
        "state": host.state.value,
        "message": _both(message),
        "fraction": loading.fraction if host.state is EngineState.LOADING else None,
        "demo": _both(texts.DEMO_BANNER) if engine and engine.info.is_demo else None,
        "model": engine.info.model if engine else None,
        "running": host.limiter.running,
        "queued": host.limiter.waiting,
    }


def _both(words: Words | None) -> dict[str, str] | None:
    return {"zh": words.zh, "en": words.en} if words else None


async def metrics(request: Request) -> Response:
    """Prometheus exposition."""
    host: EngineHost = request.app.state.host
    return Response(await asyncio.to_thread(host.metrics.text), media_type=CONTENT_TYPE_LATEST)
