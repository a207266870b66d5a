"""Smallest area first.

Pending jobs in order of estimated run time times devices, skipping who does not fit. A strong and
simple rule for gangs: it clears many small jobs per device-hour.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="saf",
    summary="smallest estimated area (time x devices) first, whoever fits goes",
    knobs=Knobs(order=Order.AREA),
)
