"""The Standard Workload Format, version 2.2: writing. Times become whole seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Outcome
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.twin.inputs.traces.files import replacing
from flyball.twin.inputs.traces.swf import KIB_PER_MIB

STATUS_OF = {Outcome.COMPLETED: 1, Outcome.FAILED: 0, Outcome.CANCELLED: 5}
UNKNOWN = -1


def write(workload: Workload, path: Path) -> None:
    """Write an SWF file. Fields that the format does not have are left out.

    A job keeps its id as its number if all ids are whole numbers from 1, else jobs are numbered
    from 1; of several predecessors the first is kept.
    """
    w = workload
    size = len(w)
    unknown = np.full(size, UNKNOWN, np.int64)
    numbers = _numbers(w)
    status = np.array([STATUS_OF[outcome] for outcome in Outcome])[w.outcome]
    kib = np.where(w.memory_mib > 0, w.memory_mib * KIB_PER_MIB, UNKNOWN)
    preceding = unknown.copy()
    preceding[w.after_job[::-1]] = numbers[w.after_on[::-1]]  # reversed, so that the first one wins
    fields = (
        numbers, _seconds(w.submit_us), _waits(w), _seconds(w.duration_us), w.devices, unknown,
        unknown, w.devices, _seconds(w.estimate_us), kib, status, _coded(w.user, w.users),
        _coded(w.tenant, w.tenants), unknown, unknown, unknown, preceding, unknown,
    )  # fmt: skip
    with replacing(path) as text:
        text.write(_header(w))
        for row in zip(*(field.tolist() for field in fields), strict=True):
            text.write(" ".join(map(str, row)))
            text.write("\n")


def _header(workload: Workload) -> str:
    lines = ["; Version: 2.2", f"; MaxJobs: {len(workload)}", f"; MaxRecords: {len(workload)}"]
    lines.append("; Note: processors are accelerators; requested time is the user's estimate")
    for what, names in (("User", workload.users), ("Group", workload.tenants)):
        if not all(map(_is_number, names)):
            lines += [f"; {what}: {code} {name}" for code, name in enumerate(names, 1)]
    return "\n".join(lines) + "\n"


def _seconds(
    microseconds: npt.NDArray[np.float64] | npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    return np.nan_to_num(np.rint(microseconds / US_PER_S), nan=UNKNOWN).astype(np.int64)


def _waits(workload: Workload) -> npt.NDArray[np.int64]:
    """Return recorded waits in seconds, between rounded instants so that starts are kept."""
    waits_s = _seconds(workload.start_us) - _seconds(workload.submit_us)
    recorded = (workload.start_us >= workload.submit_us) & (workload.start_us >= 0)
    return np.where(recorded, waits_s, UNKNOWN)


def _numbers(workload: Workload) -> npt.NDArray[np.int64]:
    ids = workload.ids.tolist()
    if all(_is_number(job) and job != "0" for job in ids):
        return np.array([int(job) for job in ids], np.int64)
    return np.arange(1, len(ids) + 1)


def _coded(codes: npt.NDArray[np.int64], names: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return the numbers of codes: names that are numbers stay, others are numbered from 1."""
    keep = all(map(_is_number, names))
    values = [int(name) if keep else code for code, name in enumerate(names, 1)]
    return np.array([*values, UNKNOWN], np.int64)[codes]  # code -1 picks the last one


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and str(int(name)) == name and len(name) < 16
