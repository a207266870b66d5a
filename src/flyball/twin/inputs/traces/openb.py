"""Pods of Alibaba's GPU cluster trace of 2023 ("openb"): shares of GPUs, host cores and memory.

Copies of the file differ only in the name of the first column (`name` or `pod`).
`flyball.twin.inputs.node_list` reads the nodes of the same trace.

Pods without a GPU are kept, as jobs for the host alone: the published experiments place them on
the GPU nodes, and the cores they take there strand GPUs. Without them the published figures of
stranded GPUs cannot be reproduced (see `flyball bench placement`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Outcome
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import Floats, Ints, Workload
from flyball.twin.inputs.traces.job_rows import recorded_us
from flyball.twin.inputs.traces.links import check_ids
from flyball.twin.inputs.traces.table import Field, Table, read_header, read_table

Bools = npt.NDArray[np.bool_]
IDS = ("name", "pod")
MAX_HOST_MIB = 2**31
FIELDS = (
    Field("creation_time", required=True, remedy="seconds from the start of the trace"),
    Field("scheduled_time", remedy="seconds, or empty if it was never scheduled"),
    Field("deletion_time", remedy="seconds, or empty if it was not deleted"),
    Field("cpu_milli", "whole", required=True, high=1e9, remedy="thousandths of cores"),
    Field("memory_mib", "whole", high=MAX_HOST_MIB, empty=0, remedy="MiB of host memory"),
    Field("num_gpu", "whole", required=True, high=64, remedy="GPUs, 0 to 64"),
    Field(
        "gpu_milli",
        "whole",
        required=True,
        high=MILLI_PER_DEVICE,
        remedy="thousandths of each GPU, 0 to 1000",
    ),
    Field("gpu_spec", "name"),
    Field("qos", "name"),
    Field("pod_phase", "name"),
)
BEST_EFFORT = "BE"
OUTCOMES = {"Failed": Outcome.FAILED, "Pending": Outcome.CANCELLED}


def read(path: Path, notes: list[str]) -> Workload:
    """Read the pods; the run time is from scheduling to deletion.

    A pod that was never scheduled is kept as cancelled; its run time is the time from creation to
    deletion.
    """
    ids = _id_column(path)
    table = read_table(path, (Field(ids, "text", required=True), *FIELDS))
    check_ids(table, ids)
    got = table.columns
    devices = got["num_gpu"].astype(np.int64)
    _check(table, devices)
    created, deleted = got["creation_time"], _times(table, "deletion_time")
    began = _times(table, "scheduled_time")
    never_scheduled = np.isnan(began)
    until = np.where(np.isnan(deleted), np.nanmax(np.append(deleted, created.max())), deleted)
    duration_s = until - np.where(never_scheduled, created, began)
    if (duration_s < 0).any():
        first = int(np.argmax(duration_s < 0))
        why = "is before the pod was scheduled or created"
        raise table.fault(first, "deletion_time", deleted[first], why, "correct or drop the row")
    _add_notes(table, notes, never_scheduled, np.isnan(deleted), devices == 0)
    return Workload.of(
        path.name,
        created,
        duration_s,
        devices,
        ids=got[ids],
        duration_us=np.rint(duration_s * US_PER_S),
        milli=np.where(devices > 0, got["gpu_milli"], MILLI_PER_DEVICE).astype(np.int64),
        cpu_milli=got["cpu_milli"].astype(np.int64),
        host_mib=got.get("memory_mib", np.zeros(len(table))).astype(np.int64),
        priority=_priorities(table),
        outcome=_outcomes(table, never_scheduled),
        row=table.rows,
        start_us=recorded_us(began),
        end_us=recorded_us(np.where(never_scheduled, np.nan, deleted)),
    )


def _id_column(path: Path) -> str:
    """Return the name that the first column has in this copy."""
    names = read_header(path)
    return next((name for name in IDS if name in names), IDS[0])


def _times(table: Table, column: str) -> Floats:
    return table.columns.get(column, np.full(len(table), np.nan))


def _check(table: Table, devices: Ints) -> None:
    """Refuse a pod that asks for nothing, or for GPUs but no part of each."""
    milli, cpu_milli = table.columns["gpu_milli"], table.columns["cpu_milli"]
    memory = table.columns.get("memory_mib", np.zeros(len(table)))
    no_share = (devices > 0) & (milli == 0)
    if no_share.any():
        why = "of each GPU, and num_gpu is not 0"
        raise table.fault(int(np.argmax(no_share)), "gpu_milli", 0, why, "use 1 to 1000")
    asks_nothing = (devices == 0) & (cpu_milli == 0) & (memory == 0)
    if asks_nothing.any():
        first = int(np.argmax(asks_nothing))
        raise table.fault(first, "num_gpu", 0, "asks for nothing", "drop the row")


def _priorities(table: Table) -> Floats:
    """Return 0 for best effort, 1 for every other class of service, 0 if none is stated."""
    if "qos" not in table.columns:
        return np.zeros(len(table))
    high = [float(name != BEST_EFFORT) for name in table.names["qos"]]
    return np.array([*high, 0.0]).take(table.columns["qos"])  # code -1 picks the last one


def _outcomes(table: Table, never_scheduled: Bools) -> Ints:
    outcome = np.full(len(table), int(Outcome.COMPLETED))
    if "pod_phase" in table.columns:
        names = [*table.names["pod_phase"], ""]
        meanings = np.array([int(OUTCOMES.get(name, Outcome.COMPLETED)) for name in names])
        outcome = meanings.take(table.columns["pod_phase"])
    return np.where(never_scheduled, int(Outcome.CANCELLED), outcome)


def _add_notes(
    table: Table,
    notes: list[str],
    never_scheduled: Bools,
    open_ended: Bools,
    host_only: Bools,
) -> None:
    """Add notes on how unusual pods were read."""
    if never_scheduled.any():
        notes.append(
            f"{never_scheduled.sum():,} pods were never scheduled: kept as cancelled, with "
            "the time they were there as run time"
        )
    if open_ended.any():
        notes.append(f"{open_ended.sum():,} pods have no deletion: they end with the trace")
    if host_only.any():
        notes.append(f"{host_only.sum():,} pods ask for no GPU: kept as jobs for the host alone")
    named = int((table.columns["gpu_spec"] >= 0).sum()) if "gpu_spec" in table.columns else 0
    if named:
        notes.append(f"{named:,} pods name GPU models (gpu_spec): ignored")
