"""Limits of the telemetry that is kept. Not in `store`, so that the agent need not load that."""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.errors import BadInput

LEAST_DAYS, MOST_DAYS = 0.01, 3650.0
LEAST_MIB, MOST_MIB = 1.0, 1048576.0


@dataclass(frozen=True)
class Keep:
    """Maximum age and size of the files that are kept; the oldest are removed first."""

    days: float = 7.0
    mib: float = 512.0


def checked_keep(days: float, mib: float) -> Keep:
    """Check limits that a user stated.

    Raises:
        BadInput: a limit is out of range.
    """
    if not LEAST_DAYS <= days <= MOST_DAYS:
        raise BadInput(f"--keep-days {days:g}", f"use {LEAST_DAYS:g} to {MOST_DAYS:g} days")
    if not LEAST_MIB <= mib <= MOST_MIB:
        raise BadInput(f"--keep-mib {mib:g}", f"use {LEAST_MIB:g} to {MOST_MIB:.0f} MiB")
    return Keep(days, mib)
