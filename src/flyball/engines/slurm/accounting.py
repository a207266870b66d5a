"""Reads `sacct`: the jobs that ended in the last weeks, from which run times are learnt.

Fields are separated by a control character and the name comes last: whatever a name holds, it is
part of the name. The trace reader `twin/inputs/traces/sacct.py` reads users' own sacct files.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.engines.slurm.queue_text import NOTHING, gpus_of, instant_s, memory_mib

SEPARATOR = "\x1f"
FIELDS = (
    *("JobID", "User", "Account", "Partition", "Submit", "Start", "End", "ElapsedRaw"),
    *("TimelimitRaw", "State", "ReqCPUS", "ReqTRES", "AllocTRES", "Priority", "JobName"),
)


class EndedJob(NamedTuple):
    """Holds one job that ran and ended. Texts are "" and numbers None if not stated.

    Attributes:
        state: Slurm's word: COMPLETED, FAILED, CANCELLED, TIMEOUT, ...
    """

    label: str
    user: str
    account: str
    partitions: tuple[str, ...]
    submit_s: float
    start_s: float
    end_s: float
    limit_s: float | None
    state: str
    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str
    priority: int
    name: str


def arguments(since_s: float) -> list[str]:
    """Return sacct's arguments for all users' jobs since an instant, without their steps."""
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
    return [
        *("--allusers", "--allocations", "--parsable2", "--noheader", f"--starttime={begin}"),
        *(f"--delimiter={SEPARATOR}", f"--format={','.join(FIELDS)}"),
    ]


def read_ended(output: bytes) -> list[EndedJob]:
    """Return the jobs that ran and ended.

    Raises:
        BadInput: the output does not have the fields that were asked for.
    """
    jobs: list[EndedJob] = []
    for texts in _rows(output.decode("utf-8", "replace")):
        job = _ended(texts)
        if job is not None:
            jobs.append(job)
    return jobs


def _rows(text: str) -> list[list[str]]:
    """Split into rows; a line without separators goes on with the name of the row before it."""
    rows: list[list[str]] = []
    for line in text.removesuffix("\n").split("\n"):
        texts = line.split(SEPARATOR)
        if len(texts) >= len(FIELDS):
            last = len(FIELDS) - 1
            rows.append([*texts[:last], SEPARATOR.join(texts[last:])])
        elif rows:
            rows[-1][-1] += "\n" + line
        elif line.strip():
            raise BadInput(
                f"sacct printed {len(texts)} fields instead of {len(FIELDS)}",
                "tested with Slurm 22.05; report your version (`sacct --version`)",
            )
    return rows


def _ended(texts: list[str]) -> EndedJob | None:
    row = dict(zip(FIELDS, texts, strict=True))
    try:
        submit_s, start_s, end_s = (instant_s(row[name]) for name in ("Submit", "Start", "End"))
        if submit_s is None or start_s is None or end_s is None or end_s < start_s:
            return None
        gpus, gpu_type = gpus_of(row["AllocTRES"] or row["ReqTRES"])
        limit_min = row["TimelimitRaw"]
        return EndedJob(
            label=row["JobID"],
            user=row["User"],
            account="" if row["Account"] in NOTHING else row["Account"],
            partitions=tuple(row["Partition"].split(",")),
            submit_s=submit_s,
            start_s=start_s,
            end_s=start_s + float(row["ElapsedRaw"] or end_s - start_s),
            limit_s=float(limit_min) * 60.0 if limit_min.isdecimal() else None,
            state=row["State"].split()[0] if row["State"].split() else "",
            cpus=int(row["ReqCPUS"] or 1),
            memory_mib=memory_mib(row["AllocTRES"] or row["ReqTRES"]),
            gpus=gpus,
            gpu_type=gpu_type,
            priority=int(row["Priority"] or 0),
            name=row["JobName"],
        )
    except ValueError as error:
        raise BadInput(
            f"sacct: job {row['JobID'][:20]!r}: {error}",
            "tested with Slurm 22.05; report your version (`sacct --version`)",
        ) from None
