"""Jobs of Slurm's accounting, in any format it is printed in; used by `sacct` and `sacct_json`.

A reader turns every job into a `Record` and adds it to `Accounts`, which decides what is a job for
the twin and notes what is left out. `docs/reference/traces.md` has the rules.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.units import S_PER_MIN
from flyball.core.workload import Workload
from flyball.physics.catalogue import CORE
from flyball.twin.inputs.traces.gpus import GpuShare, device_of, gathered, slice_of
from flyball.twin.inputs.traces.job_rows import Draft, note_count, note_types, workload_of

OUTCOME_OF = {
    "COMPLETED": Outcome.COMPLETED,
    "FAILED": Outcome.FAILED,
    "TIMEOUT": Outcome.FAILED,
    "NODE_FAIL": Outcome.FAILED,
    "OUT_OF_MEMORY": Outcome.FAILED,
    "BOOT_FAIL": Outcome.FAILED,
    "LAUNCH_FAILED": Outcome.FAILED,
    "DEADLINE": Outcome.FAILED,
    "CANCELLED": Outcome.CANCELLED,
    "PREEMPTED": Outcome.CANCELLED,
    "REVOKED": Outcome.CANCELLED,
}
"""Outcome of each state in which a job has ended; in all other states it has not ended."""

Gpus = tuple[tuple[str, int], ...]
"""GPU entries of a list of resources: type ("" = the total) and count."""

NO_GPU = "jobs left out: no GPU, and the twin schedules devices"


class Record(NamedTuple):
    """Holds one job as Slurm recorded it.

    Attributes:
        row: its row in the file.
        id: as Slurm writes it: `7`, `7_3` (task of an array), `7+1` (part of a
            heterogeneous job).
        state: the first word, in capitals.
        submit_s, eligible_s: seconds since 1970, None = not known.
        elapsed_s: run time, None = not known.
        started: whether it ever ran.
        limit_s: its time limit, None = none.
        gpus: allocated GPUs, else requested ones.
        account, user: "" = not known.
        array, array_limit, start_s: as in a `Draft`.
        cores: allocated cores, else requested ones; 0 = not known.
    """

    row: int
    id: str
    state: str
    submit_s: float | None
    eligible_s: float | None
    elapsed_s: float | None
    started: bool
    limit_s: float | None
    gpus: Gpus
    account: str
    user: str
    array: str = ""
    array_limit: int = 0
    start_s: float | None = None
    cores: int = 0


class Accounts:
    """Collects records and returns the workload of those that are jobs for the twin.

    Devices are GPUs where any job has one: jobs without are left out. A file in which none has a
    GPU is that of a cluster of CPUs, whose devices are cores.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.drafts: dict[str, Draft] = {}
        self.first_submit_s: dict[str, float] = {}
        self.left_out: Counter[str] = Counter()
        self.not_ended: list[tuple[str, str]] = []
        self.unknown_types: Counter[str] = Counter()
        self.on_cores: list[Record] = []
        self.has_gpus = False
        self.again = self.held = self.parts = self.mixed = 0

    def add(self, record: Record) -> None:
        """Add a job, or count why it is left out."""
        if record.gpus:
            self.has_gpus = True
            self.on_cores.clear()
            self._add(record)
            return
        self.left_out[NO_GPU] += 1
        if record.cores and not self.has_gpus:
            self.on_cores.append(record)

    def _add(self, record: Record) -> None:
        """Add a job with devices, or count why it is left out."""
        if record.submit_s is None:
            self.left_out["jobs left out: no submission time"] += 1
        elif record.state not in OUTCOME_OF:
            self.not_ended.append((record.id, record.state))
            self._remember(record.id, record.submit_s)
        elif not record.started or record.elapsed_s is None:
            self.left_out["jobs left out: never started"] += 1
        else:
            if record.id in self.drafts:
                self.again += 1
                self._remember(record.id, self.drafts[record.id].submit_s)
            self.drafts[record.id] = self._draft(record, record.submit_s, record.elapsed_s)

    def _remember(self, id: str, submit_s: float) -> None:
        """Remember the submission of an earlier attempt as that of the job."""
        self.first_submit_s[id] = min(submit_s, self.first_submit_s.get(id, submit_s))

    def _draft(self, record: Record, submit_s: float, elapsed_s: float) -> Draft:
        share, type_name = _share(record.gpus) if record.gpus else (GpuShare(record.cores), CORE)
        device = device_of(type_name) if type_name else ""
        if type_name and not device:
            self.unknown_types[type_name] += 1
        self.mixed += len({name for name, _ in record.gpus if name}) > 1
        self.held += record.eligible_s is not None and record.eligible_s - submit_s >= 1.0
        self.parts += "+" in record.id
        limit_s = 0.0
        if record.state == "TIMEOUT":  # it reached its limit, and would reach it again
            limit_s = elapsed_s if record.limit_s is None else record.limit_s
        return Draft(
            record.row, record.id, submit_s, elapsed_s, *share, 0.0, device, record.account,
            record.user, record.limit_s, limit_s, OUTCOME_OF[record.state], record.array,
            record.array_limit, record.start_s,
        )  # fmt: skip

    def workload(self, notes: list[str]) -> Workload:
        """Return the jobs; add notes on what was left out and how some were read.

        Raises:
            BadInput: there are no jobs.
        """
        if self.on_cores:
            self.left_out[NO_GPU] -= len(self.on_cores)
            for record in self.on_cores:
                self._add(record)
            notes.append(f"{self.path.name}: no job has a GPU: a device of a job is a core")
        for job, state in self.not_ended:
            if job in self.drafts:  # requeued at that time, ended since
                self.again += 1
            else:
                self.left_out[f"jobs left out: not ended ({state.lower() or 'no state'})"] += 1
        for what, count in self.left_out.items():
            note_count(notes, self.path, count, what)
        note_count(notes, self.path, self.again, "earlier attempts folded into the last one")
        note_count(
            notes, self.path, self.held,
            "jobs could start only later than submitted (dependency, array limit or begin "
            "time); the twin takes them from submission",
        )  # fmt: skip
        note_count(
            notes, self.path, self.parts, "parts of heterogeneous jobs taken as jobs of their own"
        )
        note_count(
            notes, self.path, self.mixed, "jobs with several GPU types taken as all of one type"
        )
        note_types(notes, self.path, self.unknown_types)
        if not self.drafts:
            why = "; ".join(f"{count:,} {what}" for what, count in self.left_out.items())
            raise BadInput(
                f"{self.path} has no GPU job that ran and ended{f' ({why})' if why else ''}",
                "take a longer time and all users: sacct -a -S ... -E ...",
            )
        for job in self.first_submit_s.keys() & self.drafts.keys():
            draft, first_s = self.drafts[job], self.first_submit_s[job]
            self.drafts[job] = draft._replace(submit_s=min(draft.submit_s, first_s))
        return workload_of(self.path, list(self.drafts.values()))


@lru_cache(maxsize=65_536)
def _share(gpus: Gpus) -> tuple[GpuShare, str]:
    """Return what GPU entries ask for, and the name of the type with the most devices."""
    total = sum(count for name, count in gpus if not name)
    typed = [(name, count) for name, count in gpus if name]
    slices = [(slice_, count) for name, count in typed if (slice_ := slice_of(name))]
    name = max(typed, key=lambda entry: entry[1])[0] if typed else ""
    if typed and len(slices) == len(typed):
        return gathered(slices), name
    return GpuShare(total or sum(count for _, count in typed)), name


@lru_cache(maxsize=65_536)
def gpus_of(text: str) -> Gpus:
    """Return the GPU entries of `billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G`.

    Raises:
        ValueError: a count is not a whole number.
    """
    gpus = []
    for entry in text.split(","):
        name, _, count = entry.partition("=")
        if name == "gres/gpu" or name.startswith("gres/gpu:"):
            gpus.append((name[len("gres/gpu:") :], int(count)))
    return tuple((name, count) for name, count in gpus if count > 0)


@lru_cache(maxsize=65_536)
def cores_of(text: str) -> int:
    """Return the cores of `billing=8,cpu=8,mem=64G`, 0 if it names none.

    Raises:
        ValueError: the count is not a whole number.
    """
    entries = dict(entry.partition("=")[::2] for entry in text.split(","))
    return int(entries.get("cpu") or 0)


@lru_cache(maxsize=65_536)
def span_s(text: str) -> float | None:
    """Return `1-02:03:04`, `02:03:04` or `03:04.5` in seconds; None for "no limit" words.

    Raises:
        ValueError: anything else.
    """
    if text.strip().lower() in ("", "unlimited", "partition_limit", "invalid", "none", "unknown"):
        return None
    days, dash, clock = text.rpartition("-")
    parts = [float(part) for part in clock.split(":")]
    if not 1 < len(parts) <= 3 or min(parts) < 0:
        raise ValueError(text)
    seconds = 0.0
    for part in parts:
        seconds = seconds * S_PER_MIN + part
    return seconds + (int(days) * 86_400 if dash else 0)
