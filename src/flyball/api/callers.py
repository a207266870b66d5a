"""Who sends a request, and what they may do.

The guard identifies the holder of a token; each route declares the right that it needs, and an app
with a route that declares none does not start.

    router = APIRouter(...)
    @router.post("/jobs", dependencies=needs(Right.SUBMIT))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fastapi import Depends, Request
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Scope

from flyball.api.problems import Problem
from flyball.api.token import Secret
from flyball.control.access import attempt_tokens, user_tokens
from flyball.control.access.attempt_tokens import AttemptTokens
from flyball.control.access.roles import OWNER, PEOPLE, RIGHTS, Caller, Right, Role
from flyball.control.access.user_tokens import UserTokens
from flyball.control.jobs.attempt_orders import runs
from flyball.core.jobs import Job

if TYPE_CHECKING:
    from flyball.control.plane import Plane

SCOPE_KEY = "flyball.caller"
FORBIDDEN = "forbidden"
"""Stable token of the problem of a caller who may not do something."""
HIDDEN = "(hidden)"
"""Shown instead of the values of another user's environment."""


class AttemptOver(Exception):
    """The token is genuine, and its attempt no longer runs."""


class Callers:
    """Finds the caller of a token.

    Args:
        plane: whose attempts run, and whose attempt tokens are accepted.
        users: tokens of users.
        secret: the token of the state folder.
    """

    def __init__(self, plane: Plane, users: UserTokens, secret: Secret) -> None:
        self._plane, self._users, self._secret = plane, users, secret

    def identify(self, token: bytes) -> Caller | None:
        """Return the caller with a token; None if it is not valid.

        Raises:
            AttemptOver: it belongs to an attempt that no longer runs.
        """
        text = token.decode("latin-1")
        if text.startswith(user_tokens.PREFIX) and (caller := self._users.find(text)):
            return caller
        if text.startswith(attempt_tokens.PREFIX) and (caller := self._attempt(text)):
            return caller
        return OWNER if self._secret.matches(token) else None

    def _attempt(self, token: str) -> Caller | None:
        tokens: AttemptTokens = self._plane.attempt_tokens
        proven = tokens.attempt_of(token)
        if proven is None:
            return None
        job, attempt = proven
        current = self._plane.live_state.get(job)
        if current is None or not runs(current, attempt):
            raise AttemptOver(f"attempt {attempt} of job {job} does not run")
        return Caller(current.spec.user, Role.ATTEMPT, job=job, attempt=attempt)

    def is_current(self, caller: Caller) -> bool:
        """Return whether the token of a caller is still accepted; for long answers."""
        if caller.token_id:
            return self._users.is_current(caller)
        return not caller.job or runs(self._plane.live_state.get(caller.job), caller.attempt)


# Rights of routes ---------------------------------------------------------------------


class Needs:
    """A dependency of a route: refuses callers whose role lacks a right."""

    def __init__(self, right: Right) -> None:
        self.right = right

    async def __call__(self, request: Request) -> None:
        caller = caller_of(request)
        if not caller.may(self.right):
            raise forbidden(_why(caller, self.right), _remedy(self.right))


_NEEDS = {right: Needs(right) for right in Right}


def needs(right: Right) -> list[Dependency]:
    """Return the `dependencies` of a route that needs a right."""
    dependency: Dependency = Depends(_NEEDS[right])
    return [dependency]


def right_of(route: BaseRoute) -> Right | None:
    """Return the right that a route needs besides that of its router; None if it declares none."""
    assert isinstance(route, APIRoute)
    for dependency in reversed(route.dependencies):
        if isinstance(dependency.dependency, Needs):
            return dependency.dependency.right
    return None


def check_rights(routes: Iterable[BaseRoute], is_open: Callable[[str], bool]) -> None:
    """Assert that every route declares a right, unless its path is open without a token."""
    for route in routes:
        path = getattr(route, "path", "")
        assert is_open(path) or right_of(route), f"{path} declares no right"


def _why(caller: Caller, right: Right) -> str:
    if caller.role == Role.ATTEMPT:
        return "the token of an attempt can report and read orders, nothing else"
    return f"{caller.name or 'the owner'} has the role {caller.role}, which may not {right}"


def _remedy(right: Right) -> str:
    roles = " or ".join(role for role in PEOPLE if right in RIGHTS[role])
    return f"this needs the role {roles}: `flyball token add`" if roles else "use it from its job"


def forbidden(detail: str, remedy: str) -> Problem:
    """Return the problem of a caller who may not do something."""
    return Problem(403, detail, remedy, FORBIDDEN)


# In routes ----------------------------------------------------------------------------


def set_caller(scope: Scope, caller: Caller) -> None:
    """Note the caller of a request, for its route."""
    scope[SCOPE_KEY] = caller


def caller_of(request: Request) -> Caller:
    """Return the caller of a request that the guard has admitted with a token."""
    caller: Caller = request.scope[SCOPE_KEY]
    return caller


def who_of(request: Request) -> str:
    """Return a request's caller for the journal: `ada 10.0.0.7`, of the owner `api 127.0.0.1`."""
    name = caller_of(request).name or "api"
    return f"{name} {request.client.host}" if request.client else name


def key_of(request: Request, key: str | None) -> str:
    """Return an idempotency key, apart from the same key of another user. Keys have no spaces."""
    name = caller_of(request).name
    return f"{name} {key}" if name and key else key or ""


def check_change(request: Request, jobs: Iterable[Job]) -> None:
    """Refuse to change jobs of another user.

    Raises:
        Problem: 403 if there is one among them.
    """
    caller = caller_of(request)
    for job in jobs:
        if not caller.may_change(job.spec.user):
            owner = job.spec.user or "the owner of the state folder"
            raise forbidden(
                f"job {job.label} belongs to {owner}, not to {caller.name}",
                "ask them, or someone with the role operator",
            )


def visible(request: Request, view: dict[str, Any]) -> dict[str, Any]:
    """Return a job or an event without what may be secret of another user's job.

    That are the values of its environment, and the targets of its notifications.
    """
    spec = view.get("spec")
    if not isinstance(spec, dict):
        return view
    caller = caller_of(request)
    if caller.may(Right.OPERATE) or spec.get("user") == caller.name:
        return view
    shown = {**view, "spec": _without_secrets(spec)}
    if view.get("notify"):
        shown["notify"] = [{**target, "to": HIDDEN} for target in view["notify"]]
    return shown


def _without_secrets(spec: dict[str, Any]) -> dict[str, Any]:
    shown = dict(spec)
    if spec.get("env"):
        shown["env"] = dict.fromkeys(spec["env"], HIDDEN)
    if spec.get("notify"):
        shown["notify"] = [HIDDEN] * len(spec["notify"])
    return shown
