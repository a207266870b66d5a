"""Quasi-shortest-service-first (Helios, Hu et al., SC 2021): shortest by what history predicts.

Pending jobs in order of predicted device time; any that fits starts. The prediction is made when a
job joins the queue, from jobs that ended before: the mean of its owner's jobs of the same model and
size, in which the newest counts half; else of its owner's jobs of the size; else of all jobs of the
size; else of all; else an hour. No estimate is read.

Its authors (S-Lab-System-Group/HeliosArtifact, commit 6345d9f, framework/QSSF Service) match jobs
by user and similar name and mix this mean with a boosted-tree model of past months; traces here
seldom have names, so the job's model stands in for its name, and there is no tree. Their simulator
lets no job pass one that does not fit: `--set backfill=strict`. With a wrong prediction at the head
that costs more than it gains, so it is not the default here.

Other knobs: `ageing` bounds starvation. It wins where users submit the same job again and again. It
loses where durations within a group vary widely, and it has no predictions on the first day.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="qssf",
    summary="least predicted device time first, by the owner's past jobs; skips what does not fit",
    knobs=Knobs(order=Order.HISTORY),
)
