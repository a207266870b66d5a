"""Earliest completion time with a hold rule, for mixed hardware.

In order of submission, each job takes the fastest pool with room, but pool t only if
`p / s_t <= p / s_best + W`: it holds out for its best pool if the slower one would cost more
than W (knob `hold_s`). Short jobs go anywhere, long jobs wait for the device that suits them.
W stands for the wait that the best pool costs anyway: too small and slow devices idle, too
large and it is `fifo-skip` with the fastest pool first. Four hours is near the best for mean
completion on generated weeks (`flyball demo`) at loads from 0.7 to 1.4.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Place
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="ect",
    summary="earliest expected completion: take a slower pool only if waiting would not pay",
    knobs=Knobs(place=Place.HOLD),
)
