"""A workload: jobs as columns, in order of submission. Every trace reader returns one.

Columns are arrays of one length. Names (models, tenants, ...) are coded: the column
holds indices into a list of names, -1 for "not stated".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import CLASS_LABELS as CLASS_LABELS
from flyball.core.codes import JobClass as JobClass
from flyball.core.codes import Outcome
from flyball.core.grouping import group_rows
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S, duration_text

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


NOT_STATED = -1


@dataclass(frozen=True)
class Mix:
    """Kinds of jobs that a cluster usually runs, and how many there are of each.

    Attributes:
        devices, milli, cpu_milli, host_mib: what a job of the kind asks for, as in `Workload`.
        count: jobs of the kind.
    """

    devices: Ints
    milli: Ints
    cpu_milli: Ints
    host_mib: Ints
    count: Ints

    def __repr__(self) -> str:
        return f"Mix({len(self.count)} kinds of {int(self.count.sum()):,} jobs)"

    @classmethod
    def of(cls, workload: Workload) -> Mix:
        """Return the mix of a workload's jobs."""
        asked = [getattr(workload, name) for name in ASKED]
        groups = group_rows(*asked)
        counts = np.bincount(groups.of_row).astype(np.int64)
        devices, milli, cpu_milli, host_mib = (column[groups.first] for column in asked)
        return cls(devices, milli, cpu_milli, host_mib, counts)


ASKED = ("devices", "milli", "cpu_milli", "host_mib")


@dataclass(frozen=True)
class Workload:
    """Jobs, by column. Build one with `Workload.of`, which fills in defaults.

    Attributes:
        name: where it came from, for people.
        ids: unique names of the jobs.
        submit_us: submission, not decreasing.
        duration_us: true run time on `device` at `devices`; where no device is named, on the
            reference device. `twin/inputs/recorded_on.py` sets the device of traces that name none.
        devices: gang size; 0 = a job for the host alone.
        milli: thousandths of each device, 1..1000.
        memory_mib: memory needed on each device, 0 = not stated.
        model: code in `models`.
        kind: a `JobClass`, -1 = to be classified.
        device: code in `device_names`: where `duration_us` was measured.
        tenant, user: codes in `tenants`, `users`.
        priority: higher goes first.
        estimate_us: run time as estimated by the user; NaN = not stated.
        limit_us: kill an attempt after this long, 0 = never.
        group: job array with a limit on tasks at a time: index in `group_limits`, -1 = none.
        outcome: how it ends (an `Outcome`).
        row: the row of the file it came from (the header is row 1), -1 = none.
        cpu_milli: thousandths of host cores for the whole gang, 0 = not stated.
        host_mib: host memory for the whole gang, 0 = not stated.
        least, most: devices between which it may be resized, 0 = it may not.
        start_us, end_us: its first start and its end on the recorded cluster, -1 = not known. Not
            an input of a run, only for comparison with it.
        pools: the cluster's groups of nodes that it may run on, a bit each; 0 = any.
        after_job, after_on: pairs: job index `after_job[i]` waits for the end of job `after_on[i]`.
        mix: the jobs that the cluster usually runs; None = those of this workload.
        quantiles_us: predicted run times at the levels of `predict.runtime.trees`, a row per job;
            NaN where there is no prediction; None = there is none at all.
        origin_us: calendar instant (since 1970, UTC) of its time 0; None = it has no dates, and
            time 0 is midnight of some Monday.
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
    pools: Ints
    models: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    group_limits: tuple[int, ...] = ()
    after_job: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    after_on: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    mix: Mix | None = None
    quantiles_us: Floats | None = None
    origin_us: int | None = None

    def __repr__(self) -> str:
        if not len(self):
            return f"Workload({self.name!r}: no jobs)"
        sizes = f"{int(self.devices.min()):,} to {int(self.devices.max()):,} devices"
        parts = [f"{len(self):,} jobs over {duration_text(self.span_us / US_PER_S)}", sizes]
        counted = {"model": self.models, "tenant": self.tenants, "user": self.users}
        for noun, names in counted.items():
            if names:
                parts.append(f"{len(names):,} {noun}{'' if len(names) == 1 else 's'}")
        return f"Workload({self.name!r}: {', '.join(parts)})"

    def __len__(self) -> int:
        return len(self.submit_us)

    @property
    def span_us(self) -> int:
        """The time from the first submission to the last."""
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
        """Return a workload from a few columns in seconds; the other columns take their defaults.

        Rows are sorted by submission (stable). `columns` are further fields of the class,
        in the units of their names; a scalar stands for the same value in every row.
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
            "pools": 0,
            "outcome": int(Outcome.COMPLETED),
        }
        stated = {
            "submit_us": np.rint(submit * US_PER_S).astype(np.int64),
            "duration_us": np.asarray(duration_s, np.float64) * US_PER_S,
            "devices": devices,
            **columns,
        }
        filled: dict[str, Any] = {}
        for column, dtype in COLUMNS.items():
            value = stated.pop(column, defaults.get(column, NOT_STATED))
            filled[column] = np.array(np.broadcast_to(np.asarray(value, dtype), size))
        workload = cls(name=name, **filled, **stated)
        in_order = np.argsort(workload.submit_us, kind="stable")
        return workload.take(in_order)

    def take(self, rows: npt.NDArray[np.int64]) -> Workload:
        """Return these rows in this order; dependencies on jobs left out are dropped."""
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
        if self.quantiles_us is not None:
            columns["quantiles_us"] = self.quantiles_us[rows]
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
    "pools": np.int64,
}
"""Type of each per-job column."""
