"""Waits between jobs: ids turned into indices, and the check that no job waits for itself."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.twin.inputs.traces.table import Table

Ints = npt.NDArray[np.int64]


def check_ids(table: Table, column: str) -> None:
    """Refuse two rows with the same id, and ids that `after` could not name."""
    ids = table.columns[column].tolist()
    first: dict[str, int] = {}
    if len(set(ids)) < len(ids):
        for i, each in enumerate(ids):
            if each in first:
                why = f"is also the id in row {table.rows[first[each]]}"
                raise table.fault(i, column, each, why, "give every job its own id")
            first[each] = i
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
    everything = "".join(ids)
    if ";" not in everything and len(everything.split()) == 1:
        return ""
    return next(each for each in ids if ";" in each or each.split() != [each])


def resolve(table: Table, ids: str, column: str) -> tuple[Ints, Ints]:
    """Pairs (job, the job it waits for) from a column of ids split by `;` or spaces."""
    texts = table.columns[column]
    index = {each: i for i, each in enumerate(table.columns[ids].tolist())}
    jobs: list[int] = []
    waits_on: list[int] = []
    for i in np.flatnonzero(texts != "").tolist():
        for each in dict.fromkeys(str(texts[i]).replace(";", " ").split()):
            if each not in index:
                near = difflib.get_close_matches(each, list(index)[:10_000], n=1)
                hint = f"did you mean {near[0]!r}?" if near else "name a job of this file"
                raise table.fault(i, column, each, "is not the id of a job", hint)
            jobs.append(i)
            waits_on.append(index[each])
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
    """The jobs of one cycle, each waiting for the next; empty if there is none."""
    waits: dict[int, list[int]] = {}
    followers: dict[int, list[int]] = {}
    for job, other in zip(jobs.tolist(), waits_on.tolist(), strict=True):
        waits.setdefault(job, []).append(other)
        followers.setdefault(other, []).append(job)
    open_waits = {job: len(others) for job, others in waits.items()}
    # Take away jobs that wait for nothing until only cycles and what hangs on them is left.
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
