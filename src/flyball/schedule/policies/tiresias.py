"""Discretised two-dimensional least attained service (Tiresias, Gu et al., NSDI 2019).

Three queues by device time received: below `attained_s`, below `attained2_s`, and the rest. A
job comes before all of a lower queue, and may take their devices in rounds; within a queue, by
first start, else by submission. Needs no estimates. The margin keeps jobs of one queue from
preempting each other. A gang that fits a node waits for one (span=whole), as its authors
consolidate jobs.

Knobs: the thresholds; `promote`: a job that waits this many times longer than it ran goes back to
the first queue (0 = never). Thresholds are those of the authors' simulator, discipline
`dlas-gpu` (SymbioticLab/Tiresias, commit b0ef844, simulator/jobs.py: 3250 and 7200 GPU-seconds
over three queues); there promotion is off too unless asked for (`dlas-gpu-8` and others). The
Voda scheduler (heyfey/vodascheduler v0.2.2), which names the paper as its source, has two queues
with a threshold of 3600 and promotes at 8: that is `--set attained_s=3600 --set attained2_s=1e12
--set promote=8`. Unlike there, a job's wait is the present one, not the sum of its waits since
it was in the first queue.

It wins where run times are unknown and most jobs are short. It loses where most jobs are of one
length (it time-slices them), and long gangs starve under load unless `promote` is set.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="tiresias",
    summary="least attained service in three queues, by first start in each, preempting in rounds",
    knobs=Knobs(
        order=Order.ATTAINED,
        preempt=Preempt.ROUNDS,
        margin_s=1e9,
        attained_s=3_250.0,
        attained2_s=7_200.0,
    ),
)
