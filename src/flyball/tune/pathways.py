"""Class pathways: settings of the kernel with which jobs of each workload class run best.

| class | pathway | what it does |
|---|---|---|
| compute-intensive | spatial partitioning | two jobs share a device that neither fills |
| memory-bound | temporal slices | jobs that cannot share a device take turns on it |
| latency-sensitive | priority preemption | room is made at once, at the expense of the others |
| bandwidth-limited | pipeline scheduling | fetches while it computes, keeps gangs near |
| mixed | hybrid | sizes, pairs and places follow the state of the queue |

A pathway is chosen per job by its class (`pathway_of`), unless the job names another. Some of its
settings apply to the job alone (`Change`, applied by `prepare`), whatever the others do. Knobs and
tuners apply to the whole cluster: `leading` chooses the pathway that sets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from flyball.core.errors import UnknownName
from flyball.core.knobs import Backfill, Knobs, Order, Preempt, Span
from flyball.core.protocols import Tuner
from flyball.core.results import Floats, Ints
from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import COLUMNS, NOT_STATED, JobClass, Workload
from flyball.tune.balance import Balance
from flyball.tune.elastic import Elastic
from flyball.tune.share import Share

USUAL_RANGE = -1
"""Value in `Workload.most` of a job that may be resized within its usual range."""
MAJORITY = 0.5
"""Part of the device time asked for that makes one class lead the cluster."""


class Pathway(IntEnum):
    """Names the five pathways, in the order of the classes they are for."""

    SPATIAL = 0
    TEMPORAL = 1
    PRIORITY = 2
    PIPELINE = 3
    HYBRID = 4

    @property
    def label(self) -> str:
        """Return the name that users write."""
        return self.name.lower()


LABELS = tuple(pathway.label for pathway in Pathway)


def pathway_of(kind: int, override: str | None = None) -> Pathway:
    """Return the pathway of a job.

    Args:
        kind: its class.
        override: the pathway it asks for by name; None = that of its class.

    Raises:
        UnknownName: there is no such pathway.
    """
    if override is None:
        return Pathway(int(JobClass(kind)))
    if override.lower() not in LABELS:
        raise UnknownName("pathway", override, LABELS)
    return Pathway(LABELS.index(override.lower()))


@dataclass(frozen=True)
class Change:
    """Holds what a pathway changes about each of its jobs.

    Attributes:
        priority: added to the job's priority.
        resizable: tuners may change its number of devices, if its model's speed is known.
        chunks: the parts in which its data is fetched, so that one is fetched while another is
            computed on; 1 = all of it first, without devices; 0 = inside the job, on them.
        together: jobs, itself included, that may use its device at a time, if a tuner pairs them.
    """

    priority: float = 0.0
    resizable: bool = False
    chunks: int = 0
    together: int = 1


@dataclass(frozen=True)
class Setting:
    """Holds the settings of a pathway.

    Attributes:
        knobs: kernel knobs that differ from the cluster's.
        tuners: tuners in the order in which they change a plan; none = the kernel alone decides.
        round_s: time between two rounds of the tuners.
        change: what changes about each job.
    """

    knobs: dict[str, Any] = field(default_factory=dict)
    tuners: tuple[Tuner, ...] = ()
    round_s: float = 60.0
    change: Change = Change()

    @property
    def together(self) -> int:
        """Return the jobs that a device may serve at a time (`Effects.share_limit`)."""
        return self.change.together

    def apply(self, knobs: Knobs) -> Knobs:
        """Return a cluster's knobs with those of the pathway."""
        return replace(knobs, **self.knobs)


def settings(pathway: Pathway) -> Setting:
    """Return the settings of a pathway."""
    return SETTINGS[pathway]


ALONE = (JobClass.MEMORY_BOUND, JobClass.LATENCY_SENSITIVE, JobClass.BANDWIDTH_LIMITED)
"""Classes whose jobs never share a device, whichever pathway leads: `Change.together` is 1."""

SETTINGS: dict[Pathway, Setting] = {
    # Neither of two jobs fills the device; the limit holds over the running time of each.
    Pathway.SPATIAL: Setting(
        tuners=(Share(limit=0.2, stay_s=3600.0, round_s=120.0, alone=ALONE),),
        round_s=120.0,
        change=Change(together=2),
    ),
    # The job with least device time goes first; one that waited long is promoted.
    Pathway.TEMPORAL: Setting(
        knobs={
            "order": Order.ATTAINED,
            "backfill": Backfill.SKIP,
            "preempt": Preempt.ROUNDS,
            "round_s": 300.0,
            "margin_s": 1e9,
            "attained_s": 1800.0,
            "attained2_s": 14_400.0,
            "promote": 8.0,
        }
    ),
    # A level of priority outweighs any wait, and only such a level preempts a job.
    Pathway.PRIORITY: Setting(
        knobs={
            "backfill": Backfill.SKIP,
            "preempt": Preempt.ROUNDS,
            "round_s": 10.0,
            "margin_s": 1e9,
        },
        change=Change(priority=1.0),
    ),
    # A gang waits for an empty node rather than gather devices, and nodes are cleared for it.
    Pathway.PIPELINE: Setting(
        knobs={"span": Span.WHOLE}, tuners=(Balance(),), change=Change(chunks=8)
    ),
    # Few jobs: they grow. Many: they shrink, share, and make room for gangs.
    Pathway.HYBRID: Setting(
        tuners=(Elastic(), Share(alone=ALONE), Balance()),
        round_s=180.0,
        change=Change(resizable=True, together=2),
    ),
}


def choose(kinds: Ints, overrides: Sequence[str | None] | None = None) -> Ints:
    """Return the pathway of each job, by its class or its override."""
    asked = overrides if overrides is not None else [None] * len(kinds)
    pairs = zip(kinds.tolist(), asked, strict=True)
    return np.array([pathway_of(kind, override) for kind, override in pairs], np.int64)


def leading(pathways: Ints, device_time: Floats) -> Pathway:
    """Return the pathway whose knobs and tuners the cluster uses: that with most device time.

    Without a majority it is the hybrid pathway.
    """
    total = np.bincount(pathways, device_time, minlength=len(Pathway))
    first = int(total.argmax())
    return Pathway(first) if total[first] > MAJORITY * total.sum() else Pathway.HYBRID


def prepare(workload: Workload, pathways: Ints, changes: Mapping[Pathway, Change]) -> Workload:
    """Return the workload with each job changed by its pathway; see also `pipelined`."""
    listed = [changes.get(pathway, Change()) for pathway in Pathway]
    priority = np.array([change.priority for change in listed])[pathways]
    rigid = ~np.array([change.resizable for change in listed])[pathways] | (workload.most != 0)
    return replace(
        workload,
        priority=workload.priority + priority,
        most=np.where(rigid, workload.most, USUAL_RANGE),
    )


# Pipelines ------------------------------------------------------------------------------

FETCH_CORES_MILLI = 1000
"""Host cores used while data is fetched, in thousandths."""


def fetched_first(transfer: float, chunks: int) -> float:
    """Return the part of a job's data that must be fetched before it starts so it never waits.

    Data is fetched as fast as before: `transfer` of the time the job took when it first fetched
    and then computed. Fetching during the rest, `1 - transfer`, must keep up with computing.
    """
    if transfer <= 0.0:
        return 0.0
    return max(1.0 / chunks, (2.0 * transfer - 1.0) / transfer)


def pipelined(
    workload: Workload, pathways: Ints, transfer: Floats, changes: Mapping[Pathway, Change]
) -> tuple[Workload, Ints]:
    """Return the workload with separate transfer jobs, where the pathway has chunks.

    A job that fetches its data and then computes becomes three: the first chunks are fetched to a
    host, without devices; then the gang computes while the rest is fetched. Contention on the
    network is not modelled: a transfer takes as long as it did inside the job.

    Args:
        workload: jobs that hold their devices while they fetch.
        pathways: the pathway of each job.
        transfer: the part of each job's time that is transfer.
        changes: the change of each pathway; missing ones change nothing.

    Returns:
        The workload, and the row in it of each job's computation, whose end is the job's.
    """
    size = len(workload)
    chunks = np.array([changes.get(pathway, Change()).chunks for pathway in Pathway])[pathways]
    staged = np.flatnonzero((chunks > 0) & (transfer > 0.0) & (workload.devices > 0))
    first = np.array([fetched_first(float(transfer[j]), int(chunks[j])) for j in staged])
    parts = np.concatenate((np.ones(size), transfer[staged] * first, transfer[staged]))
    parts[staged] -= transfer[staged]
    parts[size + len(staged) :] *= 1.0 - first
    expanded = _rows(workload, np.concatenate((np.arange(size), staged, staged)), size, parts)
    fetch = np.full(size, -1, np.int64)
    fetch[staged] = size + np.arange(len(staged))
    entry = np.where(fetch >= 0, fetch, np.arange(size))  # the part that waits for the predecessors
    expanded = replace(
        expanded,
        after_job=np.concatenate((entry[workload.after_job], staged, fetch[staged] + len(staged))),
        after_on=np.concatenate((workload.after_on, fetch[staged], fetch[staged])),
    )
    order = np.argsort(expanded.submit_us, kind="stable")
    place = np.argsort(order, kind="stable")
    return expanded.take(order), place[:size]


def _rows(workload: Workload, source: Ints, size: int, parts: Floats) -> Workload:
    """Return the rows of `source`, each with a part of the time; from `size` on transfers."""
    columns: dict[str, Any] = {name: getattr(workload, name)[source] for name in COLUMNS}
    columns["duration_us"] = columns["duration_us"] * parts
    columns["estimate_us"] = columns["estimate_us"] * parts
    if workload.quantiles_us is not None:
        columns["quantiles_us"] = workload.quantiles_us[source] * parts[:, None]
    count = (len(source) - size) // 2
    names = [f"{job_id}.fetch" for job_id in columns["ids"][size : size + count]]
    names += [f"{job_id}.rest" for job_id in columns["ids"][size + count :]]
    columns["ids"] = np.array([*columns["ids"][:size], *names])
    for name, value in TRANSFER.items():
        columns[name][size:] = value
    return replace(workload, **columns)


TRANSFER = {
    "devices": 0,
    "milli": MILLI_PER_DEVICE,
    "memory_mib": 0,
    "model": NOT_STATED,
    "limit_us": 0,
    "group": NOT_STATED,
    "cpu_milli": FETCH_CORES_MILLI,
    "host_mib": 0,
    "least": 0,
    "most": 0,
}
"""Columns in which a transfer differs from its job, and their values."""
