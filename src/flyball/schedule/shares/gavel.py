"""Gavel mode: a policy of target shares decides as Gavel's simulator does (`max-min@gavel`).

`docs/decisions/0025-gavel-mode.md` lists the differences and what each is worth.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs

SUFFIX = "gavel"
"""Follows the name of a policy and an @."""

SETTINGS = (
    "round_s=360",
    "solve_s=1920",
    "starts=divided",
    "leftover=by-pool",
    "optimum=centre",
)
BLIND_SETTINGS = ("types=shuffled",)
"""For policies whose shares do not depend on types; the others fill the fastest pool first."""


def gavel_knobs(knobs: Knobs, blind: bool) -> Knobs:
    """Return the knobs of a policy of target shares in Gavel mode."""
    return knobs.with_settings([*SETTINGS, *(BLIND_SETTINGS if blind else ())])
