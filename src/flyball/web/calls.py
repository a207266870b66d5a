"""Calls the API as a browser would: through the guard, with the cookie of its session.

What a page does is therefore checked, limited and audited like any request, and no page can do what
the API refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
from fastapi import FastAPI, Request


class Refused(Exception):
    """The API refused a call; `remedy` says what to do."""

    def __init__(self, status: int, detail: str, remedy: str, errors: list[dict[str, str]]) -> None:
        super().__init__(detail)
        self.status, self.detail, self.remedy, self.errors = status, detail, remedy, errors


class Calls:
    """Calls the API for one page.

    Args:
        api: the app, with its guard.
        request: the request of the page, whose cookie and address are used.
    """

    def __init__(self, api: FastAPI, request: Request) -> None:
        client = (request.client.host, request.client.port) if request.client else ("page", 0)
        host = request.headers.get("host", "")
        self._headers = {
            "host": host,
            "cookie": request.headers.get("cookie", ""),
            "origin": f"{request.url.scheme.replace('ws', 'http')}://{host}",
        }
        self._transport = httpx.ASGITransport(api, raise_app_exceptions=False, client=client)

    async def get(self, path: str, **query: Any) -> Any:
        """Return the JSON of `/api/v1/PATH`.

        Raises:
            Refused: with the API's reason.
        """
        given = {key: value for key, value in query.items() if value is not None}
        return await self._call("GET", path, params=given)

    async def post(self, path: str, body: Mapping[str, Any] | None = None, key: str = "") -> Any:
        """Post JSON to `/api/v1/PATH` and return the answer.

        Args:
            key: makes the request safe to repeat.
        """
        headers = {"idempotency-key": key} if key else {}
        return await self._call("POST", path, json=body or {}, headers=headers)

    async def delete(self, path: str) -> Any:
        """Delete `/api/v1/PATH` and return the answer."""
        return await self._call("DELETE", path)

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        async with httpx.AsyncClient(
            transport=self._transport, base_url="http://page", headers=self._headers, timeout=60
        ) as client:
            answer = await client.request(method, f"/api/v1/{path}", **more)
        if answer.is_success:
            return answer.json() if answer.content else None
        problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}
        raise Refused(
            answer.status_code,
            str(problem.get("detail") or f"the API answered {answer.status_code}"),
            str(problem.get("remedy", "")),
            list(problem.get("errors") or []),
        )
