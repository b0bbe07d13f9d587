"""A model server's plain HTTP side: what it serves, whether it lives, how busy it is, how long a prompt is.

Every method raises httpx2.HTTPError where the server does not answer or refuses, and pydantic.ValidationError where
its answer is not what an OpenAI-compatible server says.
"""

import ipaddress
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx2
from pydantic import BaseModel, Field

from engine import figures
from engine.errors import ConfigurationError
from engine.figures import Figures
from engine.words import Words

CONNECT_S, WRITE_S, PROBE_S, COUNT_S = 5.0, 10.0, 5.0, 30.0
KEEPALIVE_S = 3.0
"""Below the 5 s after which vLLM's HTTP server closes an idle connection: a question never meets a closing one."""
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_S)

HIGHEST_PORT = 65535
ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


class Card(BaseModel):
    """One model of GET /v1/models; only vLLM says how long its context is."""

    id: str
    max_model_len: int | None = None


class _Cards(BaseModel):
    data: list[Card]


class Tokenized(BaseModel):
    """What POST /tokenize says. llama.cpp and SGLang have the path too, and answer something else there."""

    count: int = Field(ge=0)
    max_model_len: int | None = None


def is_local(host: str) -> bool:
    """Whether `host` is this machine or its network, where an office's web proxy has no business."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local"))
    return address.is_loopback or address.is_private or address.is_link_local


def is_this_machine(base: str) -> bool:
    """Whether the server at `base` runs on this machine, as 0.0.0.0 does for a client too. Raises ConfigurationError where `base` is no address."""
    host = httpx2.URL(checked_address(base.strip())[0]).host
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


class Endpoint:
    """One server at `base_url` (which ends in /v1); vLLM's own paths lie at the root above it."""

    def __init__(self, base_url: str, api_key: str | None, read_s: float) -> None:
        self.base = base_url.strip().rstrip("/")
        self.root = self.base.removesuffix("/v1")
        self.address, self.is_local = checked_address(self.base)
        timeout = httpx2.Timeout(connect=CONNECT_S, write=WRITE_S, read=read_s, pool=CONNECT_S)
        # a transport of one's own switches off the proxies of the environment, and nothing else of it
        transport = httpx2.AsyncHTTPTransport(limits=LIMITS) if self.is_local else None
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.client = httpx2.AsyncClient(headers=headers, timeout=timeout, limits=LIMITS, transport=transport)

    async def close(self) -> None:
        """Close every connection, also those in use."""
        await self.client.aclose()

    async def cards(self) -> list[Card]:
        """The models that are served."""
        reply = await self._get(f"{self.base}/models")
        return _Cards.model_validate_json(reply.raise_for_status().content).data

    async def ping(self) -> None:
        """Return if the server can answer questions now; servers without /health answer for their models instead."""
        reply = await self._get(f"{self.root}/health")
        if reply.status_code in ABSENT:
            reply = await self._get(f"{self.base}/models")
        if reply.is_server_error:
            reply.raise_for_status()

    async def load(self) -> Figures:
        """How busy it is. Raises nothing: a server without metrics is one that does not say."""
        try:
            reply = await self._get(f"{self.root}/metrics")
            return figures.from_text(reply.text) if reply.is_success else Figures()
        except (httpx2.HTTPError, ValueError):  # ValueError: not a page in Prometheus' format
            return Figures()

    async def tokenize(self, body: Mapping[str, Any]) -> Tokenized | None:
        """POST /tokenize; None where the server has no such thing."""
        url = f"{self.root}/tokenize"
        try:
            reply = await self.client.post(url, json=dict(body), timeout=COUNT_S)
        except (httpx2.ReadError, httpx2.RemoteProtocolError):
            # vLLM 0.19 closes a kept connection after it refused a prompt; counting again costs and changes nothing
            reply = await self.client.post(url, json=dict(body), timeout=COUNT_S)
        if reply.status_code in ABSENT:
            return None
        return Tokenized.model_validate_json(reply.raise_for_status().content)

    async def _get(self, url: str) -> httpx2.Response:
        return await self.client.get(url, timeout=PROBE_S)


def checked_address(base: str) -> tuple[str, bool]:
    """The address as it may be shown (no password in it), and whether it is local. Raises ConfigurationError."""
    try:
        url = httpx2.URL(base)
        port = url.port
    except httpx2.InvalidURL:
        url, port = httpx2.URL(""), None
    if url.scheme not in ("http", "https") or not url.host or (port or 0) > HIGHEST_PORT:
        raise ConfigurationError(
            Words(
                "ENGINE_BASE_URL 不是可用的地址，应形如 http://127.0.0.1:8001/v1。",
                "ENGINE_BASE_URL is not an address; it should look like http://127.0.0.1:8001/v1.",
            )
        )
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{f':{port}' if port else ''}{url.path}", is_local(url.host)
