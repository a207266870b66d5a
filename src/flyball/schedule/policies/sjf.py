"""Shortest job first, strictly.

Pending jobs in order of estimated run time; while the first does not fit, all others wait.
Best for mean completion time among rules that never preempt, if estimates are good and jobs narrow.
Long jobs may starve; knob `ageing` bounds that.
"""

from __future__ import annotations

from flyball.core.knobs import Backfill, Knobs, Order
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="sjf",
    summary="shortest estimate first; no job overtakes another",
    knobs=Knobs(order=Order.SHORTEST, backfill=Backfill.STRICT),
)
