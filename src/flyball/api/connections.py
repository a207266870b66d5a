"""Bounds what clients can hold before they have shown a token: connections, headers, time.

The server accepts connections itself, because a limit inside uvicorn would count a connection only
after its TLS handshake. Every accepted connection counts against one limit. At the limit the
oldest connection that has never carried the token gives way to the new one, so clients that hang
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
"""Descriptors that connections leave to the engine, the journal and the logs."""
PER_CONNECTION = 2
"""A connection that reads a log holds a file beside its socket."""
LEAST_CONNECTIONS = 8
ACCEPTS_PER_TURN = 16
"""Accepted in one turn of the loop: sockets of dropped connections are closed between two turns."""
PAUSE_S = 0.1
"""Wait before accepting again when the process or the machine has no descriptor left."""
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
)

logger = logging.getLogger("flyball.api")


def connection_limit(most: int, descriptors: int | None = None) -> int:
    """Return how many connections may be open so that the engine keeps its descriptors.

    Args:
        most: what the settings permit.
        descriptors: the soft limit of open files; None = this process's own.
    """
    if descriptors is None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return most
    reserved = min(MOST_RESERVED, descriptors // 2)
    return min(most, max(LEAST_CONNECTIONS, (descriptors - reserved) // PER_CONNECTION))


@dataclass(frozen=True)
class Limits:
    """What connections may hold.

    Attributes:
        most: open connections, counting TLS handshakes.
        header_s: time for a TLS handshake, and for a complete header once it is begun.
    """

    most: int
    header_s: float


class Acceptor:
    """Accepts connections on a listening socket and drops those that are over a limit.

    It takes the place of an `asyncio.Server` in uvicorn, which closes it and waits for its end.

    Args:
        listener: listens already.
        make: builds the protocol of a connection.
        tls: None = plain HTTP.
        counts: records what is open and what was dropped.
    """

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], BoundedProtocol],
        tls: ssl.SSLContext | None,
        limits: Limits,
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
        """Turn a client away: every connection belongs to a holder of the token and is in use."""
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
        """Drop the oldest without the token, else the oldest idle one; False if there is none."""
        candidates = (
            next((each for each in self._open if not each.trusted), None),
            next((each for each in self._open if each.idle), None),
        )
        for protocol in candidates:
            if protocol is not None:
                self._drop(protocol, why)
                return True
        return False

    def drop_late(self) -> None:
        """Drop the connections whose header has taken too long. Called every second."""
        now_s = self._loop.time()
        for protocol in [each for each in self._open if each.deadline_s < now_s]:
            self._drop(protocol, "header-time")

    def _drop(self, protocol: BoundedProtocol, why: str) -> None:
        self._forget(protocol)
        self._counts.drop(why)
        protocol.drop()

    def _forget(self, protocol: BoundedProtocol) -> None:
        self._open.pop(protocol, None)
        self._counts.connections = len(self._open)

    # As uvicorn ends its servers -------------------------------------------------------

    def close(self) -> None:
        """Accept nothing more, and end the handshakes."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listener.fileno())
            for protocol in [each for each in self._open if not each.connected]:
                self._drop(protocol, "end")

    async def wait_closed(self) -> None:
        """Wait for the handshakes to be over."""
        if self._tasks:
            await asyncio.wait(self._tasks)
