"""What the viewer of a page may do, and why not more."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from flyball.api.entrance import SESSION


@dataclass(frozen=True)
class Rights:
    """What a viewer may do.

    Attributes:
        who: the viewer's name.
        summary: the role in a few words.
        refusal: why buttons are off; "" = they are on.
    """

    who: str
    summary: str
    refusal: str = ""

    @property
    def may_change(self) -> bool:
        """Return whether the viewer may submit and change jobs."""
        return not self.refusal

    def refusal_for(self, owner: str) -> str:
        """Return why the viewer may not change a job of an owner; "" = they may."""
        return self.refusal


def rights_of(request: Request) -> Rights:
    """Return the rights of the viewer of a page."""
    session = request.scope.get(SESSION)
    if session is not None and session.read_only:
        return Rights(
            "Wall screen", "may look, not change",
            "this browser came by a read-only link; `flyball open` gives one that may change jobs",
        )  # fmt: skip
    return Rights("Owner", "may change everything")
