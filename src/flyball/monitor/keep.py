"""How much telemetry is kept. Apart from the store, so that the agent need not load it."""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.errors import BadInput

LEAST_DAYS, MOST_DAYS = 0.01, 3650.0
LEAST_MIB, MOST_MIB = 1.0, 1048576.0


@dataclass(frozen=True)
class Keep:
    """How much is kept: what is older, or beyond the size, goes; the oldest first."""

    days: float = 7.0
    mib: float = 512.0


def checked_keep(days: float, mib: float) -> Keep:
    """Limits as somebody stated them.

    Raises:
        BadInput: out of range.
    """
    if not LEAST_DAYS <= days <= MOST_DAYS:
        raise BadInput(f"--keep-days {days:g}", f"use {LEAST_DAYS:g} to {MOST_DAYS:g} days")
    if not LEAST_MIB <= mib <= MOST_MIB:
        raise BadInput(f"--keep-mib {mib:g}", f"use {LEAST_MIB:g} to {MOST_MIB:.0f} MiB")
    return Keep(days, mib)
