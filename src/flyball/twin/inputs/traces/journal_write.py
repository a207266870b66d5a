"""Writes a workload as a journal file, with the starts and ends of a run of it if given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.codes import Outcome, Status
from flyball.core.results import Results
from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import CLASS_LABELS, COLUMNS, NOT_STATED, Workload
from flyball.twin.inputs.traces.canonical import OUTCOMES, decimal_seconds
from flyball.twin.inputs.traces.files import replacing
from flyball.twin.inputs.traces.journal import MARK, NAMED, RECORDED, VERSION

LABELS = {"class": CLASS_LABELS, "outcome": OUTCOMES}

ENDED, SUBMITTED, STARTED, ENDED_AT_ONCE = range(4)
"""Order of events at the same instant; a job must start before it ends."""


def write(
    workload: Workload,
    path: Path,
    results: Results | None = None,
    cluster: Cluster | None = None,
) -> None:
    """Write a journal; reading it back gives the same workload, bit for bit.

    Args:
        workload: the jobs.
        path: the file; one that exists is replaced.
        results: results of a run of these jobs; adds the first start and the end of each job.
        cluster: the cluster of that run, for the names of its pools and device types.
    """
    with replacing(path) as text:
        text.write(_encode(_head(workload)) + "\n")
        if results is None:
            text.writelines(_submissions(workload))
        else:
            text.writelines(_everything(workload, results, cluster))


def _head(w: Workload) -> dict[str, Any]:
    lists: dict[str, Any] = {names: list(getattr(w, names)) for names in NAMED.values()}
    lists["array_limits"] = list(w.group_limits)
    return {
        MARK: VERSION,
        "name": w.name,
        **{name: values for name, values in lists.items() if values},
    }


def _everything(w: Workload, results: Results, cluster: Cluster | None) -> Iterator[str]:
    """Yield all events in order of time."""
    # The events of this run replace the recorded instants.
    unknown = np.full(len(w), NOT_STATED, np.int64)
    submissions = list(_submissions(replace(w, start_us=unknown, end_us=unknown)))
    count = len(w)
    start_us, end_us = results.first_start_us, results.end_us
    at_once = np.where(start_us == end_us, ENDED_AT_ONCE, ENDED)
    time_us = np.concatenate([w.submit_us, start_us, end_us])
    kind = np.concatenate([np.full(count, SUBMITTED), np.full(count, STARTED), at_once])
    for position in np.lexsort((kind, time_us)).tolist():
        part, job = divmod(position, count)
        if part == 0:
            yield submissions[job]
        elif part == 1:
            yield _started(w, results, cluster, job)
        else:
            yield _ended(w, results, cluster, job)


def _submissions(w: Workload) -> Iterator[str]:
    waits: dict[int, list[str]] = {}
    for job, on in zip(w.after_job.tolist(), w.after_on.tolist(), strict=True):
        waits.setdefault(job, []).append(str(w.ids[on]))
    rows = zip(*(getattr(w, name).tolist() for name in COLUMNS), strict=True)
    for job, row in enumerate(rows):
        values = dict(zip(COLUMNS, row, strict=True))
        fields = _described(w, values, waits.get(job, []))
        yield _event("submitted", values["submit_us"], values["ids"], fields)


def _described(w: Workload, row: dict[str, Any], waits: list[str]) -> dict[str, Any]:
    """Return what a job asks for, without default values."""
    fields: dict[str, Any] = {"devices": row["devices"], "duration_s": _seconds(row["duration_us"])}
    for name, column, default in (
        ("gpu_milli", "milli", MILLI_PER_DEVICE),
        ("memory_mib", "memory_mib", 0),
        ("cpu_milli", "cpu_milli", 0),
        ("host_mib", "host_mib", 0),
        ("priority", "priority", 0.0),
        ("class", "kind", NOT_STATED),
        ("outcome", "outcome", Outcome.COMPLETED),
        ("array", "group", NOT_STATED),
    ):
        if row[column] != default:
            fields[name] = LABELS[name][row[column]] if name in LABELS else row[column]
    if waits:
        fields["after"] = waits
    for name, names in NAMED.items():
        if row[name] >= 0:
            fields[name] = getattr(w, names)[row[name]]
    if row["estimate_us"] == row["estimate_us"]:  # not NaN
        fields["estimate_s"] = _seconds(row["estimate_us"])
    if row["limit_us"]:
        fields["limit_s"] = _seconds(row["limit_us"])
    for name, column in RECORDED.items():
        if row[column] >= 0:
            fields[name] = _seconds(row[column])
    return fields


def _started(w: Workload, results: Results, cluster: Cluster | None, job: int) -> str:
    fields: dict[str, Any] = {"attempt": 1}
    if results.attempts[job] == 1:  # of several attempts, the results have the last pool only
        fields |= _place(results, cluster, job)
    return _event("started", int(results.first_start_us[job]), str(w.ids[job]), fields)


def _ended(w: Workload, results: Results, cluster: Cluster | None, job: int) -> str:
    timeout = results.status[job] == Status.TIMEOUT
    fields: dict[str, Any] = {"outcome": "timeout" if timeout else OUTCOMES[int(w.outcome[job])]}
    for name in ("attempts", "preemptions", "failures"):
        fields[name] = int(getattr(results, name)[job])
    fields |= _place(results, cluster, job)
    return _event("ended", int(results.end_us[job]), str(w.ids[job]), fields)


def _place(results: Results, cluster: Cluster | None, job: int) -> dict[str, Any]:
    pool = int(results.pool[job])
    if cluster is None or pool < 0:
        return {}
    return {"pool": cluster.groups[pool].name, "device": cluster.groups[pool].device}


_encode = json.JSONEncoder(allow_nan=False).encode


class _Seconds(str):
    """Marks exact seconds that go into the file as they are."""


def _seconds(microseconds: int | float) -> _Seconds:
    if microseconds == int(microseconds):
        return _Seconds(decimal_seconds(int(microseconds)))
    return _Seconds(format(Decimal(repr(microseconds)).scaleb(-6), "f"))


def _event(event: str, time_us: int, job: str, fields: dict[str, Any]) -> str:
    """Return one line of JSON; seconds are written as numbers with all their digits."""
    values = {"event": event, "time_s": _seconds(time_us), "job": job, **fields}
    parts = (
        f'"{name}": {value if isinstance(value, _Seconds) else _encode(value)}'
        for name, value in values.items()
    )
    return "{" + ", ".join(parts) + "}\n"
