"""The canonical trace: a CSV file with a row per job. See `docs/reference/traces.md`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Outcome
from flyball.core.errors import UnknownName, at
from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import CLASS_LABELS, NOT_STATED, Workload
from flyball.twin.inputs.traces.files import replacing
from flyball.twin.inputs.traces.job_rows import recorded_us
from flyball.twin.inputs.traces.links import check_ids, refuse_separators, resolve
from flyball.twin.inputs.traces.table import MAX_DEVICES, Field, Table, read_table

OUTCOMES = tuple(outcome.name.lower() for outcome in Outcome)
MAX_MEMORY_GIB = 1e6
MAX_LIMIT = 2**31 - 1
MAX_CPU_MILLI = 1e12

FIELDS = (
    Field("job", "text", required=True),
    Field("submit_s", required=True, remedy="seconds from any fixed start, 0 to 1e11"),
    Field("duration_s", required=True, remedy="the run time in seconds, 0 to 1e11"),
    Field(
        "num_gpus",
        "whole",
        required=True,
        high=MAX_DEVICES,
        remedy="the number of devices; 0 only with a demand on the host",
    ),
    Field("model", "name"),
    Field("class", "name"),
    Field("device", "name"),
    Field("tenant", "name"),
    Field("user", "name"),
    Field("memory_gib", high=MAX_MEMORY_GIB, empty=0, remedy="GiB per device, or empty"),
    Field("priority", low=-1e9, high=1e9, empty=0, remedy="a number, or empty for 0"),
    Field("after", "text"),
    Field("estimate_s", remedy="seconds, or empty if not known"),
    Field(
        "gpu_milli",
        "whole",
        low=1,
        high=MILLI_PER_DEVICE,
        empty=MILLI_PER_DEVICE,
        remedy="thousandths of each device, 1 to 1000; empty for whole devices",
    ),
    Field("limit_s", empty=0, remedy="seconds after which it is killed; 0 or empty for never"),
    Field("array", "name"),
    Field(
        "array_limit",
        "whole",
        low=1,
        high=MAX_LIMIT,
        remedy="how many tasks of the array may run at a time, 1 or more",
    ),
    Field("outcome", "name"),
    Field(
        "cpu_milli",
        "whole",
        high=MAX_CPU_MILLI,
        empty=0,
        remedy="thousandths of host cores for all its devices together, or empty",
    ),
    Field("host_gib", high=MAX_MEMORY_GIB, empty=0, remedy="GiB of host memory, or empty"),
    Field("start_s", remedy="seconds at which it really started, or empty if not known"),
    Field("end_s", remedy="seconds at which it really ended, or empty if not known"),
)


def read(path: Path, notes: list[str]) -> Workload:
    """Read a canonical trace. Times are rounded to whole microseconds."""
    table = read_table(path, FIELDS)
    check_ids(table, "job")
    return make(table, table.columns["job"])


def make(table: Table, ids: npt.NDArray[np.str_] | None = None) -> Workload:
    """Return a workload from the columns that a table has, named as in `FIELDS`."""
    got = table.columns
    columns: dict[str, Any] = {} if ids is None else {"ids": ids}
    columns["duration_us"] = _us(got["duration_s"])
    columns["row"] = table.rows
    for source, target, convert in _NUMBERS:
        if source in got:
            columns[target] = convert(got[source])
    for source, target, names in (
        ("model", "model", "models"),
        ("device", "device", "device_names"),
        ("tenant", "tenant", "tenants"),
        ("user", "user", "users"),
    ):
        if source in got:
            columns[target], columns[names] = got[source], table.names[source]
    if "class" in got:
        columns["kind"] = _label_codes(table, "class", CLASS_LABELS, NOT_STATED)
    if "outcome" in got:
        columns["outcome"] = _label_codes(table, "outcome", OUTCOMES, int(Outcome.COMPLETED))
    if "array" in got:
        columns["group"], columns["group_limits"] = _arrays(table)
    if "after" in got:
        columns["after_job"], columns["after_on"] = resolve(table, "job", "after")
    devices = got["num_gpus"].astype(np.int64)
    asks_nothing = devices == 0
    for name in _HOST:
        asks_nothing &= got.get(name, np.zeros(len(table))) == 0
    if asks_nothing.any():
        remedy = "give it a device, or cpu_milli or host_gib"
        raise table.fault(int(np.argmax(asks_nothing)), "num_gpus", 0, "asks for nothing", remedy)
    return Workload.of(table.file.name, got["submit_s"], got["duration_s"], devices, **columns)


def _us(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.rint(seconds * US_PER_S)


_NUMBERS: tuple[tuple[str, str, Callable[[npt.NDArray[np.float64]], npt.NDArray[Any]]], ...] = (
    ("memory_gib", "memory_mib", lambda gib: np.ceil(gib * MIB_PER_GIB).astype(np.int64)),
    ("priority", "priority", lambda value: value),
    ("estimate_s", "estimate_us", _us),
    ("gpu_milli", "milli", lambda milli: milli.astype(np.int64)),
    ("limit_s", "limit_us", lambda seconds: _us(seconds).astype(np.int64)),
    ("cpu_milli", "cpu_milli", lambda milli: milli.astype(np.int64)),
    ("host_gib", "host_mib", lambda gib: np.ceil(gib * MIB_PER_GIB).astype(np.int64)),
    ("start_s", "start_us", recorded_us),
    ("end_s", "end_us", recorded_us),
)
_HOST = ("cpu_milli", "host_gib")


def _label_codes(
    table: Table, column: str, labels: Sequence[str], empty: int
) -> npt.NDArray[np.int64]:
    """Return the codes of a column whose names are fixed."""
    codes = table.columns[column]
    meaning = []
    for code, name in enumerate(table.names[column]):
        if name not in labels:
            row = int(table.rows[int(np.argmax(codes == code))])
            raise UnknownName(f"{column} in {at(table.file, row)}", name, labels)
        meaning.append(labels.index(name))
    meanings = np.array([*meaning, empty], np.int64)
    return meanings.take(codes)  # code -1 picks the last one


def _arrays(table: Table) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Return groups of tasks with a limit; an array without a limit is not a group."""
    codes = table.columns["array"]
    limits = table.columns.get("array_limit", np.full(len(table), np.nan))
    limit_of: dict[int, int] = {}
    for i in np.flatnonzero((codes >= 0) & ~np.isnan(limits)).tolist():
        limit = int(limits[i])
        if limit_of.setdefault(int(codes[i]), limit) != limit:
            name = table.names["array"][codes[i]]
            why = f"but an earlier row of array {name!r} has {limit_of[int(codes[i])]}"
            raise table.fault(i, "array_limit", limit, why, "give one array one limit")
    group_of = {code: group for group, code in enumerate(limit_of)}
    groups = np.array([group_of.get(code, -1) for code in range(len(table.names["array"]))] + [-1])
    return groups[codes], tuple(limit_of.values())


def write(workload: Workload, path: Path) -> None:
    """Write a canonical trace; optional columns without a value are left out."""
    refuse_separators(workload.ids)
    columns = {name: texts for name, texts in _texts(workload).items() if texts is not None}
    with replacing(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _texts(workload: Workload) -> dict[str, list[str] | None]:
    """Return every column as text, None where all rows have the default."""
    w = workload
    limits = w.group_limits
    groups = w.group.tolist()
    return {
        "job": w.ids.tolist(),
        "submit_s": seconds_texts(w.submit_us),
        "duration_s": seconds_texts(w.duration_us),
        "num_gpus": list(map(str, w.devices.tolist())),
        "model": _names(w.model, w.models),
        "class": _names(w.kind, CLASS_LABELS),
        "device": _names(w.device, w.device_names),
        "tenant": _names(w.tenant, w.tenants),
        "user": _names(w.user, w.users),
        "memory_gib": _unless(w.memory_mib, 0, lambda mib: repr(mib / MIB_PER_GIB)),
        "priority": _unless(w.priority, 0, repr),
        "after": _after(w),
        "estimate_s": None if np.isnan(w.estimate_us).all() else seconds_texts(w.estimate_us),
        "gpu_milli": _unless(w.milli, MILLI_PER_DEVICE, str),
        "limit_s": None if not w.limit_us.any() else seconds_texts(w.limit_us),
        "array": [f"a{g}" if g >= 0 else "" for g in groups] if limits else None,
        "array_limit": [str(limits[g]) if g >= 0 else "" for g in groups] if limits else None,
        "outcome": _unless(w.outcome, int(Outcome.COMPLETED), OUTCOMES.__getitem__),
        "cpu_milli": _unless(w.cpu_milli, 0, str),
        "host_gib": _unless(w.host_mib, 0, lambda mib: repr(mib / MIB_PER_GIB)),
        "start_s": _recorded_texts(w.start_us),
        "end_s": _recorded_texts(w.end_us),
    }


def _recorded_texts(microseconds: npt.NDArray[np.int64]) -> list[str] | None:
    """Return recorded instants as seconds, empty where not known."""
    if (microseconds < 0).all():
        return None
    return [decimal_seconds(us) if us >= 0 else "" for us in microseconds.tolist()]


def seconds_texts(microseconds: npt.NDArray[Any]) -> list[str]:
    """Return microseconds as exact decimal seconds (whole microseconds); NaN is empty."""
    return ["" if us != us else decimal_seconds(round(us)) for us in microseconds.tolist()]


def decimal_seconds(us: int) -> str:
    """Return whole microseconds as exact decimal seconds."""
    seconds, rest = divmod(us, US_PER_S)
    return f"{seconds}.{rest:06d}".rstrip("0") if rest else str(seconds)


def _names(codes: npt.NDArray[np.int64], names: Sequence[str]) -> list[str] | None:
    if (codes < 0).all():
        return None
    return [names[code] if code >= 0 else "" for code in codes.tolist()]


def _unless(
    values: npt.NDArray[Any], default: float, text: Callable[[Any], str]
) -> list[str] | None:
    return None if (values == default).all() else list(map(text, values.tolist()))


def _after(workload: Workload) -> list[str] | None:
    if not len(workload.after_job):
        return None
    waits: list[list[str]] = [[] for _ in range(len(workload))]
    for job, other in zip(workload.after_job.tolist(), workload.after_on.tolist(), strict=True):
        waits[job].append(str(workload.ids[other]))
    return [";".join(ids) for ids in waits]
