"""Jobs collected one by one from cluster logs, and turned into a workload.

Logs count seconds from 1970. A workload counts from midnight of the Monday before its first
submission, so that hours and weekdays mean something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Outcome
from flyball.core.units import MILLI_PER_DEVICE, S_PER_DAY, S_PER_WEEK, US_PER_S
from flyball.core.workload import NOT_STATED, Workload
from flyball.twin.inputs.traces.table import (
    MAX_DEVICES,
    MAX_NAME,
    MAX_ROWS,
    MAX_TIME_S,
    fault,
    too_many,
)

FIRST_MONDAY_S = 4 * S_PER_DAY  # 1970-01-05


class Draft(NamedTuple):
    """Holds one job of a log.

    Attributes:
        row: its row in the file.
        id: unique.
        submit_s: seconds since 1970, by the log's clock.
        duration_s: how long it held its devices.
        devices, milli, memory_mib, priority: as in a `Workload`.
        device: a name of the catalogue, "" = not stated.
        tenant, user: "" = not stated.
        estimate_s: the user's estimate of its run time, None = not stated.
        limit_s: killed after this long, 0 = never.
        outcome: how it ended.
        array, array_limit: its array and how many tasks of it may run at a time, 0 = any.
        start_s: when it started, by the same clock as `submit_s`; None = not known.
    """

    row: int
    id: str
    submit_s: float
    duration_s: float
    devices: int
    milli: int = MILLI_PER_DEVICE
    memory_mib: int = 0
    priority: float = 0.0
    device: str = ""
    tenant: str = ""
    user: str = ""
    estimate_s: float | None = None
    limit_s: float = 0.0
    outcome: Outcome = Outcome.COMPLETED
    array: str = ""
    array_limit: int = 0
    start_s: float | None = None


def workload_of(path: Path, drafts: Sequence[Draft]) -> Workload:
    """Return the workload of these jobs, at least one.

    Raises:
        BadInput: too many jobs, or a job that is too long or too large.
    """
    if len(drafts) > MAX_ROWS:
        raise too_many(path, len(drafts))
    for draft in drafts:
        _check(path, draft)
    monday_s = monday_before(min(draft.submit_s for draft in drafts))
    columns = list(zip(*drafts, strict=True))
    field = {name: columns[index] for index, name in enumerate(Draft._fields)}
    submit_s = np.array(field["submit_s"], np.float64) - monday_s
    estimates_s = np.array([np.nan if s is None else s for s in field["estimate_s"]], np.float64)
    start_s = np.array([np.nan if s is None else s for s in field["start_s"]], np.float64)
    end_s = start_s + np.array(field["duration_s"], np.float64)
    group, group_limits = _arrays(field["array"], field["array_limit"])
    named = {name: _coded(field[name]) for name in ("device", "tenant", "user")}
    return Workload.of(
        path.name,
        submit_s,
        0.0,
        field["devices"],
        duration_us=np.rint(np.array(field["duration_s"], np.float64) * US_PER_S),
        ids=field["id"],
        milli=field["milli"],
        memory_mib=field["memory_mib"],
        priority=field["priority"],
        estimate_us=np.rint(estimates_s * US_PER_S),
        limit_us=np.rint(np.array(field["limit_s"], np.float64) * US_PER_S).astype(np.int64),
        outcome=field["outcome"],
        device=named["device"][0],
        device_names=named["device"][1],
        tenant=named["tenant"][0],
        tenants=named["tenant"][1],
        user=named["user"][0],
        users=named["user"][1],
        group=group,
        group_limits=group_limits,
        row=field["row"],
        origin_us=round(monday_s * US_PER_S),
        start_us=recorded_us(start_s - monday_s),
        end_us=recorded_us(end_s - monday_s),
    )


def monday_before(seconds: float) -> float:
    """Return midnight of the Monday at or before an instant; both count from 1970."""
    return (seconds - FIRST_MONDAY_S) // S_PER_WEEK * S_PER_WEEK + FIRST_MONDAY_S


def seconds_since_1970(text: str) -> float:
    """Return an ISO instant in seconds; one without a zone is read as UTC.

    Raises:
        ValueError: the text is not an instant.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return instant.timestamp()


def recorded_us(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return recorded instants in microseconds; NaN becomes -1, not known."""
    return np.nan_to_num(np.rint(seconds * US_PER_S), nan=NOT_STATED).astype(np.int64)


def note_count(notes: list[str], path: Path, count: int, what: str) -> None:
    """Add a note on how many of something there were, if any."""
    if count:
        notes.append(f"{path.name}: {count:,} {what}")


def note_types(notes: list[str], path: Path, unknown: Counter[str]) -> None:
    """Add a note on the device types that the catalogue does not have, if any."""
    if unknown:
        listed = ", ".join(f"{name} ({count:,})" for name, count in sorted(unknown.items()))
        notes.append(
            f"{path.name}: jobs on devices the catalogue does not have: {listed}; taken as jobs "
            "that name no device type"
        )


def _check(path: Path, draft: Draft) -> None:
    if not 1 <= len(draft.id) <= MAX_NAME or not draft.id.isprintable():
        why = f"is not a printable name of at most {MAX_NAME} characters"
        raise fault(path, draft.row, "job", draft.id, why, "correct or remove the job")
    if not 0 <= draft.duration_s <= MAX_TIME_S:
        why = f"is outside 0 to {MAX_TIME_S:g} seconds"
        raise fault(path, draft.row, "run time", draft.duration_s, why, "correct or remove the job")
    if not 1 <= draft.devices <= MAX_DEVICES:
        why = f"is outside 1 to {MAX_DEVICES:g}"
        raise fault(path, draft.row, "devices", draft.devices, why, "correct or remove the job")


def _coded(names: Sequence[str]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return names as codes in order of appearance; "" is not stated."""
    codes: dict[str, int] = {}
    for name in dict.fromkeys(names):
        if name:
            codes[name] = len(codes)
    lookup = {**codes, "": NOT_STATED}
    return np.fromiter(map(lookup.__getitem__, names), np.int64, len(names)), tuple(codes)


def _arrays(
    arrays: Sequence[str], limits: Sequence[int]
) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Return groups of the arrays that have a limit; the last limit seen counts."""
    limit_of = {name: limit for name, limit in zip(arrays, limits, strict=True) if name and limit}
    group_of = {name: group for group, name in enumerate(limit_of)}
    groups = np.array([group_of.get(name, NOT_STATED) for name in arrays], np.int64)
    return groups, tuple(limit_of.values())
