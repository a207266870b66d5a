"""ElasticFlow's traces: jobs that train for a number of iterations. See `docs/reference/traces.md`.

The run time is the number of iterations over the speed ElasticFlow measured for the model
and batch size on this many GPUs; the measurement also gives the type of GPU. Deadlines are
not read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput, UnknownName, at
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.physics import step_time
from flyball.physics.measured import ELASTICFLOW_TYPES, Iterations, ModelKey, elasticflow
from flyball.twin.inputs.traces.links import check_ids
from flyball.twin.inputs.traces.table import MAX_DEVICES, Field, Table, read_table

FIELDS = (
    Field("job_id", "text", required=True),
    Field("submit_time", required=True, remedy="seconds from any fixed start, 0 to 1e11"),
    Field("iteration", required=True, high=1e15, remedy="the number of iterations, 0 or more"),
    Field("model_name", "name", required=True),
    Field("batch_size", "whole", required=True, low=1, remedy="samples in one step of all GPUs"),
    Field(
        "num_gpu",
        "whole",
        required=True,
        low=1,
        high=MAX_DEVICES,
        remedy="the number of GPUs, 1 or more",
    ),
    Field("duration", remedy="seconds, or empty"),
)
DEVICES = tuple(ELASTICFLOW_TYPES.values())
TOLERANCE = 0.01
"""Largest relative difference between stated and measured durations that counts as rounding."""

Key = tuple[str, int]  # model and batch size


def read(path: Path, notes: list[str]) -> Workload:
    """Read a trace; durations that contradict the iterations are counted in `notes`."""
    table = read_table(path, FIELDS)
    check_ids(table, "job_id")
    got = table.columns
    keys = _keys(table)
    models = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    return Workload.of(
        path.name,
        got["submit_time"],
        0.0,
        got["num_gpu"].astype(np.int64),
        ids=got["job_id"],
        duration_us=np.rint(_durations_s(table, keys, notes) * US_PER_S),
        model=[models[key] for key in keys],
        models=tuple(_named(*key) for key in models),
        device=[DEVICES.index(elasticflow()[key].device) for key in keys],
        device_names=DEVICES,
        row=table.rows,
    )


def _keys(table: Table) -> list[Key]:
    """Return model and batch size of each job; every pair must have been measured."""
    measured = elasticflow()
    names = table.names["model_name"]
    keys = [
        (names[code], int(batch))
        for code, batch in zip(
            table.columns["model_name"].tolist(), table.columns["batch_size"].tolist(), strict=True
        )
    ]
    for i, (name, batch) in enumerate(keys):
        if (name, batch) in measured:
            continue
        batches = [str(size) for model, size in measured if model == name]
        if not batches:
            where = at(table.file, int(table.rows[i]))
            raise UnknownName(f"model in {where}", name, {model for model, _ in measured})
        why = f"was not measured for {name}"
        raise table.fault(i, "batch_size", batch, why, f"measured: {', '.join(batches)}")
    return keys


def _durations_s(table: Table, keys: list[Key], notes: list[str]) -> npt.NDArray[np.float64]:
    """Return run times from iterations at the measured speed, else as stated in the trace.

    The stated one counts only for a number of GPUs that was not measured.
    """
    not_stated = np.full(len(table), np.nan)
    iterations, stated = table.columns["iteration"], table.columns.get("duration", not_stated)
    durations = np.empty(len(table))
    differ = []
    for i, key in enumerate(keys):
        measured, devices = elasticflow()[key], int(table.columns["num_gpu"][i])
        if devices in measured.per_s:
            durations[i] = iterations[i] / measured.per_s[devices]
            if abs(stated[i] - durations[i]) > TOLERANCE * durations[i] + 1.0:
                differ.append(i)
        elif np.isnan(stated[i]):
            raise _unmeasured(table, i, key, measured)
        else:
            durations[i] = stated[i]
    if differ:
        first = differ[0]
        notes.append(
            f"{table.file.name}: {len(differ)} rows state another duration than their iterations "
            f"take (row {table.rows[first]}: {stated[first]:g} s, here {durations[first]:.0f} s)"
        )
    return durations


def _unmeasured(table: Table, index: int, key: Key, measured: Iterations) -> BadInput:
    counts = ", ".join(map(str, sorted(measured.per_s)))
    why = f"but {_named(*key)} was measured on {counts} {measured.device} and no duration is given"
    devices = int(table.columns["num_gpu"][index])
    return table.fault(index, "num_gpu", devices, why, "add a `duration` or change it")


def _named(model: str, batch: int) -> str:
    """Return the name of the job's model.

    ElasticFlow's T4 figures are of Pollux's applications and keep their names; a model on A100s
    with the same name as one of them is another task.
    """
    same = elasticflow()[model, batch].device == "T4"
    clash = not same and model in step_time.applications()
    return ModelKey(f"elasticflow-{model}" if clash else model, batch).text
