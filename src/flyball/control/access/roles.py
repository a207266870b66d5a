"""Roles, the rights that come with them, and the caller of a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Right(StrEnum):
    """What a route needs."""

    READ = "read"
    """See jobs, queue, nodes, decisions and metrics."""
    SUBMIT = "submit"
    """Submit jobs in one's own name."""
    CHANGE = "change"
    """Cancel, hold, resize, cap and checkpoint jobs: one's own, or all with `OPERATE`."""
    OPERATE = "operate"
    """Change the jobs of others, and the cluster."""
    ATTEMPT = "attempt"
    """Report for one attempt and read its orders."""


class Role(StrEnum):
    """What the holder of a token is."""

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ATTEMPT = "attempt"
    """A job that runs. Such tokens are derived, never handed to people."""


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.USER: frozenset({Right.READ, Right.SUBMIT, Right.CHANGE}),
    Role.OPERATOR: frozenset({Right.READ, Right.SUBMIT, Right.CHANGE, Right.OPERATE}),
    Role.ATTEMPT: frozenset({Right.ATTEMPT}),
}
PEOPLE = (Role.VIEWER, Role.USER, Role.OPERATOR)
"""Roles of tokens that are handed out."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of the token that a request carries.

    Attributes:
        name: user name; "" = the owner of the state folder, who may act in any user's name.
        token_id: identifies a user's token; it is not secret.
        job, attempt: of an attempt's token.
    """

    name: str
    role: Role
    token_id: str = ""
    job: int = 0
    attempt: int = 0

    @property
    def rights(self) -> frozenset[Right]:
        return RIGHTS[self.role]

    def may(self, right: Right) -> bool:
        """Return whether the role includes a right."""
        return right in RIGHTS[self.role]

    def may_change(self, user: str) -> bool:
        """Return whether this caller may change jobs of a user."""
        return self.may(Right.OPERATE) or (self.may(Right.CHANGE) and user == self.name)


OWNER = Caller("", Role.OPERATOR)
"""Holder of the state folder's own token."""
