"""Dependencies between jobs: ids become indices, duplicate ids and cycles are refused."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.core.workload import Ints
from flyball.twin.inputs.traces.table import Table


def check_ids(table: Table, column: str) -> None:
    """Refuse two rows with the same id, and ids that `after` could not name."""
    ids = table.columns[column].tolist()
    first: dict[str, int] = {}
    if len(set(ids)) < len(ids):
        for i, job in enumerate(ids):
            if job in first:
                why = f"is also the id in row {table.rows[first[job]]}"
                raise table.fault(i, column, job, why, "give every job its own id")
            first[job] = i
    bad = _with_separators(ids)
    if bad:
        why = "has a space or a semicolon, which separate ids in `after`"
        raise table.fault(ids.index(bad), column, bad, why, "use another character")


def refuse_separators(ids: npt.NDArray[np.str_]) -> None:
    """Refuse to write ids that could not be read back."""
    bad = _with_separators(ids.tolist())
    if bad:
        raise BadInput(f"job id {bad!r} has a space or a semicolon", "rename the job")


def _with_separators(ids: list[str]) -> str:
    joined = "".join(ids)
    if ";" not in joined and len(joined.split()) == 1:
        return ""
    return next(job for job in ids if ";" in job or job.split() != [job])


def resolve(table: Table, ids: str, column: str) -> tuple[Ints, Ints]:
    """Return pairs (job, the job it waits for) from a column of ids split by `;` or spaces."""
    texts = table.columns[column]
    index = {job: i for i, job in enumerate(table.columns[ids].tolist())}
    jobs: list[int] = []
    waits_on: list[int] = []
    for i in np.flatnonzero(texts != "").tolist():
        for other in dict.fromkeys(str(texts[i]).replace(";", " ").split()):
            if other not in index:
                near = difflib.get_close_matches(other, list(index)[:10_000], n=1)
                hint = f"did you mean {near[0]!r}?" if near else "name a job of this file"
                raise table.fault(i, column, other, "is not the id of a job", hint)
            jobs.append(i)
            waits_on.append(index[other])
    pairs = np.array(jobs, np.int64), np.array(waits_on, np.int64)
    refuse_cycle(table.file, table.columns[ids], *pairs)
    return pairs


def refuse_cycle(file: Path, ids: npt.NDArray[np.str_], jobs: Ints, waits_on: Ints) -> None:
    """Refuse jobs that wait for each other, naming them."""
    cycle = find_cycle(jobs, waits_on)
    if cycle:
        shown = [str(ids[i]) for i in cycle[:8]]
        more = f" ... ({len(cycle)} jobs)" if len(cycle) > 8 else ""
        chain = " -> ".join([*shown, *([more.strip()] if more else []), shown[0]])
        raise BadInput(
            f"{file}: jobs wait for each other in a cycle: {chain}",
            "remove one of these waits from `after`",
        )


def find_cycle(jobs: Ints, waits_on: Ints) -> list[int]:
    """Return the jobs of one cycle, each waiting for the next; empty if there is none."""
    waits: dict[int, list[int]] = {}
    followers: dict[int, list[int]] = {}
    for job, other in zip(jobs.tolist(), waits_on.tolist(), strict=True):
        waits.setdefault(job, []).append(other)
        followers.setdefault(other, []).append(job)
    open_waits = {job: len(others) for job, others in waits.items()}
    # Remove jobs that wait for nothing until only cycles and the jobs that depend on them are left.
    free = [job for job in followers if job not in open_waits]
    while free:
        for job in followers.get(free.pop(), ()):
            open_waits[job] -= 1
            if open_waits[job] == 0:
                free.append(job)
    left = {job for job, count in open_waits.items() if count > 0}
    if not left:
        return []
    path: dict[int, int] = {}
    job = min(left)
    while job not in path:  # every job left waits for another one left, so this must close
        path[job] = len(path)
        job = next(other for other in waits[job] if other in left)
    return list(path)[path[job] :]
