"""Refuses a method that a path does not have, and lists those it has.

The router tries one route after the other. Without this, `GET /jobs/batch` would be taken for a
job called `batch`, and `Allow` would name the methods of one route where a path has several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from flyball.api.problems import Problem


class Methods:
    """Checks the method of a request before it is routed.

    Args:
        app: the app that routes requests.
        routes: all routes.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self.app = app
        self._fixed: defaultdict[str, set[str]] = defaultdict(set)
        self._patterns = []
        for route in routes:
            assert isinstance(route, APIRoute), f"{route} is not a plain route"
            methods = frozenset(route.methods or ())
            if route.param_convertors:
                self._patterns.append((route.path_regex, methods))
            else:
                self._fixed[route.path] |= methods

    def allowed(self, path: str) -> frozenset[str]:
        """Return the methods of a path; none if there is no such path."""
        if path in self._fixed:  # a fixed path is never the value of a parameter
            return frozenset(self._fixed[path])
        matches = [methods for regex, methods in self._patterns if regex.match(path)]
        return frozenset[str]().union(*matches)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            allowed = self.allowed(scope["path"])
            if allowed and scope["method"] not in allowed:
                names = ", ".join(sorted(allowed))
                raise Problem(
                    405, f"{scope['method']} is not a method of this path", f"use {names}",
                    headers={"Allow": names},
                )  # fmt: skip
        await self.app(scope, receive, send)
