"""Least attained service in two queues, after Tiresias (NSDI 2019).

A job that has received less than `attained_s` of device time comes before all that have
received more; within a queue, first come first served. Needs no estimates at all. The margin keeps
jobs of one queue from preempting each other.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="las",
    summary="least attained service: two queues by device time received, preempting in rounds",
    knobs=Knobs(order=Order.ATTAINED, preempt=Preempt.ROUNDS, margin_s=1e9),
)
