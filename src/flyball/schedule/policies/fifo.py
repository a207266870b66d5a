"""First come, first served, strictly.

Jobs start in order of submission; while the first does not fit, everybody waits. The floor
that every other policy is compared with, and rarely a fair one: see `fifo-skip`.
Wins: never on completion time; no job is ever overtaken. Loses: whenever a wide job heads
the queue.
"""

from __future__ import annotations

from flyball.core.knobs import Backfill, Knobs
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="fifo",
    summary="first come, first served; nobody overtakes",
    knobs=Knobs(backfill=Backfill.STRICT),
)
