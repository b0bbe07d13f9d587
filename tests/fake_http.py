"""Just enough HTTP for a server that must be able to break it."""

import asyncio
import json
import socket
import struct
from typing import Any


class Exchange:
    """One request and its answer, on a connection of their own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def request(self) -> tuple[str, str, dict[str, str], dict[str, Any]]:
        """Method, path, headers in lower case, and the JSON body."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return method, path, headers, json.loads(body) if body else {}

    async def reply(self, status: int, content: object) -> None:
        """A whole answer: JSON, or a page of text."""
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        kind = "text/plain" if isinstance(content, str) else "application/json"
        self._head(status, kind, f"Content-Length: {len(body)}")
        self._writer.write(body)
        await self._writer.drain()

    async def begin_events(self) -> None:
        """Answer 200 and leave the body open."""
        self._head(200, "text/event-stream", "Transfer-Encoding: chunked")
        await self._writer.drain()

    async def event(self, data: str) -> None:
        """One server-sent event."""
        line = f"data: {data}\n\n".encode()
        self._writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await self._writer.drain()

    async def end_events(self) -> None:
        """Close the body as it should be closed."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def client_gone(self) -> None:
        """Wait until the client closes the connection, and raise ConnectionResetError then."""
        while await self._reader.read(1024):
            pass
        raise ConnectionResetError

    def reset(self) -> None:
        """Send an RST: what a killed process leaves behind."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        """Close in the middle of the body."""
        self._writer.close()

    def _head(self, status: int, kind: str, length: str) -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\n{length}\r\nConnection: close\r\n\r\n"
        self._writer.write(head.encode())
