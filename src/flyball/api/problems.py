"""Errors as RFC 9457 problem documents: what went wrong, and what to do about it.

`token` is stable and meant for programs, `detail` and `remedy` for people. The types are URNs, as
a problem must be understood without the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response

from flyball.core.errors import Conflict, FlyballError, NotFound

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
TRY_LATER = 75
"""Exit code of temporary errors (EX_TEMPFAIL)."""

TOKENS = {
    400: "bad-request",
    401: "unauthorized",
    403: "origin-refused",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "too-large",
    415: "not-json",
    416: "range-not-satisfiable",
    421: "host-refused",
    422: "bad-input",
    429: "too-many-requests",
    500: "internal-error",
    503: "unavailable",
}
"""Default token of a status; a problem may have a more specific one."""

CLIENT_ERRORS = (400, 401, 403, 405, 413, 421, 429)
"""Statuses of any route: sent by the guard or the server before the route is reached."""

MEANINGS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "The Origin is another site, or the role of the token does not permit it.",
    404: "It does not exist.",
    405: "The path does not have this method.",
    409: "The Idempotency-Key was used before for another request.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    416: "The range lies outside the log.",
    421: "The Host is not a name of this server.",
    422: "A value is not valid.",
    429: "Too many requests; Retry-After is the time to wait.",
    500: "An internal error of the server.",
    503: "The control plane cannot do this now; retry later.",
}


class Fault(BaseModel):
    """One invalid value of a request."""

    where: str = Field(description="Path to the value, parts joined by dots.")
    why: str


class ProblemDocument(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(description="A URN made of the token.")
    title: str = Field(description="The status as text.")
    status: int
    detail: str = Field(description="What went wrong, with numbers.")
    remedy: str = Field(description="What can be done about it; may be empty.")
    token: str = Field(description="Stable; for programs.")
    errors: list[Fault] | None = Field(None, description="The first 20 invalid values.")


class Problem(Exception):
    """An error that is sent as a response."""

    def __init__(
        self,
        status: int,
        detail: str,
        remedy: str = "",
        token: str = "",
        headers: Mapping[str, str] | None = None,
        errors: list[dict[str, str]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.remedy = remedy
        self.token = token or TOKENS.get(status, "error")
        self.headers = dict(headers or {})
        self.errors = errors

    def document(self) -> dict[str, Any]:
        """Return the problem document."""
        body: dict[str, Any] = {
            "type": f"urn:flyball:problem:{self.token}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "remedy": self.remedy,
            "token": self.token,
        }
        return {**body, "errors": self.errors} if self.errors else body

    def response(self) -> Response:
        """Return the document as a response."""
        return Response(to_json(self.document()), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: FlyballError) -> Problem:
    """Convert an error of the plane to a problem."""
    if isinstance(error, NotFound):
        status = 404
    elif isinstance(error, Conflict):
        status = 409
    else:
        status = 503 if error.exit_code == TRY_LATER else 422
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
    return Problem(status, Exception.__str__(error), error.remedy, headers=headers)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route with these problems and those of every route."""
    return {
        status: {
            "description": MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({*CLIENT_ERRORS, 500, *statuses})
    }
