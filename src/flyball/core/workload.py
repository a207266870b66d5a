"""A workload: jobs as columns, in order of submission. What every trace reader makes.

Columns are arrays of one length. Names (models, tenants, ...) are coded: the column
holds indices into a list of names, -1 for "not stated".
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Outcome
from flyball.core.grouping import group_rows
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class JobClass(IntEnum):
    """The five workload classes."""

    COMPUTE_INTENSIVE = 0
    MEMORY_BOUND = 1
    LATENCY_SENSITIVE = 2
    BANDWIDTH_LIMITED = 3
    MIXED = 4

    @property
    def label(self) -> str:
        """As users write it: `compute-intensive`."""
        return self.name.lower().replace("_", "-")


CLASS_LABELS = tuple(each.label for each in JobClass)
NOT_STATED = -1


@dataclass(frozen=True)
class Mix:
    """Kinds of jobs, and how many there are of each: what a cluster usually sees.

    Attributes:
        devices, milli, cpu_milli, host_mib: what a job of the kind asks for, as in `Workload`.
        count: jobs of the kind.
    """

    devices: Ints
    milli: Ints
    cpu_milli: Ints
    host_mib: Ints
    count: Ints

    @classmethod
    def of(cls, workload: Workload) -> Mix:
        """The mix of a workload's jobs."""
        asked = [getattr(workload, name) for name in ASKED]
        groups = group_rows(*asked)
        counts = np.bincount(groups.of_row).astype(np.int64)
        devices, milli, cpu_milli, host_mib = (column[groups.first] for column in asked)
        return cls(devices, milli, cpu_milli, host_mib, counts)


ASKED = ("devices", "milli", "cpu_milli", "host_mib")


@dataclass(frozen=True)
class Workload:
    """Jobs, by column. Build one with `Workload.of`, which fills what is not given.

    Attributes:
        name: where it came from, for people.
        ids: the jobs' own names, unique.
        submit_us: submission, not decreasing.
        duration_us: true run time on `device` at `devices`; where none is named, on the reference
            device. Traces are given one when they meet a cluster (`twin/inputs/recorded_on.py`).
        devices: gang size; 0 = a job for the host alone.
        milli: thousandths of each device, 1..1000.
        memory_mib: memory needed on each device, 0 = not stated.
        model: code in `models`.
        kind: a `JobClass`, -1 = to be classified.
        device: code in `device_names`: where `duration_us` was measured.
        tenant, user: codes in `tenants`, `users`.
        priority: higher goes first.
        estimate_us: what the user said it would take; NaN = nothing.
        limit_us: kill an attempt after this long, 0 = never.
        group: job array with a limit on tasks at a time: index in `group_limits`, -1 = none.
        outcome: how it ends (an `Outcome`).
        row: the row of the file it came from (the header is row 1), -1 = none.
        cpu_milli: thousandths of host cores for the whole gang, 0 = not stated.
        host_mib: host memory for the whole gang, 0 = not stated.
        least, most: devices between which it may be resized, 0 = it may not.
        start_us, end_us: when it first started and ended where it was recorded, -1 = not known.
            No part of a run; what really happened, to compare runs with.
        after_job, after_on: pairs: job index `after_job[i]` waits for the end of job `after_on[i]`.
        mix: the jobs that the cluster usually sees; None = these.
    """

    name: str
    ids: npt.NDArray[np.str_]
    submit_us: Ints
    duration_us: Floats
    devices: Ints
    milli: Ints
    memory_mib: Ints
    model: Ints
    kind: Ints
    device: Ints
    tenant: Ints
    user: Ints
    priority: Floats
    estimate_us: Floats
    limit_us: Ints
    group: Ints
    outcome: Ints
    row: Ints
    cpu_milli: Ints
    host_mib: Ints
    least: Ints
    most: Ints
    start_us: Ints
    end_us: Ints
    models: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    group_limits: tuple[int, ...] = ()
    after_job: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    after_on: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    mix: Mix | None = None

    def __len__(self) -> int:
        return len(self.submit_us)

    @property
    def span_us(self) -> int:
        """From the first submission to the last."""
        return int(self.submit_us[-1] - self.submit_us[0]) if len(self) else 0

    @classmethod
    def of(
        cls,
        name: str,
        submit_s: npt.ArrayLike,
        duration_s: npt.ArrayLike,
        devices: npt.ArrayLike = 1,
        **columns: Any,
    ) -> Workload:
        """A workload from a few columns in seconds; the rest takes its default.

        Rows are sorted by submission (stable). `columns` are further fields of the class,
        in its own units; a scalar stands for the same value in every row.
        """
        submit = np.atleast_1d(np.asarray(submit_s, np.float64))
        size = len(submit)
        defaults: dict[str, Any] = {
            "ids": np.array([f"j{i}" for i in range(size)]),
            "milli": MILLI_PER_DEVICE,
            "memory_mib": 0,
            "priority": 0.0,
            "estimate_us": np.nan,
            "limit_us": 0,
            "cpu_milli": 0,
            "host_mib": 0,
            "least": 0,
            "most": 0,
            "outcome": int(Outcome.COMPLETED),
        }
        given = {
            "submit_us": np.rint(submit * US_PER_S).astype(np.int64),
            "duration_us": np.asarray(duration_s, np.float64) * US_PER_S,
            "devices": devices,
            **columns,
        }
        made: dict[str, Any] = {}
        for each in fields(cls):
            if each.name in COLUMNS:
                value = given.pop(each.name, defaults.get(each.name, NOT_STATED))
                kind = COLUMNS[each.name]
                made[each.name] = np.array(np.broadcast_to(np.asarray(value, kind), size))
        workload = cls(name=name, **made, **given)
        in_order = np.argsort(workload.submit_us, kind="stable")
        return workload.take(in_order)

    def take(self, rows: npt.NDArray[np.int64]) -> Workload:
        """These rows in this order; waits on jobs left out are dropped."""
        place = np.full(len(self), NOT_STATED, np.int64)
        place[rows] = np.arange(len(rows))
        kept = (
            (place[self.after_job] >= 0) & (place[self.after_on] >= 0)
            if len(self.after_job)
            else np.zeros(0, bool)
        )
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        columns["after_job"] = place[self.after_job[kept]]
        columns["after_on"] = place[self.after_on[kept]]
        return replace(self, **columns)


COLUMNS: dict[str, type[Any] | None] = {
    "ids": np.str_,
    "submit_us": np.int64,
    "duration_us": np.float64,
    "devices": np.int64,
    "milli": np.int64,
    "memory_mib": np.int64,
    "model": np.int64,
    "kind": np.int64,
    "device": np.int64,
    "tenant": np.int64,
    "user": np.int64,
    "priority": np.float64,
    "estimate_us": np.float64,
    "limit_us": np.int64,
    "group": np.int64,
    "outcome": np.int64,
    "row": np.int64,
    "cpu_milli": np.int64,
    "host_mib": np.int64,
    "least": np.int64,
    "most": np.int64,
    "start_us": np.int64,
    "end_us": np.int64,
}
"""The per-job columns and their types."""
