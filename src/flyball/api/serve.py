"""Serves the app: opens the socket, runs uvicorn in a thread, and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import math
import socket
import ssl
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import uvicorn
from fastapi import FastAPI

from flyball.api.app import LoadPages, create_app
from flyball.api.bounded_http import BoundedProtocol
from flyball.api.connections import Acceptor, ConnectionLimits, connection_limit
from flyball.api.metrics_text import Counts
from flyball.api.settings import LOOPBACK_NAMES, ApiSettings
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.control.plane import Plane

BACKLOG = 1024
MOST_PORT = 65_535
SOCKET_BYTES = 2**20
"""Maximum size of a message on a web socket."""
GRACE_S = 3
"""How long open requests may take once the server is stopping."""
START_S = 30.0
DATE_S = 1.0
"""How often the Date header is updated and late connections are dropped."""


class PortTaken(BadInput):
    """The port is in use by another program, or this user may not use it."""


class _Uvicorn(uvicorn.Server):
    """Sleeps until it is stopped, where uvicorn polls for that ten times a second.

    It accepts connections through an `Acceptor`, which limits them.
    """

    def __init__(self, config: uvicorn.Config, settings: ApiSettings, counts: Counts) -> None:
        super().__init__(config)
        self._settings, self._counts = settings, counts
        self._acceptors: list[Acceptor] = []
        self._stop_requested = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the API's app did not start")
        most = connection_limit(self._settings.connections)
        limits = ConnectionLimits(most, self._settings.header_s)
        self._acceptors = [
            Acceptor(listener, self._protocol, self.config.ssl, limits, self._counts)
            for listener in sockets or []
        ]
        self.servers = self._acceptors  # type: ignore[assignment]  # closed and awaited alike
        self.started = True

    def _protocol(self) -> BoundedProtocol:
        settings = self._settings
        return BoundedProtocol(
            self.config, self.server_state, self.lifespan.state,
            settings.header_bytes, settings.header_s,
        )  # fmt: skip

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_S):
                    await self._stop_requested.wait()
            for acceptor in self._acceptors:
                acceptor.drop_late()

    def end(self) -> None:
        """Stop the server soon; from any thread."""
        self.should_exit = True
        if self._loop is not None:  # otherwise it checks before its first sleep
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._stop_requested.set)


@dataclass
class Server:
    """A running API.

    Attributes:
        url: its URL, without a trailing slash.
        host, port: the address it is bound to.
    """

    url: str
    host: str
    port: int
    app: FastAPI
    _server: _Uvicorn
    _thread: threading.Thread

    @property
    def alive(self) -> bool:
        """Whether it is still serving."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def stop(self) -> None:
        """End streams, let open requests finish, release the port. May be called twice."""
        self.app.state.bridge.closing = True
        self._server.end()
        self._thread.join()


def serve(
    plane: Plane,
    settings: ApiSettings,
    host: str = "127.0.0.1",
    port: int = 0,
    tls_cert: str | Path = "",
    tls_key: str | Path = "",
    pages: LoadPages | None = None,
) -> Server:
    """Serve the API from a thread. The port is open when this returns.

    Args:
        host: a name or an address of this machine.
        port: 0 = any free port.
        tls_cert, tls_key: PEM files; required unless the host is loopback, as the token must not
            be sent in clear text.
        pages: loads the dashboard; None = only the API.

    Raises:
        BadInput: the host cannot be served, or not without TLS.
        PortTaken: the port is not available on this host.
    """
    check_exposure(host, tls_cert, tls_key)
    listener = _listen(host, port)
    try:
        bound_port = int(listener.getsockname()[1])
        names = settings.hosts | _names(host)
        app = create_app(plane, replace(settings, hosts=names), pages=pages)
        server = _started(app, settings, listener, tls_cert, tls_key)
    except BaseException:
        listener.close()
        raise
    scheme = "https" if tls_cert else "http"
    url = f"{scheme}://{_url_host(host)}:{bound_port}"
    return Server(url, host, bound_port, app, *server)


def check_exposure(host: str, tls_cert: str | Path, tls_key: str | Path) -> None:
    """Refuse to serve on a network without TLS, or with a certificate that cannot be loaded.

    Raises:
        BadInput: it names what is missing.
    """
    if bool(tls_cert) != bool(tls_key):
        missing = "--tls-key" if tls_cert else "--tls-cert"
        raise BadInput("a certificate and its key go together", f"give {missing} too")
    if not is_loopback(host) and not tls_cert:
        raise BadInput(
            f"{host} can be reached from other machines, and the token would travel in the clear",
            "give --tls-cert and --tls-key, or use --host 127.0.0.1",
        )
    if tls_cert:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls_cert, tls_key)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"cannot load the certificate {tls_cert} with the key {tls_key}: {error}",
                "give PEM files that belong together",
            ) from error


def is_loopback(host: str) -> bool:
    """Return whether a host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= MOST_PORT:
        raise BadInput(f"{port} is not a port", f"use 1 to {MOST_PORT}, or 0 for any free one")
    try:
        addresses = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        taken = isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES)
        raise (PortTaken if taken else BadInput)(
            f"cannot listen on {host} port {port}: {error}", "--port 0 takes any free port"
        ) from error
    return listener


def _started(
    app: FastAPI,
    settings: ApiSettings,
    listener: socket.socket,
    tls_cert: str | Path,
    tls_key: str | Path,
) -> tuple[_Uvicorn, threading.Thread]:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # the guard writes one without secrets
        server_header=False,
        proxy_headers=False,  # clients could forge their address
        ws="none",  # loaded with the first web socket (`bounded_socket`)
        ws_max_size=SOCKET_BYTES,
        ws_per_message_deflate=False,
        lifespan="on",
        loop="auto",  # uvloop where it is installed
        timeout_keep_alive=math.ceil(settings.idle_s),
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=str(tls_cert) or None,
        ssl_keyfile=str(tls_key) or None,
    )
    server = _Uvicorn(config, settings, app.state.counts)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="flyball-api", daemon=True
    )
    thread.start()
    waited = threading.Event()
    for _ in range(int(START_S / 0.01)):
        if server.started:
            return server, thread
        if not thread.is_alive():
            break
        waited.wait(0.01)
    raise RuntimeError("the API's server did not start; see the log")


def _names(host: str) -> frozenset[str]:
    """Return the valid Host headers: loopback, the bound address, this machine's names.

    A server that is bound to all addresses accepts each of them.
    """
    plain = host.strip("[]").lower()
    names = {*LOOPBACK_NAMES, _bracketed(plain)}
    if _is_any(plain):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        for addresses in psutil.net_if_addrs().values():
            names |= {_bracketed(entry.address.partition("%")[0].lower()) for entry in addresses}
    return frozenset(names)


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _url_host(host: str) -> str:
    plain = host.strip("[]")
    return socket.getfqdn() if _is_any(plain) else _bracketed(plain)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
