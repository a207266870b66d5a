"""EASY backfill (Lifka 1995).

The first job that does not fit gets a reservation from the expected ends of running jobs;
jobs behind it start if they fit and are not expected to delay it. Knob `depth`: how far down
the queue is searched for candidates. Depends on estimates: with bad ones the reservation moves.
"""

from __future__ import annotations

from flyball.core.knobs import Backfill, Knobs
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="easy",
    summary="in order of submission, backfilled without delaying the first that waits",
    knobs=Knobs(backfill=Backfill.EASY),
)
