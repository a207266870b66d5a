"""Slurm's accounting as `sacct --parsable2` prints it: a header, then fields between bars.

Times are local and without a zone, so the hour repeated in autumn is ambiguous: run times are
taken from `ElapsedRaw` or `Elapsed` where the file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from flyball.core.errors import BadInput, at
from flyball.core.units import S_PER_HOUR, S_PER_MIN
from flyball.core.workload import Workload
from flyball.twin.inputs.traces.files import opened
from flyball.twin.inputs.traces.job_rows import note_count, seconds_since_1970
from flyball.twin.inputs.traces.slurm import Accounts, Gpus, Record, cores_of, gpus_of, span_s
from flyball.twin.inputs.traces.table import fault

BAR = "|"
ASK = (
    "ask for it: sacct -a -X -P -S ... -o JobID,User,Account,Submit,Eligible,Start,End,"
    "ElapsedRaw,TimelimitRaw,State,ReqTRES,AllocTRES"
)
NO_TIME = ("", "unknown", "none", "n/a")
NEEDED = (("jobid", "jobidraw"), ("submit",), ("state",), ("alloctres", "reqtres"))
NAMES = {
    "jobid": "JobID", "submit": "Submit", "state": "State", "alloctres": "AllocTRES",
}  # fmt: skip

Value = TypeVar("Value")


def read(path: Path, notes: list[str]) -> Workload:
    """Read the output of sacct; `docs/reference/traces.md` lists what is left out."""
    accounts = Accounts(path)
    turned_back = 0
    for line in _lines(path):
        record, clock_set_back = line.record()
        turned_back += clock_set_back
        accounts.add(record)
    note_count(
        notes, path, turned_back,
        "jobs end before they start by less than an hour: taken as the clock set back",
    )  # fmt: skip
    return accounts.workload(notes)


class _Line:
    """Holds one row: its fields by name in lower case."""

    def __init__(self, path: Path, row: int, names: list[str], texts: list[str]) -> None:
        self.path, self.row = path, row
        self.texts = dict(zip(names, texts, strict=True))

    def record(self) -> tuple[Record, bool]:
        """Return the job, and whether its times only make sense with the clock set back."""
        get = self.texts.get
        elapsed_s, clock_set_back = self.elapsed_s(), False
        if elapsed_s is None:
            elapsed_s, clock_set_back = self.between_start_and_end_s()
        submit_s = self.time("submit")
        same = get("eligible") == get("submit")
        words = get("state", "").split()
        record = Record(
            self.row,
            get("jobid") or get("jobidraw") or "",
            words[0].rstrip("+").upper() if words else "",
            submit_s,
            submit_s if same else self.time("eligible"),
            elapsed_s,
            bool(elapsed_s) or self.was_placed(),
            self.limit_s(),
            self.gpus("alloctres") or self.gpus("reqtres"),
            get("account", ""),
            get("user", ""),
            start_s=self.time("start"),
            cores=self.cores("alloctres") or self.cores("reqtres"),
        )
        return record, clock_set_back

    def between_start_and_end_s(self) -> tuple[float | None, bool]:
        """Return the run time by the clock, and whether the clock must have been set back in it."""
        start_s, end_s = self.time("start"), self.time("end")
        if start_s is None or end_s is None:
            return None, False
        if end_s - start_s < -S_PER_HOUR:
            raise self.wrong("end", "is before its start", "correct or remove the row")
        clock_set_back = end_s < start_s
        return end_s - start_s + clock_set_back * S_PER_HOUR, clock_set_back

    def was_placed(self) -> bool:
        """Return whether a job without run time ever got its devices."""
        if self.texts.get("alloctres") == "":
            return False
        return "start" not in self.texts or self.time("start") is not None

    def time(self, name: str) -> float | None:
        """Return an instant, None if it is not there or not known."""
        text = self.texts.get(name, "")
        if text.lower() in NO_TIME:
            return None
        return self.parse(name, _instant, "is not a time", "e.g. 2024-05-31T13:45:00")

    def elapsed_s(self) -> float | None:
        if self.texts.get("elapsedraw"):
            return self.parse("elapsedraw", _plain_seconds, "is not a number of seconds", ASK)
        if self.texts.get("elapsed"):
            return self.parse("elapsed", span_s, "is not a time span", "e.g. 1-02:03:04")
        return None

    def limit_s(self) -> float | None:
        """Return the time limit in seconds; 0 and words mean none."""
        if self.texts.get("timelimitraw"):
            limit_s = self.parse("timelimitraw", _minutes, "is not a number of minutes", ASK)
        else:
            limit_s = self.parse("timelimit", span_s, "is not a time span", "e.g. 1-02:03:04")
        return limit_s or None

    def gpus(self, name: str) -> Gpus:
        return self.parse(name, gpus_of, "has a count that is not a number", "e.g. gres/gpu=2")

    def cores(self, name: str) -> int:
        return self.parse(name, cores_of, "has a count that is not a number", "e.g. cpu=8")

    def parse(self, name: str, convert: Callable[[str], Value], why: str, remedy: str) -> Value:
        """Return a field converted by a function that may refuse it."""
        try:
            return convert(self.texts.get(name, ""))
        except ValueError:
            raise self.wrong(name, why, remedy) from None

    def wrong(self, name: str, why: str, remedy: str) -> BadInput:
        return fault(self.path, self.row, name, self.texts.get(name, ""), why, remedy)


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the rows of jobs; steps (`7.batch`) are skipped, their job has its own row."""
    with opened(path) as lines:
        names: list[str] = []
        for row, line in enumerate(lines, 1):
            texts = line.rstrip("\r\n").split(BAR)
            if not names and line.strip():
                names = _header(path, row, texts)
            elif names and line.strip():
                if len(texts) == len(names) + 1 and texts[-1] == "":  # --parsable ends in a bar
                    texts.pop()
                if len(texts) != len(names):
                    raise BadInput(
                        f"{at(path, row)}: {len(texts)} fields, the header has {len(names)}",
                        "leave out columns whose text may hold a bar (JobName, Comment)",
                    )
                parsed = _Line(path, row, names, texts)
                if "." not in (parsed.texts.get("jobid") or parsed.texts.get("jobidraw") or ""):
                    yield parsed
    if not names:
        raise BadInput(f"{path} is empty", "sacct prints a header and a row for each job")


def _header(path: Path, row: int, texts: list[str]) -> list[str]:
    names = [text.strip().lower() for text in texts]
    if names[-1] == "":
        names.pop()
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{at(path, row)}: column {name!r} appears twice", "remove one")
    for choice in NEEDED:
        if not set(choice) & set(names):
            raise BadInput(f"{at(path, row)}: no column {NAMES[choice[0]]!r}", ASK)
    if not {"elapsedraw", "elapsed"} & set(names) and not {"start", "end"} <= set(names):
        raise BadInput(f"{at(path, row)}: no column 'ElapsedRaw'", ASK)
    return names


def _instant(text: str) -> float:
    """Return the seconds of an ISO time or of whole seconds since 1970 (SLURM_TIME_FORMAT=%s)."""
    return float(text) if text.isdecimal() else seconds_since_1970(text)


def _plain_seconds(text: str) -> float:
    if not text.isdecimal():
        raise ValueError(text)
    return float(text)


def _minutes(text: str) -> float | None:
    return float(text) * S_PER_MIN if text.isdecimal() else span_s(text)
