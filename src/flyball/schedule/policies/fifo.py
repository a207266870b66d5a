"""First come, first served, strictly.

Jobs start in order of submission; while the first does not fit, all others wait. The baseline
that every other policy is compared with, and rarely a fair one: see `fifo-skip`.
Wins: never on completion time; no job is ever overtaken. Loses: whenever a wide job heads
the queue.
"""

from __future__ import annotations

from flyball.core.knobs import Backfill, Knobs
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="fifo",
    summary="first come, first served; no job overtakes another",
    knobs=Knobs(backfill=Backfill.STRICT),
)
