"""Calls the control plane, which blocks, from the event loop, which must not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from fastapi import Request
from pydantic_core import to_json
from starlette.responses import Response

from flyball.api.callers import Callers
from flyball.api.problems import problem_of
from flyball.api.rates import Buckets
from flyball.api.settings import ApiSettings
from flyball.api.token import Secret
from flyball.control.access.user_tokens import UserTokens
from flyball.core.errors import FlyballError

if TYPE_CHECKING:
    from flyball.control.plane import Plane

P = ParamSpec("P")
T = TypeVar("T")

LISTEN_S = 1.0
"""Timeout of one wait for events; the longest that stopping may have to wait for it."""

logger = logging.getLogger("flyball.api")


class Bridge:
    """Calls the plane in a pool of threads, and lets any number of streams wait for events.

    Attributes:
        closing: the server is stopping; streams end.
        streams: number of open streams.
        secret: the current token.
        callers: finds the caller of a token.
    """

    def __init__(self, plane: Plane, settings: ApiSettings) -> None:
        self.plane, self.settings = plane, settings
        self.closing = False
        self.streams = 0
        self.secret = Secret(settings.token, settings.token_folder)
        users = UserTokens(settings.token_folder, lambda what: self.audit(what, "flyball"))
        self.callers = Callers(plane, users, self.secret)
        self._pool = ThreadPoolExecutor(settings.workers, "flyball-api")
        self._refusals = Buckets(settings.failure_rate, settings.failure_burst, time.monotonic)
        self._newest = 0
        self._listener: asyncio.Task[None] | None = None

    async def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a method of the plane.

        Raises:
            Problem: the plane raised an error.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, partial(function, *args, **named))
        except FlyballError as error:
            raise problem_of(error) from error

    async def newer(self, after: int, timeout_s: float) -> int:
        """Return the number of the newest event, once it is above `after` or the time is up.

        All streams share one call to the plane: a thousand of them use one thread.
        """
        end_s = self.now_s() + timeout_s
        while self._newest <= after and not self.closing and (left_s := end_s - self.now_s()) > 0:
            if self._listener is None or self._listener.done():
                self._listener = asyncio.create_task(self._listen())
            done, _ = await asyncio.wait({self._listener}, timeout=left_s)
            for task in done:
                task.result()
        return self._newest

    async def _listen(self) -> None:
        seen = await self.call(self.plane.ask.wait_events, self._newest, LISTEN_S)
        self._newest = max(self._newest, seen)

    @staticmethod
    def now_s() -> float:
        """Return the time by the event loop's clock, for deadlines."""
        return asyncio.get_running_loop().time()

    def audit(self, what: str, who: str) -> None:
        """Record an audit event in the background; never blocks and never fails the request."""
        self._pool.submit(self._audit, what, who)

    def audit_refusal(self, what: str, who: str) -> None:
        """Record that a caller may not do something, at a bounded rate per caller."""
        if not self._refusals.take(who):
            self.audit(what, who)

    def _audit(self, what: str, who: str) -> None:
        try:
            self.plane.audit(what, who)
        except FlyballError as error:
            logger.warning("not audited: %s by %s: %s", what, who, error)

    def close(self) -> None:
        """Shut down the threads, after the calls that are running."""
        self.closing = True
        self._pool.shutdown(wait=True, cancel_futures=True)


def bridge_of(request: Request) -> Bridge:
    """Return the bridge of the app that serves a request."""
    bridge: Bridge = request.app.state.bridge
    return bridge


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response; NaN and infinity become null."""
    body = to_json(value, inf_nan_mode="null", serialize_unknown=True)
    return Response(body, status, headers, "application/json")
