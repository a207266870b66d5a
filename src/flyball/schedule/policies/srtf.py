"""Shortest remaining time first, with preemption in rounds.

Every round (knob `round_s`) a pending job may take the devices of running jobs whose estimated
remaining work is larger by more than `margin_s`; they write a checkpoint and queue again.
No job is preempted unless the pending job then fits. Cost of a restart: `Effects.restart_s`.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="srtf",
    summary="least remaining work first, preempting in rounds",
    knobs=Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS),
)
