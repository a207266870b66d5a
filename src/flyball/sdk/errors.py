"""What a client can meet. `str(error)` is one line with the remedy."""

from __future__ import annotations

from typing import Any

FIELDS = ("detail", "remedy", "token")


class ApiError(Exception):
    """The control plane said no.

    Attributes:
        status: of HTTP; 0 = there was no answer.
        token: stable, for programs.
        detail, remedy: for people.
        errors: the wrong values of a request, `{"where", "why"}` each.
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
        """The error that an answer is, be it a problem document or something in between."""
        if not isinstance(problem, dict):
            return cls(status, f"the server answered {status}", "is this a control plane's URL?")
        detail, remedy, token = (str(problem.get(each) or "") for each in FIELDS)
        detail = detail or f"the server answered {status}"
        return cls(status, detail, remedy, token, problem.get("errors"))


class NoControlPlane(ApiError):
    """Nobody answers."""

    def __init__(self, detail: str = "no control plane is running") -> None:
        super().__init__(0, detail, "start one with `flyball up`", "no-control-plane")


class BadCertificate(ApiError):
    """A control plane answers, but its certificate does not prove that it is the right one."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(0, detail, remedy, "bad-certificate")
        self.exit_code = 2  # it will not be better later
