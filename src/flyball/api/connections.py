"""Limits the connections of clients, above all of those that have not sent the token.

The server accepts connections itself, because a limit inside uvicorn would count a connection only
after its TLS handshake. Every accepted connection counts against one limit. At the limit the
oldest connection that has never carried the token is dropped for the new one, so clients that hang
cannot keep others out, and descriptors remain for the engine and the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from flyball.api.bounded_http import BoundedProtocol
from flyball.api.metrics_text import Counts

MOST_RESERVED = 256
"""Maximum number of descriptors reserved for the engine, the journal and the logs."""
PER_CONNECTION = 2
"""Descriptors of a connection: its socket, and a file if it reads a log."""
LEAST_CONNECTIONS = 8
ACCEPTS_PER_TURN = 16
"""Connections accepted in one turn of the loop: dropped sockets are closed only between turns."""
PAUSE_S = 0.1
"""Wait before accepting again when the process or the machine has no descriptor left."""
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
)

logger = logging.getLogger("flyball.api")


def connection_limit(most: int, descriptors: int | None = None) -> int:
    """Return how many connections may be open so that enough descriptors are left for the engine.

    Args:
        most: limit by the settings.
        descriptors: soft limit of open files; None = this process's.
    """
    if descriptors is None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return most
    reserved = min(MOST_RESERVED, descriptors // 2)
    return min(most, max(LEAST_CONNECTIONS, (descriptors - reserved) // PER_CONNECTION))


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of connections.

    Attributes:
        most: maximum number of open connections, including TLS handshakes.
        header_s: timeout of a TLS handshake, and of a header once it has started.
    """

    most: int
    header_s: float


class Acceptor:
    """Accepts connections on a listening socket and drops those that exceed a limit.

    It replaces uvicorn's `asyncio.Server`; uvicorn closes it and waits for its end.

    Args:
        listener: a socket that is listening.
        make: builds the protocol of a connection.
        tls: None = plain HTTP.
        counts: counts open and dropped connections.
    """

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], BoundedProtocol],
        tls: ssl.SSLContext | None,
        limits: ConnectionLimits,
        counts: Counts,
    ) -> None:
        self._listener, self._make, self._tls = listener, make, tls
        self._limits, self._counts = limits, counts
        self._loop = asyncio.get_running_loop()
        self._open: dict[BoundedProtocol, None] = {}  # in the order they were accepted
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        listener.setblocking(False)
        self._listen()

    # Accepting ------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                self._wait_for_descriptors(error)
                return
            if self._make_room():
                self._adopt(client)
            else:
                self._refuse(client)

    def _wait_for_descriptors(self, error: OSError) -> None:
        logger.warning("cannot accept a connection: %s", error.strerror)
        self._drop_one("descriptors")
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(PAUSE_S, self._listen)

    def _adopt(self, client: socket.socket) -> None:
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = self._make()
        protocol.begin(client, self._forget, self._loop.time() + self._limits.header_s)
        self._open[protocol] = None
        self._counts.connections = len(self._open)
        task = self._loop.create_task(self._connect(client, protocol))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: socket.socket, protocol: BoundedProtocol) -> None:
        """Hand a socket to the loop, after the TLS handshake if there is one."""
        wait_s = self._limits.header_s if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, client, ssl=self._tls, ssl_handshake_timeout=wait_s
            )
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError
            self._forget(protocol)
            client.close()

    def _refuse(self, client: socket.socket) -> None:
        """Refuse a client: every connection has carried the token and is in use."""
        self._counts.drop("full")
        client.setblocking(False)
        with contextlib.suppress(OSError):
            if self._tls is None:
                client.send(FULL)
        client.close()

    # Limits -----------------------------------------------------------------------

    def _make_room(self) -> bool:
        return len(self._open) < self._limits.most or self._drop_one("limit")

    def _drop_one(self, why: str) -> bool:
        """Drop the oldest connection without the token, else the oldest idle one; False if none."""
        candidates = (
            next((protocol for protocol in self._open if not protocol.trusted), None),
            next((protocol for protocol in self._open if protocol.idle), None),
        )
        for protocol in candidates:
            if protocol is not None:
                self._drop(protocol, why)
                return True
        return False

    def drop_late(self) -> None:
        """Drop the connections whose header has taken too long. Called every second."""
        now_s = self._loop.time()
        for protocol in [entry for entry in self._open if entry.deadline_s < now_s]:
            self._drop(protocol, "header-time")

    def _drop(self, protocol: BoundedProtocol, why: str) -> None:
        self._forget(protocol)
        self._counts.drop(why)
        protocol.drop()

    def _forget(self, protocol: BoundedProtocol) -> None:
        self._open.pop(protocol, None)
        self._counts.connections = len(self._open)

    # Called by uvicorn at its end ------------------------------------------------------

    def close(self) -> None:
        """Stop accepting, and drop connections that are in their handshake."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listener.fileno())
            for protocol in [entry for entry in self._open if not entry.connected]:
                self._drop(protocol, "end")

    async def wait_closed(self) -> None:
        """Wait for the end of the handshakes."""
        if self._tasks:
            await asyncio.wait(self._tasks)
