"""uvicorn's HTTP protocol for one connection, with limits on the size and time of headers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

EXTENSION = "flyball.connection"
"""Key of the connection in a request's scope, for the guard."""
HEADER_COST_BYTES = 32
"""Bytes added for each header, so that many empty ones count as well."""
MOST_PIPELINED = 64
"""Maximum number of requests that wait for the response to the one before them."""
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


class _OverBounds(Exception):
    """Ends the parsing of a request that exceeds a limit."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose headers are limited in size and in time.

    Attributes:
        trusted: a request on it carried the token.
        deadline_s: by the loop's clock, when the header must be complete; inf = none is expected.
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

    # Lifetime -----------------------------------------------------------------------

    def begin(
        self,
        client: socket.socket,
        forget: Callable[[BoundedProtocol], None],
        deadline_s: float,
    ) -> None:
        """Set the accepted socket, the callback of its end, and when a header is due."""
        self._socket, self._forget, self.deadline_s = client, forget, deadline_s

    @property
    def connected(self) -> bool:
        """Whether the TLS handshake, if there is one, is complete."""
        return self.transport is not None

    @property
    def idle(self) -> bool:
        """Whether no request is being served."""
        return self.cycle is None or self.cycle.response_complete

    def drop(self) -> None:
        """Close the connection at once, even within a request."""
        if self.connected:
            self.transport.abort()
        elif self._socket is not None:
            with contextlib.suppress(OSError):  # the handshake fails once the socket is shut down
                self._socket.shutdown(socket.SHUT_RDWR)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.deadline_s = self.loop.time() + self._header_s

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        super().connection_lost(exc)

    # Received data ------------------------------------------------------------------

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
        """Refuse a request that cannot be parsed or exceeds a limit."""
        if not self._oversize:
            super().send_400_response(msg)
            return
        text = self._oversize_text().encode("ascii")
        if self.idle:  # otherwise it would end up in the middle of another response
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

    # Web sockets ----------------------------------------------------------------------

    def _should_upgrade_to_ws(self) -> bool:
        return True  # the guard decides

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to the protocol of web sockets, loaded with the first one."""
        from flyball.api.bounded_socket import BoundedSocket

        self.deadline_s = math.inf
        self.ws_protocol_class = partial(BoundedSocket, connection=self)  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    def ended(self) -> None:
        """Forget the connection, whose web socket has closed."""
        self._forget(self)

    # Callbacks of the parser ------------------------------------------------------------

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
        """Stop the parser; uvicorn then calls `send_400_response`."""
        self._oversize = True
        raise _OverBounds(self._oversize_text())
