"""Flyball's journal as a file: JSON lines, one event per line. Reads version 1.

The first line identifies the format; then jobs are submitted, start, are preempted, end. A run
time stated at submission is taken as stated, any other is measured from the job's starts and ends.
`docs/reference/traces.md` describes every field; `journal_write` writes the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput, UnknownName, at
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import CLASS_LABELS, NOT_STATED, Workload
from flyball.twin.inputs.traces.canonical import MAX_LIMIT, OUTCOMES
from flyball.twin.inputs.traces.job_rows import note_count
from flyball.twin.inputs.traces.json_text import json_lines, parsed
from flyball.twin.inputs.traces.links import refuse_cycle
from flyball.twin.inputs.traces.table import (
    MAX_DEVICES,
    MAX_NAME,
    MAX_ROWS,
    MAX_TIME_S,
    fault,
    too_many,
)

VERSION = 1
MARK = "flyball_journal"
ENDS = (*OUTCOMES, "timeout")
NAMED = {"model": "models", "device": "device_names", "tenant": "tenants", "user": "users"}
"""Fields whose values are names, and the list of names they are coded in."""

COLUMNS = (
    *("submit_us", "devices", "milli", "memory_mib", "kind", "priority"),
    *("estimate_us", "limit_us", "group", "cpu_milli", "host_mib"),
)
RECORDED = {"recorded_start_s": "start_us", "recorded_end_s": "end_us"}
"""Recorded instants that a submission may state, and their columns in a workload."""
DEVICE = list(NAMED).index("device")
MAX_MIB = 2**40


@dataclass
class JournalEntry:
    """Holds one line of the file and checks its values by name."""

    path: Path
    row: int
    values: dict[str, Any]

    def wrong(self, name: str, why: str, remedy: str) -> BadInput:
        """Return the error for one value of the line."""
        return fault(self.path, self.row, name, self.values.get(name), why, remedy)

    def text(self, name: str) -> str | None:
        """Return a text, None if it is not there."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "is not a text", "write it in quotes")
        return value

    def number(self, name: str, low: float, high: float, default: Any = None) -> Any:
        """Return a number in range, as it was written."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.wrong(name, "is not a number", "write a number")
        if not low <= value <= high:
            raise self.wrong(name, f"is outside {low:g} to {high:g}", "correct it")
        return value

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number in range."""
        value = self.number(name, low, high, default)
        if value != int(value):
            raise self.wrong(name, "is not a whole number", "correct it")
        return int(value)

    def us(self, name: str) -> int | Decimal:
        """Return seconds as exact microseconds."""
        value = self.number(name, 0, MAX_TIME_S)
        return value * US_PER_S if isinstance(value, int) else value.scaleb(6)

    def job(self) -> str:
        """Return the id of the job that the event is about."""
        name = self.text("job")
        if not name or len(name) > MAX_NAME or not name.isprintable():
            why = f"is not a printable name of at most {MAX_NAME} characters"
            raise self.wrong("job", why, "name the job")
        return name

    def one_of(self, name: str, labels: Sequence[str], default: str) -> str:
        """Return one of the allowed labels."""
        value = self.text(name)
        if value is not None and value not in labels:
            raise UnknownName(f"{name} in {at(self.path, self.row)}", value, labels)
        return default if value is None else value


@dataclass(slots=True)
class JournalJob:
    """Holds a job's state after its events so far; times in microseconds.

    Attributes:
        columns: in the order of `COLUMNS`.
        names: in the order of `NAMED`.
    """

    row: int
    columns: tuple[float, ...]
    names: list[str | None]
    after: list[str]
    outcome: int
    duration_us: int | Decimal | None
    began_us: int | Decimal | None = None
    run_us: int | Decimal = 0
    starts: int = 0
    ended: bool = False
    start_us: int = NOT_STATED
    end_us: int = NOT_STATED


@dataclass
class _Journal:
    """Holds the state after the events so far."""

    path: Path
    name: str
    codes: dict[str, dict[str, int]]
    group_limits: tuple[int, ...]
    jobs: dict[str, JournalJob] = field(default_factory=dict)
    unknown_events: int = 0

    def apply(self, entry: JournalEntry) -> None:
        event = entry.text("event")
        if event == "submitted":
            self.submitted(entry)
        elif event in ("started", "preempted", "interrupted", "ended"):
            self.ran(entry, event)
        elif event is None:
            raise entry.wrong("event", "is not there", "every line but the first is an event")
        else:
            self.unknown_events += 1

    def submitted(self, entry: JournalEntry) -> None:
        job = entry.job()
        if job in self.jobs:
            why = f"is also the id in row {self.jobs[job].row}"
            raise entry.wrong("job", why, "give every job its own id")
        if len(self.jobs) >= MAX_ROWS:
            raise too_many(self.path, len(self.jobs) + 1)
        self.jobs[job] = _submitted(entry, len(self.group_limits))

    def ran(self, entry: JournalEntry, event: str) -> None:
        """Apply a start, or a stop, which adds the time since the start to the run time."""
        job = self.jobs.get(entry.job())
        if job is None:
            raise entry.wrong("job", "was not submitted", "its submission must come first")
        now_us = entry.us("time_s")
        if job.ended:
            raise entry.wrong("job", "has already ended", "remove one of the events")
        if event == "started":
            job.began_us = now_us
            if job.starts == 0:
                job.start_us = round(now_us)
            job.starts += 1
            if job.duration_us is None and job.names[DEVICE] is None:  # measured where it runs
                job.names[DEVICE] = entry.text("device")
            return
        if job.began_us is not None:
            if now_us < job.began_us:
                raise entry.wrong("time_s", "is before its start", "correct the times")
            lost_us = entry.us("lost_s") if "lost_s" in entry.values else 0
            job.run_us += max(now_us - job.began_us - lost_us, 0)
        job.began_us = None
        if event == "ended":
            self.ended(job, entry)

    def ended(self, job: JournalJob, entry: JournalEntry) -> None:
        job.ended = True
        if job.starts:
            job.end_us = round(entry.us("time_s"))
        outcome = entry.one_of("outcome", ENDS, "completed")
        if job.duration_us is None:
            timeout = outcome == "timeout"
            job.outcome = Outcome.FAILED if timeout else OUTCOMES.index(outcome)


def read(path: Path, notes: list[str]) -> Workload:
    """Read a journal; jobs that have not ended and state no run time are left out."""
    journal: _Journal | None = None
    for row, line in json_lines(path):
        values = parsed(path, row, line, exact=True)
        if not isinstance(values, dict):
            raise BadInput(f"{at(path, row)}: is not an object", "write one event per line")
        entry = JournalEntry(path, row, values)
        if journal is None:
            journal = _opened_by(entry)
        else:
            journal.apply(entry)
    if journal is None:
        raise BadInput(f"{path} is empty", f'a journal begins with {{"{MARK}": {VERSION}}}')
    note_count(notes, path, journal.unknown_events, "events skipped: unknown kind")
    return _workload(journal, notes)


def _opened_by(entry: JournalEntry) -> _Journal:
    """Return the journal that a first line opens."""
    version = entry.values.get(MARK)
    if version != VERSION:
        raise entry.wrong(MARK, f"is not {VERSION}", "this version of flyball reads 1 only")
    codes = {}
    for names in NAMED.values():
        listed = entry.values.get(names, [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise entry.wrong(names, "is not a list of names", "write names in quotes")
        codes[names] = {name: code for code, name in enumerate(listed)}
    limits = entry.values.get("array_limits", [])
    if not isinstance(limits, list) or not all(
        isinstance(limit, int) and 1 <= limit <= MAX_LIMIT for limit in limits
    ):
        raise entry.wrong("array_limits", "is not a list of whole numbers from 1", "correct it")
    return _Journal(entry.path, entry.text("name") or entry.path.name, codes, tuple(limits))


def _submitted(entry: JournalEntry, groups: int) -> JournalJob:
    values = entry.values
    after = values.get("after", [])
    if not isinstance(after, list) or not all(isinstance(job, str) for job in after):
        raise entry.wrong("after", "is not a list of ids", "write ids in quotes")
    kind = entry.one_of("class", CLASS_LABELS, "")
    columns = (
        round(entry.us("time_s")),
        entry.whole("devices", 0, MAX_DEVICES),
        entry.whole("gpu_milli", 1, MILLI_PER_DEVICE, MILLI_PER_DEVICE),
        entry.whole("memory_mib", 0, MAX_MIB, 0),
        CLASS_LABELS.index(kind) if kind else NOT_STATED,
        float(entry.number("priority", -1e300, 1e300, 0)),
        float(entry.us("estimate_s")) if "estimate_s" in values else np.nan,
        round(entry.us("limit_s")) if "limit_s" in values else 0,
        entry.whole("array", 0, groups - 1) if "array" in values else NOT_STATED,
        entry.whole("cpu_milli", 0, MAX_LIMIT, 0),
        entry.whole("host_mib", 0, MAX_LIMIT, 0),
    )
    return JournalJob(
        entry.row,
        columns,
        [entry.text(name) for name in NAMED],
        after,
        OUTCOMES.index(entry.one_of("outcome", OUTCOMES, OUTCOMES[0])),
        entry.us("duration_s") if "duration_s" in values else None,
        start_us=_instant_us(entry, "recorded_start_s"),
        end_us=_instant_us(entry, "recorded_end_s"),
    )


def _instant_us(entry: JournalEntry, name: str) -> int:
    """Return an instant in whole microseconds, -1 if it is not there."""
    return round(entry.us(name)) if name in entry.values else NOT_STATED


def _workload(journal: _Journal, notes: list[str]) -> Workload:
    path, jobs = journal.path, journal.jobs
    unknown = [(job, other) for job in jobs for other in jobs[job].after if other not in jobs]
    if unknown:
        name, other = unknown[0]
        why = "is not the id of a job"
        raise fault(path, jobs[name].row, "after", other, why, "name a job of this file")
    kept = {name: job for name, job in jobs.items() if _duration_us(job) is not None}
    waiting = sum(not job.ended for job in jobs.values() if _duration_us(job) is None)
    note_count(notes, path, waiting, "jobs left out: not ended")
    note_count(notes, path, len(jobs) - len(kept) - waiting, "jobs left out: never started")
    if not kept:
        raise BadInput(f"{path} has no job that ended", "a job needs a run time or an end")
    index = {name: i for i, name in enumerate(kept)}
    pairs = [(index[job], index[on]) for job in kept for on in kept[job].after if on in index]
    dropped = sum(len(job.after) for job in kept.values()) - len(pairs)
    note_count(notes, path, dropped, "waits on jobs left out dropped")
    after_job, after_on = np.array(pairs, np.int64).reshape(-1, 2).T
    refuse_cycle(path, np.array(list(kept)), after_job, after_on)
    by_column = zip(*(job.columns for job in kept.values()), strict=True)
    columns: dict[str, Any] = dict(zip(COLUMNS, by_column, strict=True))
    for index_of_name, (name, names) in enumerate(NAMED.items()):
        codes = journal.codes[names]
        values = [job.names[index_of_name] for job in kept.values()]
        columns[name] = [
            NOT_STATED if value is None else codes.setdefault(value, len(codes)) for value in values
        ]
        columns[names] = tuple(codes)
    durations = [float(_duration_us(job) or 0) for job in kept.values()]
    return Workload.of(
        journal.name, np.zeros(len(kept)), 0.0, ids=list(kept), duration_us=durations,
        row=[job.row for job in kept.values()],
        start_us=[job.start_us for job in kept.values()],
        end_us=[job.end_us for job in kept.values()],
        outcome=[job.outcome for job in kept.values()], group_limits=journal.group_limits,
        after_job=after_job, after_on=after_on, **columns,
    )  # fmt: skip


def _duration_us(job: JournalJob) -> int | Decimal | None:
    """Return the run time as stated, else as measured; None if the job has not run to its end."""
    if job.duration_us is not None:
        return job.duration_us
    return job.run_us if job.ended and job.starts else None
