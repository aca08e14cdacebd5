"""HTTP on the wire, with bounds: uvicorn waits for ever for half a request, and takes any number of headers."""

import asyncio
from collections import Counter
from http import HTTPStatus
from typing import ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_S: Final = 10.0  # for a request's line and headers
BODY_S: Final = 60.0  # for its body, after that
STALLED_S: Final = 60.0  # without a byte of an answer read
MOST_HEAD_BYTES: Final = 64 << 10
MOST_CONNECTIONS: Final = 2000  # of one address


class GuardedProtocol(HttpToolsProtocol):
    """A connection that a client can neither hold without asking for anything, nor fill the memory with."""

    _connections_of: ClassVar[Counter[str]] = Counter()
    _waiting: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0
    _refusal: HTTPStatus | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request, unless this address has enough connections."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._connections_of[self._address] += 1
        if self._connections_of[self._address] > MOST_CONNECTIONS:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS)
        else:
            self._wait(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._connections_of[self._address] -= 1
        if not self._connections_of[self._address]:
            del self._connections_of[self._address]
        self._wait(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that grows too large is not read to its end."""
        if self._waiting is None and not self._answering:
            self._wait(HEAD_S)
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """The head is there; its body, if it has one, is waited for."""
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MOST_HEAD_BYTES:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the parser gives up on whatever is raised here")
        self._wait(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._wait(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say why nothing more is read."""
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self._refuse(self._refusal)

    def pause_writing(self) -> None:
        """The client does not read what it has asked for."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _answering(self) -> bool:
        """Whether a request is being answered; uvicorn has no cycle before the first."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self, seconds: float | None) -> None:
        """For the next part of a request, this long; None: for as long as it takes."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if self._in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:  # an answer to what was not asked would be taken for that to the next request
            self.transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        self._wait(None)
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode())
            self.transport.close()
