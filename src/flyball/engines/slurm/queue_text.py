"""Reads `squeue -r -O`: fixed-width text, one record per job or task of an array.

Every column has a stated width in bytes, so every record has the same length and nothing in a name
(bars, spaces, newlines, other alphabets) can be taken for a column or a record. Text, not `--json`:
that takes ten times as long, ignores filters and changes between versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.core.units import S_PER_MIN

COLUMNS = {
    "JobID": 12,
    "JobArrayID": 32,
    "StateCompact": 4,
    "Reason": 64,
    "PriorityLong": 12,
    "SubmitTime": 20,
    "EligibleTime": 20,
    "StartTime": 20,
    "EndTime": 20,
    "TimeLimit": 16,
    "NumNodes": 8,
    "NumCPUs": 8,
    "NumTasks": 8,
    "OverSubscribe": 12,
    "tres-alloc": 160,
    "tres-per-job": 48,
    "tres-per-node": 48,
    "tres-per-task": 48,
    "Partition": 96,
    "UserName": 32,
    "Account": 48,
    "QOS": 32,
    "Feature": 64,
    "NodeList": 256,
    "Dependency": 128,
    "Name": 128,
}
"""Columns in order, each with its width in bytes; longer texts are cut off by squeue."""
RECORD_BYTES = sum(COLUMNS.values()) + 1
ARGUMENTS = (
    *("--all", "--array", "--noheader", "--states=all", "-O"),
    ",".join(f"{name}:{width}" for name, width in COLUMNS.items()),
)
NOTHING = ("", "N/A", "(null)", "NONE", "None", "Unknown")
_STATE = re.compile(r"[A-Z]{1,3}")
_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_TRES_GPU = re.compile(r"gres[:/]gpu(?::([A-Za-z][^:=,]*))?(?:[:=](\d+))?")


class QueuedJob(NamedTuple):
    """Holds one job or task as squeue shows it. Texts are "" and numbers None if not stated.

    Attributes:
        id: Slurm's number; pending tasks of an array share it.
        label: what users write: `7`, `7_3`.
        state: Slurm's two letters (PD, R, CG, CD, ...).
        start_s: of a pending job Slurm's own estimate, as `squeue --start` prints it.
        limit_s: time limit; None = unlimited.
        gpus, gpu_type: of the whole job; type "" = any.
        exclusive: whether it gets its nodes alone.
        partitions: where it may run.
    """

    id: int
    label: str
    state: str
    reason: str
    priority: int
    submit_s: float
    eligible_s: float | None
    start_s: float | None
    end_s: float | None
    limit_s: float | None
    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str
    exclusive: bool
    partitions: tuple[str, ...]
    user: str
    account: str
    qos: str
    features: str
    node_list: str
    dependency: str
    name: str


def read_queue(output: bytes) -> list[QueuedJob]:
    """Return the jobs of squeue's output.

    Raises:
        BadInput: the output does not have the columns that were asked for.
    """
    if len(output) % RECORD_BYTES or any(
        output[end : end + 1] != b"\n" for end in range(RECORD_BYTES - 1, len(output), RECORD_BYTES)
    ):
        raise _other_columns(f"{len(output)} bytes are no whole number of {RECORD_BYTES}")
    return [
        _job(output[begin : begin + RECORD_BYTES - 1])
        for begin in range(0, len(output), RECORD_BYTES)
    ]


def _other_columns(why: str) -> BadInput:
    return BadInput(
        f"squeue printed other columns than were asked for ({why})",
        "tested with Slurm 22.05; report your version (`squeue --version`) and its output",
    )


def _job(record: bytes) -> QueuedJob:
    texts, begin = {}, 0
    for name, width in COLUMNS.items():
        texts[name] = record[begin : begin + width].decode("utf-8", "replace").strip(" ")
        begin += width
    try:
        return _parsed(texts)
    except ValueError as error:
        raise _other_columns(f"job {texts['JobID'][:20]!r}: {error}") from None


def _parsed(texts: dict[str, str]) -> QueuedJob:
    if not _STATE.fullmatch(texts["StateCompact"]):
        raise ValueError(f"state {texts['StateCompact']!r}")
    submit_s = instant_s(texts["SubmitTime"])
    if submit_s is None:
        raise ValueError("no time of submission")
    nodes = int(texts["NumNodes"].partition("-")[0])
    gpus, gpu_type = requested_gpus(texts)
    stated = {name: "" if text in NOTHING else text for name, text in texts.items()}
    return QueuedJob(
        id=int(texts["JobID"]),
        label=texts["JobArrayID"],
        state=texts["StateCompact"],
        reason=stated["Reason"],
        priority=int(texts["PriorityLong"]),
        submit_s=submit_s,
        eligible_s=instant_s(texts["EligibleTime"]),
        start_s=instant_s(texts["StartTime"]),
        end_s=instant_s(texts["EndTime"]),
        limit_s=limit_s(texts["TimeLimit"]),
        nodes=nodes,
        cpus=int(texts["NumCPUs"].partition("-")[0]),
        memory_mib=memory_mib(texts["tres-alloc"]),
        gpus=gpus,
        gpu_type=gpu_type,
        exclusive=texts["OverSubscribe"] in ("NO", "EXCLUSIVE"),
        partitions=tuple(texts["Partition"].split(",")),
        user=stated["UserName"],
        account=stated["Account"],
        qos=stated["QOS"],
        features=stated["Feature"],
        node_list=stated["NodeList"],
        dependency=stated["Dependency"],
        name=texts["Name"],
    )


# Values ------------------------------------------------------------------------------


def instant_s(text: str) -> float | None:
    """Return seconds since 1970 of a time as we ask for it (%s), or of Slurm's local ISO time."""
    if text in NOTHING:
        return None
    if text.isdecimal():
        return float(text) or None
    return datetime.fromisoformat(text).timestamp()


def limit_s(text: str) -> float | None:
    """Return the seconds of `1-02:03:04`, `2:03:04`, `03:04` or `UNLIMITED` (None)."""
    if text in ("UNLIMITED", "INVALID", *NOTHING):
        return None
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError(f"time limit {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (days * 24.0 * 60.0 + hours * 60.0 + minutes) * S_PER_MIN + seconds


def cpus_of(tres: str) -> int:
    """Return the cores in `cpu=2,mem=20M,node=1`; 0 if there are none."""
    match = re.search(r"(?:^|,)cpu=(\d+)", tres)
    return int(match[1]) if match else 0


def memory_mib(tres: str) -> int:
    """Return the memory in `cpu=2,mem=20M,node=1`; 0 if there is none."""
    match = re.search(r"(?:^|,)mem=([0-9.]+)([KMGTP]?)", tres)
    if match is None:
        return 0
    factor = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
    return round(float(match[1]) * factor[match[2]])


def gpus_of(text: str) -> tuple[int, str]:
    """Return the number of GPUs and their type in a list of resources, (0, "") if there is none.

    With `gres/gpu=4,gres/gpu:a100=4` the total counts; several types are added up.
    """
    entries = [(match[1] or "", int(match[2] or 1)) for match in _TRES_GPU.finditer(text)]
    total = sum(count for type_, count in entries if not type_)
    typed = [(type_, count) for type_, count in entries if type_]
    count = total or sum(count for _type, count in typed)
    return count, typed[0][0] if len(typed) == 1 else ""


def requested_gpus(texts: Mapping[str, str]) -> tuple[int, str]:
    """Return a job's GPUs: as allocated or billed, else as requested per job, node or task.

    Args:
        texts: the columns of squeue by name; NumTasks and tres-per-task may be left out.
    """
    count, type_ = gpus_of(texts["tres-alloc"])
    nodes = int(texts["NumNodes"].partition("-")[0])
    stated = texts.get("NumTasks", "")
    tasks = int(stated) if stated.isdecimal() else 1
    for column, times in (("tres-per-job", 1), ("tres-per-node", nodes), ("tres-per-task", tasks)):
        requested, requested_type = gpus_of(texts.get(column, ""))
        if requested:
            return count or requested * times, type_ or requested_type
    return count, type_
