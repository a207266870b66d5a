"""uvicorn's protocol of a web socket, which stays within the limits of its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from flyball.api.bounded_http import EXTENSION

if TYPE_CHECKING:
    from flyball.api.bounded_http import BoundedProtocol


class BoundedSocket(WebSocketsSansIOProtocol):
    """A web socket on a connection that was accepted as HTTP.

    Args:
        connection: counts against the limit of connections until the socket is closed.
    """

    def __init__(self, connection: BoundedProtocol, **settings: Any) -> None:
        super().__init__(**settings)
        self._connection = connection

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # The app runs in a task that starts later, so the guard sees the connection.
        scope: Any = getattr(self, "scope", None)
        if scope is not None:  # None: the handshake was refused
            scope["extensions"][EXTENSION] = self._connection

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.ended()
        super().connection_lost(exc)
