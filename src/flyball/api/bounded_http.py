"""HTTP on one connection, as uvicorn speaks it, with bounds on what comes before a request."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

EXTENSION = "flyball.connection"
"""Where the guard finds the connection in a request's scope."""
HEADER_COST_BYTES = 32
"""Added for each header, so that many empty ones count as well."""
MOST_PIPELINED = 64
"""Requests that may wait for the answer to the one before them."""
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


class _OverBounds(Exception):
    """Ends the parsing of a request that is over a bound."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose headers are bounded in size and in time.

    Attributes:
        trusted: a request on it carried the token.
        deadline_s: by the loop's clock, when the header must be complete; inf = none is awaited.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        header_bytes: int,
        header_s: float,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.trusted = False
        self.deadline_s = math.inf
        self._most_bytes, self._header_s = header_bytes, header_s
        self._held_bytes = 0
        self._unparsed_bytes = 0
        self._oversize = False
        self._socket: socket.socket | None = None
        self._forget: Callable[[BoundedProtocol], None] = lambda protocol: None

    # Its life -----------------------------------------------------------------------

    def begin(
        self,
        client: socket.socket,
        forget: Callable[[BoundedProtocol], None],
        deadline_s: float,
    ) -> None:
        """Note the accepted socket, whom to tell of its end, and when a header is due."""
        self._socket, self._forget, self.deadline_s = client, forget, deadline_s

    @property
    def connected(self) -> bool:
        """Whether the TLS handshake, if there is one, is over."""
        return self.transport is not None

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def drop(self) -> None:
        """Close the connection at once, whatever is under way on it."""
        if self.connected:
            self.transport.abort()
        elif self._socket is not None:
            with contextlib.suppress(OSError):  # the handshake fails on a socket that is shut
                self._socket.shutdown(socket.SHUT_RDWR)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.deadline_s = self.loop.time() + self._header_s

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        super().connection_lost(exc)

    # What comes in ------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.idle and math.isinf(self.deadline_s):
            self.deadline_s = self.loop.time() + self._header_s
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > self._most_bytes and not self.transport.is_closing():
            self._oversize = True
            self.send_400_response(self._oversize_text())

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, or is over a bound."""
        if not self._oversize:
            super().send_400_response(msg)
            return
        text = self._oversize_text().encode("ascii")
        if self.idle:  # else it would end up in the middle of another answer
            self.transport.write(
                TOO_LARGE
                + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                + b"content-length: %d\r\n\r\n" % len(text)
                + text
            )
        self.transport.close()

    def _oversize_text(self) -> str:
        return (
            f"The request header is larger than {self._most_bytes} bytes,"
            f" or more than {MOST_PIPELINED} requests wait on one connection."
        )

    # What the parser finds --------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._held_bytes = 0
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]
        if len(self.pipeline) >= MOST_PIPELINED:
            self._stop_parsing()

    def on_url(self, url: bytes) -> None:
        self._hold(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._hold(len(name) + len(value) + HEADER_COST_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed_bytes = 0
        self.deadline_s = math.inf
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed_bytes = 0
        super().on_message_complete()

    def _hold(self, size: int) -> None:
        self._held_bytes += size
        if self._held_bytes > self._most_bytes:
            self._stop_parsing()

    def _stop_parsing(self) -> None:
        """Have the parser give up; uvicorn then sends what `send_400_response` says."""
        self._oversize = True
        raise _OverBounds(self._oversize_text())
