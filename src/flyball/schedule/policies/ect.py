"""Earliest completion time with a hold rule, for mixed hardware.

In order of submission, each job takes the fastest pool with room, but pool t only if
`p / s_t <= p / s_best + W`: it holds out for its best pool if the slower one would cost more
than W (knob `hold_s`). Short jobs go anywhere, long jobs wait for the device that suits them.
W stands for the wait that the best pool costs anyway: too small and slow devices idle, too
large and it is `fifo-skip` with the fastest pool first. Four hours is near the best for mean
completion on generated weeks (`flyball demo`) at loads from 0.7 to 1.4.

W is fixed, so the rule **collapses where most of the work is in long jobs**: once a slower pool
costs every one of them more than W, all queue for the fastest pool and the others idle. On
one node of 8 each of A100, H100 and V100 at load 1.2, jobs of 24 h (median, on a V100) take
14.5 h under `ect` and 15.2 h under `easy`; jobs of 48 h take 127 h and 30 h. The wider
the speeds differ, the sooner: on `five-mixed` at load 0.7 jobs of 8 h already take 20 h and 13 h.
Set `hold_s` to the run time of a long job (`hold_s=172800`: 24 h for those of 48 h), or use `easy`.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Place
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="ect",
    summary="earliest expected completion: take a slower pool only if waiting would not pay",
    knobs=Knobs(place=Place.HOLD),
)
