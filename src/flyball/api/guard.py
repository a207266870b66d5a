"""Checks every request before it reaches a route: host, origin, token, rates, size.

Plain ASGI, because it is on the path of every submission. The order matters: the Host and Origin
checks come first and are cheap, so that a web page which the user visits learns nothing, not even
whether a token would be valid.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flyball.api.bounded_http import EXTENSION
from flyball.api.callers import AttemptOver, Callers, set_caller
from flyball.api.entrance import CLOSE_PATH, OPEN_PATH, is_api, sign_in_page
from flyball.api.metrics_text import Counts
from flyball.api.problems import Problem
from flyball.api.rates import Bucket, Buckets
from flyball.api.sessions import Sessions, cookie_in, cookie_name
from flyball.api.settings import ApiSettings
from flyball.control.access.roles import Caller

BATCH_PATH = "/api/v1/jobs/batch"
OPEN_PATHS = frozenset({"/healthz", "/docs"})
"""Paths that need no token. Probes of load balancers have none, and /healthz returns only one word;
the docs page contains nothing that is not in the source code."""

ENTRANCE_PATHS = frozenset({OPEN_PATH, CLOSE_PATH})
"""Paths of the entrance to the pages: they only open and close a session."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SOCKET_RATE, SOCKET_BURST = 50.0, 500.0
"""Messages of a web socket per second and in a burst."""

HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
}
"""Set on every response that does not set them itself."""

logger = logging.getLogger("flyball.api")
access = logging.getLogger("flyball.api.access")


class Guard:
    """Refuses requests, limits bodies, sets headers, writes the access log.

    Args:
        app: the app that is guarded.
        callers: finds the caller of a token.
        audit: called with `(what, who)` for refused tokens and hosts; must not block.
        counts: counts every response.
        clock: seconds, monotonic.
        sessions: checks the cookies of browsers; None = there are no pages, only the API.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ApiSettings,
        callers: Callers,
        audit: Callable[[str, str], None],
        counts: Counts,
        clock: Callable[[], float] = time.monotonic,
        sessions: Sessions | None = None,
    ) -> None:
        self.app, self.settings, self.audit, self.clock = app, settings, audit, clock
        self.counts = counts
        self._callers, self._sessions = callers, sessions
        self._failures = Buckets(settings.failure_rate, settings.failure_burst, clock)
        self._open = Buckets(settings.open_rate, settings.open_burst, clock)
        self._each = Buckets(settings.rate, settings.burst, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._web_socket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = self.clock()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                missing = [pair for pair in HEADERS.items() if pair[0] not in present]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        try:
            limit = self._admit(scope)
            await self.app(scope, _limited(receive, limit), send_with_headers)
        except Problem as problem:
            response = problem.response()
            if problem.status == 401 and self._wants_page(scope):
                response = sign_in_page()
            await response(scope, receive, send_with_headers)
        except Exception:
            logger.exception("a request failed: %s", line_of(scope))
            if status:  # the response has started: abort it, so that it does not look complete
                raise
            internal = Problem(500, "internal server error", "see the control plane's log")
            await internal.response()(scope, receive, send_with_headers)
        finally:
            self.counts.add(scope["method"], status, self.clock() - began_s)
            if access.isEnabledFor(logging.INFO):
                took_ms = (self.clock() - began_s) * 1e3
                access.info("%s %s %d %.1f ms", _client(scope), line_of(scope), status, took_ms)

    def _admit(self, scope: Scope) -> int:
        """Return the largest body that the request may have.

        Raises:
            Problem: the request is refused.
        """
        headers = _Headers(scope)
        self._check_host(headers, scope)
        self._check_token(headers, scope)
        is_batch = scope["path"] == BATCH_PATH
        limit = self.settings.batch_bytes if is_batch else self.settings.one_bytes
        length = headers.one(b"content-length")
        if length is not None and length.isdigit() and int(length[:20]) > limit:
            raise _too_large(limit)
        return limit

    def _check_host(self, headers: _Headers, scope: Scope) -> None:
        host = (headers.one(b"host") or b"").decode("latin-1").lower()
        if not self._is_ours(host):
            self._audit_bounded(f"host {host[:100]!r} refused", scope)
            raise Problem(
                421, "the Host header is not a name of this server",
                "use the URL that `flyball up` prints",
            )  # fmt: skip
        for origin in headers.all(b"origin"):
            text = origin.decode("latin-1").lower()
            if text not in (f"http://{host}", f"https://{host}"):
                self._audit_bounded(f"origin {text[:100]!r} refused", scope)
                raise Problem(
                    403, "the Origin header names another site",
                    "call the API from its own pages, or without a browser",
                )  # fmt: skip

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host header, with or without port, is a name of this server."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        name = f"[{name}]" if ":" in name else name
        plain = name if port is None else f"{name}:{port}"
        return plain == host and name in self.settings.hosts

    def _check_token(self, headers: _Headers, scope: Scope) -> None:
        header = headers.one(b"authorization") or b""
        scheme, _, secret = header.partition(b" ")
        if not header and self._sessions is not None and self._check_session(headers, scope):
            return
        over, caller = "", None
        try:
            if scheme.lower() == b"bearer":
                caller = self._callers.identify(secret.strip())
        except AttemptOver as error:
            over = str(error)
        if caller is not None:
            _trust(scope)
            set_caller(scope, caller)
            if wait_s := self._each.take(f"{caller.name} {caller.job}.{caller.attempt}"):
                raise _too_many(wait_s)
        elif scope["path"] in OPEN_PATHS or (
            self._sessions is not None and scope["path"] in ENTRANCE_PATHS
        ):
            if wait_s := self._open.take(_client(scope)):
                raise _too_many(wait_s)
        else:
            if wait_s := self._failures.take(_client(scope)):
                raise _too_many(wait_s)
            if header and not over:
                self.audit("token refused", _client(scope))
            raise Problem(
                401, over or ("the token is wrong" if header else "a token is needed"),
                "send `Authorization: Bearer TOKEN`; the token is in the file `token` of the "
                "state folder, or comes from `flyball token add`",
                headers={"WWW-Authenticate": 'Bearer realm="flyball"'},
            )  # fmt: skip

    # Browsers ---------------------------------------------------------------------------

    def _check_session(self, headers: _Headers, scope: Scope) -> bool:
        """Return whether the request comes from a browser with a session.

        Raises:
            Problem: it does, and comes too often or without its origin.
        """
        caller = self._browser(headers)
        if caller is None:
            return False
        _trust(scope)
        set_caller(scope, caller)
        if wait_s := self._each.take(f"{caller.name} browser"):
            raise _too_many(wait_s)
        changes = scope["type"] == "http" and scope["method"] not in SAFE_METHODS
        if changes and not headers.all(b"origin"):  # browsers always send it
            raise Problem(403, "the Origin header is missing", "send the token instead of a cookie")
        return True

    def _browser(self, headers: _Headers) -> Caller | None:
        """Return the caller of a cookie, unless another site made the browser send it."""
        assert self._sessions is not None
        cookie = headers.one(b"cookie")
        site = headers.one(b"sec-fetch-site")
        is_foreign = site not in (None, b"same-origin", b"none")
        if cookie is None or (is_foreign and headers.one(b"sec-fetch-mode") != b"navigate"):
            return None
        host = (headers.one(b"host") or b"").decode("latin-1").lower()
        session = self._sessions.read(cookie_in(cookie, cookie_name(host)))
        return None if session is None else self._callers.of_session(session)

    def _wants_page(self, scope: Scope) -> bool:
        """Return whether the request is a browser's for a page, which gets an answer to read."""
        accept = _Headers(scope).one(b"accept") or b""
        is_page = self._sessions is not None and not is_api(scope["path"])
        return is_page and scope["method"] == "GET" and b"text/html" in accept

    async def _web_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a web socket of the pages: the same host, origin, session and rate.

        Its session is checked again with every message, so that it ends with its session. Browsers
        answer the server's pings every few seconds, which are messages.
        """
        if self._sessions is None:
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _Headers(scope)
        try:
            self._check_host(headers, scope)
            if not headers.all(b"origin") or not self._check_session(headers, scope):
                if wait_s := self._failures.take(_client(scope)):
                    raise _too_many(wait_s)
                raise Problem(401, "a session is needed")
        except Problem as problem:
            access.info("%s web socket refused: %s", _client(scope), problem.detail)
            await send({"type": "websocket.close", "code": 1008})
            return
        messages = Bucket(SOCKET_RATE, SOCKET_BURST, self.clock())
        closed = False

        async def receive_checked() -> Message:
            nonlocal closed
            message = await receive()
            is_data = message["type"] == "websocket.receive"
            if is_data and (messages.take(self.clock()) or self._browser(headers) is None):
                closed = True
                await send({"type": "websocket.close", "code": 1008})
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        async def send_open(message: Message) -> None:
            if not closed:
                await send(message)

        await self.app(scope, receive_checked, send_open)

    def _audit_bounded(self, what: str, scope: Scope) -> None:
        """Audit an event, at most at the rate of refused tokens."""
        if not self._failures.take(_client(scope)):
            self.audit(what, _client(scope))


class _Headers:
    """The raw headers of a request; a header that must be unique counts as absent if it is not."""

    def __init__(self, scope: Scope) -> None:
        self._pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def all(self, name: bytes) -> list[bytes]:
        return [value for key, value in self._pairs if key == name]

    def one(self, name: bytes) -> bytes | None:
        values = self.all(name)
        return values[0] if len(values) == 1 else None


def _limited(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that raises when the body exceeds the limit."""
    seen = 0

    async def receive_limited() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
        return message

    return receive_limited


def _too_large(limit: int) -> Problem:
    return Problem(
        413, f"the body is larger than {limit:,} bytes", "send fewer jobs at a time",
        headers={"Connection": "close"},
    )  # fmt: skip


def _too_many(wait_s: float) -> Problem:
    retry_s = 3600 if math.isinf(wait_s) else max(1, math.ceil(wait_s))
    return Problem(
        429, "too many requests", f"try again in {retry_s} s",
        headers={"Retry-After": str(retry_s)},
    )  # fmt: skip


def _trust(scope: Scope) -> None:
    """Mark the connection as trusted by the token: it is among the last to be dropped."""
    connection = scope.get("extensions", {}).get(EXTENSION)
    if connection is not None:
        connection.trusted = True


def _client(scope: Scope) -> str:
    client: Any = scope.get("client")
    return str(client[0]) if client else "unknown"


def line_of(scope: Scope) -> str:
    """Return method and path for a log: percent-encoded, without the query, truncated."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0][:200].decode("ascii", "backslashreplace")
    return f"{scope['method']} {path}"
