"""Quasi-shortest-service-first (Helios, Hu et al., SC 2021): shortest by what history predicts.

Pending jobs in order of predicted device time; whoever fits goes. The prediction is made when a
job joins the queue, from jobs that ended before: the mean of its owner's jobs of the same model and
size, in which the newest counts half; else of its owner's jobs of the size; else of all jobs of the
size; else of all; else an hour. No estimate is read.

Its authors (S-Lab-System-Group/HeliosArtifact, commit 6345d9f, framework/QSSF Service) match jobs
by user and similar name and mix this mean with a boosted-tree model of past months; traces here
seldom have names, so the model of the job stands for its name, and there is no tree. Their
simulator lets nobody pass a job that does not fit: `--set backfill=strict`. With a wrong prediction
at the head that costs more than it gives, so it is not the default here.

Other knobs: `ageing` bounds starvation. It wins where people submit the same thing again and again.
It loses where durations inside a group are spread widely, and it knows nothing on the first day.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="qssf",
    summary="least device time first, as predicted from past jobs of the owner; whoever fits goes",
    knobs=Knobs(order=Order.HISTORY),
)
