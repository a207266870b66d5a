"""How far class pathways are followed: not at all, by some jobs, by all, or by the cluster."""

from __future__ import annotations

from enum import IntEnum

from flyball.core.errors import UnknownName


class Scope(IntEnum):
    """Names how far pathways are followed; each includes those before it."""

    OFF = 0  # a class only describes a job
    NAMED = 1  # what belongs to the job itself, for jobs whose user named a class
    JOBS = 2  # the same for every job, classified where no class is named
    CLUSTER = 3  # and the cluster's knobs and tuners are those of the leading pathway

    @property
    def label(self) -> str:
        """Return the name that users write."""
        return self.name.lower()


def scope_of(name: str, least: Scope = Scope.OFF) -> Scope:
    """Return the scope of this name.

    Args:
        name: as a user writes it.
        least: the narrowest that makes sense here.

    Raises:
        UnknownName: there is no such scope, or none that makes sense.
    """
    scopes = {scope.label: scope for scope in Scope if scope >= least}
    if name.strip().lower() not in scopes:
        raise UnknownName("scope of pathways", name, scopes)
    return scopes[name.strip().lower()]
