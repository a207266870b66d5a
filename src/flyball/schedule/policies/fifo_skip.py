"""First come, first served, skipping jobs that do not fit.

Removes most of strict FIFO's waiting by itself. A wide job can starve while narrow ones
stream past it; `easy` cures that.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="fifo-skip",
    summary="in order of submission, skipping jobs that do not fit",
    knobs=Knobs(),
)
