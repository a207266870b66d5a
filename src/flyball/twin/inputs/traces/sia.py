"""Workloads of Pollux and Sia: jobs that train an application to its target.

They name an application, its batch size and a number of GPUs, but no run time. The run time
follows from the steps the training takes at this batch size and the time of a step on
T4s, both in `flyball.physics.step_time`. `docs/reference/traces.md` has the rule.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput, UnknownName, at
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.physics import catalogue
from flyball.physics.measured import ModelKey
from flyball.physics.step_time import Application, applications, step_time_s
from flyball.twin.inputs.traces.links import check_ids
from flyball.twin.inputs.traces.table import MAX_DEVICES, Field, Table, read_header, read_table

BASE = "T4"
"""Device type that Pollux profiled, and that the run times are for."""

JOB_FIELDS = (
    Field("name", "text"),
    Field("application", "name", required=True),
    Field(
        "num_replicas",
        "whole",
        required=True,
        low=1,
        high=MAX_DEVICES,
        remedy="the number of GPUs, 1 or more",
    ),
    Field("batch_size", "whole", required=True, low=1, remedy="samples in one step of all GPUs"),
)
FAMILY = Field("family", "name", required=True)
WORKLOAD = Field("workload", "name", required=True)


def read(path: Path, notes: list[str], part: str = "") -> Workload:
    """Read a file of one workload, or one part of a file of several.

    A part is `family/workload`, or `workload` alone where the file has no families.
    """
    header = read_header(path)
    submit = "submit_s" if "submit_s" in header else "time"
    remedy = "seconds from any fixed start, 0 to 1e11"
    fields = (Field(submit, required=True, remedy=remedy), *JOB_FIELDS)
    in_parts = "workload" in header
    part_fields = (FAMILY, WORKLOAD) if "family" in header else (WORKLOAD,)
    table = read_table(path, (*fields, *part_fields) if in_parts else fields)
    if in_parts:
        table = _select_part(table, part)
    elif part:
        raise BadInput(f"{path} is one workload and has no part {part!r}", f"leave out #{part}")
    columns: dict[str, Any] = {}
    if "name" in table.columns:
        check_ids(table, "name")
        columns["ids"] = table.columns["name"]
    keys, which = _keys(table)
    return Workload.of(
        f"{path.name}#{part}" if part else path.name,
        table.columns[submit],
        0.0,
        table.columns["num_replicas"].astype(np.int64),
        duration_us=np.array([_duration_us(table, *key) for key in keys])[which],
        model=np.arange(len(keys))[which],
        models=tuple(ModelKey(table.names["application"][a], m).text for _, a, _, m in keys),
        device=0,
        device_names=(BASE,),
        row=table.rows,
        **columns,
    )


def _select_part(table: Table, part: str) -> Table:
    """Return the rows of one workload."""
    columns = [name for name in (FAMILY.name, WORKLOAD.name) if name in table.columns]
    codes = np.stack([table.columns[name] for name in columns], axis=1)
    parts = {
        "/".join(table.names[name][code] for name, code in zip(columns, row, strict=True)): row
        for row in sorted(set(map(tuple, codes.tolist())))
    }
    if not part:
        first = next(iter(parts))
        raise BadInput(
            f"{table.file} holds {len(parts)} workloads",
            f"name one, e.g. {table.file.name}#{first}; it has {', '.join(parts)}",
        )
    if part not in parts:
        raise UnknownName(f"workload of {table.file}", part, parts)
    return table.where((codes == parts[part]).all(axis=1))


Key = tuple[int, int, int, int]  # first row of its kind, application, devices, batch size


def _keys(table: Table) -> tuple[list[Key], npt.NDArray[np.int64]]:
    """Return the kinds of job (application, devices, batch size), and the kind of each job."""
    got = table.columns
    jobs = np.stack([got["application"], got["num_replicas"], got["batch_size"]], axis=1)
    kinds, first, which = np.unique(
        jobs.astype(np.int64), axis=0, return_index=True, return_inverse=True
    )
    keys = [
        (row, application, devices, batch)
        for row, (application, devices, batch) in zip(first.tolist(), kinds.tolist(), strict=True)
    ]
    return keys, which.reshape(-1)


def _duration_us(table: Table, row: int, code: int, devices: int, batch: int) -> float:
    """Return the run time of one kind of job on the base device, in whole microseconds."""
    application = _application(table, row, table.names["application"][code])
    if not application.first_batch <= batch <= application.largest_batch:
        why = f"is outside {application.first_batch} to {application.largest_batch}"
        remedy = f"the batch sizes that {application.name} was trained with to its target"
        raise table.fault(row, "batch_size", batch, why, remedy)
    across = devices > catalogue.get(BASE).node_devices
    step_s = step_time_s(application.name, BASE, devices, across, batch / devices)
    if step_s is None:
        why = f"but {application.name} was measured on one {BASE} only"
        raise table.fault(row, "num_replicas", devices, why, "set it to 1 or leave the job out")
    return float(np.rint(application.steps_to_target(batch) * step_s * US_PER_S))


def _application(table: Table, row: int, name: str) -> Application:
    by_name = applications()
    if name not in by_name:
        where = at(table.file, int(table.rows[row]))
        raise UnknownName(f"application in {where}", name, by_name)
    return by_name[name]
