"""What the viewer of a page may do, and why not more."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from flyball.api.callers import WALL_SCREEN, caller_of
from flyball.control.access.roles import Caller, Right

SUMMARIES = {
    "viewer": "viewer: may look, not change",
    "user": "user: may submit, and change own jobs",
    "operator": "operator: may change all jobs",
}
LINK_ADVICE = "this browser came by a read-only link; `flyball open` gives one that may change jobs"


@dataclass(frozen=True)
class Rights:
    """What a viewer may do.

    Attributes:
        caller: who the API takes the viewer for.
    """

    caller: Caller

    @property
    def who(self) -> str:
        """Return the viewer's name."""
        return self.caller.name or "Owner"

    @property
    def summary(self) -> str:
        """Return what the role may do, in a few words."""
        return SUMMARIES[str(self.caller.role)]

    @property
    def refusal(self) -> str:
        """Return why the viewer may not submit; "" = they may."""
        if self.caller.may(Right.SUBMIT):
            return ""
        if self.caller.name == WALL_SCREEN:
            return LINK_ADVICE
        return f"the role {self.caller.role} may not change jobs; ask for the role user"

    def refusal_for(self, owner: str) -> str:
        """Return why the viewer may not change a job of an owner; "" = they may."""
        if self.refusal or self.caller.may_change(owner):
            return self.refusal
        return f"the job belongs to {owner or 'the owner'}; ask them, or an operator"


def rights_of(request: Request) -> Rights:
    """Return the rights of the viewer of a page."""
    return Rights(caller_of(request))
