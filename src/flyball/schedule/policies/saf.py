"""Smallest area first.

Pending jobs in order of estimated run time times devices, skipping those that do not fit. A strong
and simple rule for gangs: it completes many small jobs per device-hour.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="saf",
    summary="smallest estimated area (time x devices) first, skipping jobs that do not fit",
    knobs=Knobs(order=Order.AREA),
)
