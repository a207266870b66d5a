"""Errors of a client. `str(error)` is one line with the remedy."""

from __future__ import annotations

from typing import Any

FIELDS = ("detail", "remedy", "token")


class ApiError(Exception):
    """The control plane refused a request, or did not answer.

    Attributes:
        status: HTTP status; 0 = there was no answer.
        token: stable name of the error, for programs.
        detail, remedy: for people.
        errors: the invalid values of a request, `{"where", "why"}` each.
        exit_code: of a command that fails with it: 75 = trying later may help, else 2.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        remedy: str = "",
        token: str = "",
        errors: list[dict[str, str]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.remedy = remedy
        self.token = token
        self.errors = errors or []
        self.exit_code = 75 if status in (0, 429, 503) else 2

    def __str__(self) -> str:
        return f"{self.detail}; {self.remedy}" if self.remedy else self.detail

    @classmethod
    def of(cls, status: int, problem: Any) -> ApiError:
        """Return the error of an answer: a problem document, or an answer of another server."""
        if not isinstance(problem, dict):
            return cls(status, f"the server answered {status}", "is this a control plane's URL?")
        detail, remedy, token = (str(problem.get(field) or "") for field in FIELDS)
        detail = detail or f"the server answered {status}"
        return cls(status, detail, remedy, token, problem.get("errors"))


class NoControlPlane(ApiError):
    """No control plane answers."""

    def __init__(self, detail: str = "no control plane is running") -> None:
        super().__init__(0, detail, "start one with `flyball up`", "no-control-plane")


class BadCertificate(ApiError):
    """A control plane answers, but its certificate does not prove that it is the right one."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(0, detail, remedy, "bad-certificate")
        self.exit_code = 2  # trying later does not help
