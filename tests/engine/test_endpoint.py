"""Endpoint where ServerEngine's tests do not look: connections that a server lets go of."""

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

import httpx2
import pytest

from engine.endpoint import Endpoint

ANSWER = json.dumps({"count": 7, "max_model_len": 1024}).encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)


class Fickle:
    """A server that answers the first `answered` requests of each connection and hangs up at the next."""

    def __init__(self, answered: int) -> None:
        self.answered, self.requests = answered, 0
        self.serving: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection."""
        self.serving.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError):  # the client has gone
            for _ in range(self.answered):
                await self._read(reader)
                writer.write(REPLY)
            await self._read(reader)
        writer.close()
        await writer.wait_closed()

    async def _read(self, reader: StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        self.requests += 1


async def counts(answered: int, times: int) -> tuple[int, int]:
    """Count `times` times at a Fickle server; the last count, and the requests that arrived."""
    fickle = Fickle(answered)
    server = await asyncio.start_server(fickle.serve, "127.0.0.1", 0)
    endpoint = Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", None, read_s=5)
    try:
        replies = [await endpoint.tokenize({"messages": []}) for _ in range(times)]
    finally:
        await endpoint.close()
        server.close()
        await asyncio.gather(*filter(None, fickle.serving))
    assert replies[-1]
    return replies[-1].count, fickle.requests


async def test_a_kept_connection_that_is_closed_is_no_failure() -> None:
    """The server hangs up on the second request of a connection: it is sent again over a new one."""
    assert await counts(answered=1, times=2) == (7, 3)


async def test_a_server_that_always_hangs_up_is_one() -> None:
    """It is sent again once, not for ever."""
    with pytest.raises(httpx2.TransportError):
        await counts(answered=0, times=1)
