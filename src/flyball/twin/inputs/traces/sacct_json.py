"""Slurm's accounting as `sacct --json` prints it (data_parser v0.0.37 to v0.0.43).

The text of the file is in memory once; every job becomes a few numbers as soon as its object is
read, and steps are dropped at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput, at
from flyball.core.units import S_PER_MIN
from flyball.core.workload import Workload
from flyball.twin.inputs.traces.json_text import parsed, whole_text
from flyball.twin.inputs.traces.slurm import Accounts, Gpus, Record

NO_VALUE = 0xFFFFFFFD
"""Smallest plain 32-bit number that means "infinite" or "none"."""


def read(path: Path, notes: list[str]) -> Workload:
    """Read the output of sacct; rows in messages are positions in `jobs`, from 1."""
    text = whole_text(path)
    if not text.strip():
        raise BadInput(f"{path} is empty", "sacct --json prints one object with `jobs`")
    jobs = _JobCollector(path)
    document = parsed(path, 1, text, jobs.take)
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        raise BadInput(f"{path} has no list `jobs`", "write it with sacct --json")
    if document["jobs"] and not jobs.seen:
        raise BadInput(
            f"{at(path, 1)}: a job without `job_id`, `state` and `time`",
            "write it with sacct --json; squeue's jobs have not ended",
        )
    return jobs.accounts.workload(notes)


class _JobCollector:
    """Collects the jobs of the file as its objects are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.accounts = Accounts(path)
        self.seen = 0

    def take(self, value: dict[str, Any]) -> Any:
        """Add an object that is a job; return what to keep of it: nothing of a job or a step."""
        if "step" in value and "tres" in value:
            return None
        if not {"job_id", "state", "time"} <= value.keys():
            return value
        self.seen += 1
        try:
            self.accounts.add(_record(self.seen, value))
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadInput(
                f"{at(self.path, self.seen)}: job {value['job_id']} cannot be read ({error})",
                "write it with sacct --json, or use sacct --parsable2",
            ) from None
        return None


def _record(row: int, job: dict[str, Any]) -> Record:
    time, tres = job["time"], job.get("tres") or {}
    allocated, requested = (tres.get(name) or [] for name in ("allocated", "requested"))
    elapsed_s = _number(time.get("elapsed"))
    limit_min = _number(time.get("limit"))
    name, array, array_limit = _names(job)
    association = job.get("association") or {}
    return Record(
        row,
        name,
        _state(job["state"]),
        _number(time.get("submission")) or None,
        _number(time.get("eligible")) or None,
        elapsed_s,
        bool(elapsed_s or allocated),
        limit_min * S_PER_MIN if limit_min else None,
        _gpus(allocated) or _gpus(requested),
        str(job.get("account") or association.get("account") or ""),
        str(job.get("user") or association.get("user") or ""),
        array,
        array_limit,
        _number(time.get("start")) or None,
        _cores(allocated) or _cores(requested),
    )


def _number(value: Any) -> float | None:
    """Return a number, plain or as `{"set": true, "infinite": false, "number": 5}`; None = none."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None:
        return None
    number = float(value)
    if number < 0 or number != number:
        raise ValueError(f"{value} is negative")
    return None if number >= NO_VALUE else number


def _state(state: Any) -> str:
    """Return the first state; `state.current` is a list in newer versions, a word in older ones."""
    current = state.get("current") if isinstance(state, dict) else state
    words = current if isinstance(current, list) else str(current or "").split()
    return str(words[0]).upper() if words else ""


def _gpus(entries: list[dict[str, Any]]) -> Gpus:
    gpus = []
    for entry in entries:
        name = str(entry.get("name") or "")
        if entry.get("type") == "gres" and (name == "gpu" or name.startswith("gpu:")):
            gpus.append((name[len("gpu:") :], int(_number(entry.get("count")) or 0)))
    return tuple((name, count) for name, count in gpus if count > 0)


def _cores(entries: list[dict[str, Any]]) -> int:
    counts = (entry.get("count") for entry in entries if entry.get("type") == "cpu")
    return int(_number(next(counts, None)) or 0)


def _names(job: dict[str, Any]) -> tuple[str, str, int]:
    """Return the job's id as Slurm writes it, its array and the array's limit."""
    array, het = job.get("array") or {}, job.get("het") or {}
    array_job, task = _number(array.get("job_id")), _number(array.get("task_id"))
    if array_job and task is not None:
        limits = array.get("limits") or {}
        running = ((limits.get("max") or {}).get("running") or {}).get("tasks")
        name = f"{array_job:.0f}"
        return f"{name}_{task:.0f}", name, int(_number(running) or 0)
    het_job, offset = _number(het.get("job_id")), _number(het.get("job_offset"))
    if het_job and offset is not None:
        return f"{het_job:.0f}+{offset:.0f}", "", 0
    return f"{_number(job['job_id']):.0f}", "", 0
