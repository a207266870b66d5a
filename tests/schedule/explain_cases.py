"""Situations in which a job waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flyball.core import records as dtypes
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Knobs
from flyball.core.records import records
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.schedule.explain import (
    Explanation,
    Names,
    explain,
)
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

TOKENS = {
    "waits-for-jobs", "array-limit", "behind-head", "beyond-depth", "next-decision",
    "would-delay-head", "power-budget", "held-for-faster", "nodes-down", "fragmented",
    "no-suitable-devices", "no-free-devices", "host-full", "waits-for-round",
    "not-far-enough-ahead", "tenant-limit", "after-others", "beyond-quota",
    "nothing-to-take-back",
}  # fmt: skip
STRICT = Knobs(backfill=Backfill.STRICT)
SKIP = Knobs(backfill=Backfill.SKIP)
EASY = Knobs(backfill=Backfill.EASY)
SRTF = get_policy("srtf").knobs
GIB = 1024


def nodes(count: int, devices: int, device: str = "V100", name: str = "a") -> NodeGroup:
    return NodeGroup(name, count, device, devices)


def jobs(*rows: tuple[float, float, int], **columns: Any) -> Workload:
    """Rows of (submission, duration, devices); jobs are called j0, j1, ..."""
    submit_s, duration_s, devices = zip(*rows, strict=True)
    return Workload.of("jobs", submit_s, duration_s, devices, **columns)


def with_job(workload: Workload, job: int, **changes: Any) -> Workload:
    """The workload with one job's request changed."""
    columns = {}
    for name, value in changes.items():
        column = getattr(workload, name).copy()
        column[job] = value
        columns[name] = column
    return replace(workload, **columns)


class Case:
    """A cluster, a workload and knobs, stopped at an instant."""

    def __init__(
        self,
        groups: list[NodeGroup],
        workload: Workload,
        knobs: Knobs,
        at_s: float = 0.0,
        budget_w: float = 0.0,
        outages: tuple[tuple[float, float, int], ...] = (),
    ) -> None:
        self.arguments = (groups, workload, knobs, at_s, budget_w, outages)
        cluster = Cluster("c", tuple(groups), budget_w)
        self.twin = Twin(cluster, workload, knobs)
        if outages:
            listed: Any = records(len(outages), dtypes.OUTAGE)
            for row, (down_s, up_s, node) in zip(listed, outages, strict=True):
                row.down_us, row.up_us, row.node = to_us(down_s), to_us(up_s), node
            self.twin.state = self.twin.state._replace(outages=listed)
        self.twin.run(to_us(at_s))
        self.names = Names.of(workload.ids.tolist(), groups)

    def why(self, job: int) -> Explanation:
        answer = explain(self.twin.state, self.twin.knobs, job, self.names)
        assert answer.job == job
        assert answer.sentence.endswith(".")
        assert answer.remedy.endswith(".")
        return answer

    def runs(self, job: int) -> bool:
        return bool(self.twin.state.runs[job].status == Status.RUNNING)

    def changed(self, **changes: Any) -> Case:
        """The same with another workload, other knobs or another instant."""
        names = ("groups", "workload", "knobs", "at_s", "budget_w", "outages")
        return Case(**{**dict(zip(names, self.arguments, strict=True)), **changes})

    def with_job(self, job: int, **changes: Any) -> Case:
        return self.changed(workload=with_job(self.arguments[1], job, **changes))

    def with_knobs(self, **changes: Any) -> Case:
        return self.changed(knobs=replace(self.arguments[2], **changes))
