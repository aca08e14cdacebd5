"""An open-loop HTTP client that costs little: requests leave when they are due, however many are still out."""

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

CONNECTIONS = 32
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, and how long after the request was due, s."""

    status: int
    etag: str | None
    body: bytes
    took_s: float


class Connections:
    """Keep-alive connections to one service; a request takes one that is free."""

    def __init__(self, url: str, count: int = CONNECTIONS) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._count = parts.hostname or "", parts.port or 80, count
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            self._free.put_nowait(await asyncio.open_connection(self._host, self._port))
        return self

    async def __aexit__(self, *_: object) -> None:
        while not self._free.empty():
            self._free.get_nowait()[1].close()

    async def send(self, request: bytes, due: float) -> Reply:
        """Send and wait for the reply; ``due`` is when it should have left, on the monotonic clock."""
        reader, writer = await self._free.get()
        if reader.at_eof():  # the service has closed what was idle for some seconds
            reader, writer = await self._instead_of(writer)
        writer.write(request)
        try:
            received = await reader.readuntil(_END_OF_HEAD)
        except (ConnectionError, asyncio.IncompleteReadError):
            if not request.startswith(b"GET "):
                raise
            # It was just about to close it; what only asks may ask again.
            reader, writer = await self._instead_of(writer)
            writer.write(request)
            received = await reader.readuntil(_END_OF_HEAD)
        head = received.decode("latin-1")
        lines = (line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        fields = {name.lower(): value for name, value in lines}
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        self._free.put_nowait((reader, writer))
        return Reply(int(head.split(" ", 2)[1]), fields.get("etag"), body, time.monotonic() - due)

    async def _instead_of(self, writer: asyncio.StreamWriter) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        writer.close()
        return await asyncio.open_connection(self._host, self._port)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request on the wire."""
    fields = {"host": "127.0.0.1", "content-length": str(len(body)), "content-type": "application/json"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def at_rate(connections: Connections, per_s: float, seconds: float, make: Callable[[int], bytes]) -> list[Reply]:
    """So many requests a second for so long, evenly spaced."""
    # A collection of so many tasks and replies stops this client for a third of a second, which would look like the
    # service's.
    gc.disable()
    try:
        began = time.monotonic()
        pending: list[asyncio.Task[Reply]] = []
        for number in range(round(per_s * seconds)):
            due = began + number / per_s
            await asyncio.sleep(due - time.monotonic())
            pending.append(asyncio.create_task(connections.send(make(number), due)))
        return list(await asyncio.gather(*pending))
    finally:
        gc.enable()
