"""A live job: what its owner asked for, and where it stands. The words are Slurm's.

Ids are whole numbers from 1, in the order of submission; the tasks of an array have ids of their
own and share `array`. Times are microseconds since 1970.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Self

from flyball.core.errors import BadInput


class JobState(StrEnum):
    """Where a job stands. Everything but the first three is final."""

    PENDING = "PENDING"  # waits: for devices, other jobs, its array, or after a preemption
    RUNNING = "RUNNING"  # an attempt is intended or alive
    COMPLETING = "COMPLETING"  # told to stop; its processes are not gone yet
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"  # ended with another exit code than 0
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"  # killed by its own limit
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"  # its supervisor was lost and it is not to be run again
    BOOT_FAIL = "BOOT_FAIL"  # could not be started: no such program, no such folder

    @property
    def final(self) -> bool:
        return self not in ACTIVE


ACTIVE = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETING)


class Dependency(StrEnum):
    """When a job may follow another."""

    AFTEROK = "afterok"
    AFTERANY = "afterany"
    AFTERNOTOK = "afternotok"


_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class SpecValues(dict[str, Any]):
    """Plain values that still know the spec they come from: it need not be made again."""

    __slots__ = ("_text", "spec")
    spec: object
    _text: str

    def text(self) -> str:
        """As JSON, made once; equal for equal values."""
        try:
            return self._text
        except AttributeError:
            self._text = _encode(self)
            return self._text


@dataclass(frozen=True)
class JobSpec:
    """What is asked for.

    Attributes:
        argv: the command and its arguments; never seen by a shell.
        name: for people; default: the command's own name.
        cwd: absolute; where it runs.
        env: added to a small, clean environment.
        user, tenant: who asks, and on whose account.
        cpus: cores.
        gpus: devices; 0 = none.
        least, most: how many devices (cores, if it asks for no other) it can go on with while it
            runs; 0 = only with what it asks for.
        milli: thousandths of each device, 1..1000.
        memory_mib: host memory, a limit; 0 = not stated.
        max_processes: processes and threads at a time, a limit; 0 = the server's default.
        limit_s: killed after this long; 0 = never.
        estimate_s: what the owner expects it to take; 0 = not stated.
        priority: higher goes first.
        kind: workload class (`compute-intensive`, ...), "" = to be classified.
        model: what it trains, if stated.
        after: (how, job) pairs it waits for.
        array, array_index, array_limit: the id of the array's first task, the number of this task,
            tasks at a time (0 = any number).
        requeue: whether it may run again after its node or supervisor was lost.
        preemptible: whether it may be set aside.
        grace_s: between SIGTERM and SIGKILL.
        checkpoint_signal: sent, if not 0, before SIGTERM when it is set aside.
        nice: niceness of its processes, 0..19.
        stdout: absolute path of its output; "" = under the state folder.
        stderr: absolute path of its error output; "" = together with stdout.
        hold: it does not start until somebody releases it.
        begin_time: it does not start before, in seconds since 1970; 0 = at once.
        signal_before_s: its checkpoint signal is also sent this long before its limit; 0 = not.
        signal_children: that goes to the programs its process started, not to the process itself.
        notify: told of its end, each a URL or a command with its arguments.
    """

    argv: tuple[str, ...]
    name: str = ""
    cwd: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    user: str = ""
    tenant: str = ""
    cpus: int = 1
    gpus: int = 0
    milli: int = 1000
    memory_mib: int = 0
    limit_s: float = 0.0
    estimate_s: float = 0.0
    priority: float = 0.0
    kind: str = ""
    model: str = ""
    after: tuple[tuple[str, int], ...] = ()
    array: int = 0
    array_index: int = -1
    array_limit: int = 0
    requeue: bool = True
    preemptible: bool = True
    grace_s: float = 5.0
    checkpoint_signal: int = 0
    nice: int = 0
    stdout: str = ""
    least: int = 0
    most: int = 0
    max_processes: int = 0
    stderr: str = ""
    hold: bool = False
    begin_time: float = 0.0
    signal_before_s: float = 0.0
    signal_children: bool = False
    notify: tuple[tuple[str, ...], ...] = ()

    @property
    def elastic(self) -> bool:
        """Whether its number of devices may change while it runs."""
        return self.least > 0

    @property
    def separate_stderr(self) -> bool:
        """Whether its error output goes to a file other than its output."""
        return self.stderr not in ("", self.stdout)

    def as_dict(self) -> SpecValues:
        """Plain values, only those that differ from the default; shares what it holds."""
        own = self.__dict__
        made = SpecValues({name: own[name] for name in own if own[name] != DEFAULTS[name]})
        made.spec = self
        return made

    @classmethod
    def of(cls, values: dict[str, Any], ignore_unknown: bool = False) -> Self:
        """The spec that `as_dict` gave.

        Args:
            ignore_unknown: leave out fields of a newer version.

        Raises:
            BadInput: a field that there is not.
        """
        if isinstance(values, SpecValues) and isinstance(values.spec, cls):
            return values.spec
        if ignore_unknown:
            values = {name: values[name] for name in values if name in DEFAULTS}
        if extra := sorted(values.keys() - DEFAULTS.keys()):
            known = ", ".join(DEFAULTS)
            raise BadInput(f"unknown field {extra[0]!r} in a job", f"known: {known}")
        values = {**values, "argv": tuple(values["argv"])}
        if "after" in values:
            values["after"] = tuple((str(how), int(job)) for how, job in values["after"])
        if "notify" in values:
            values["notify"] = tuple(tuple(target) for target in values["notify"])
        return cls(**values)


request_of = attrgetter(
    *("cpus", "gpus", "milli", "least", "most", "memory_mib", "limit_s", "estimate_s"),
    *("priority", "kind", "model", "user", "tenant", "array", "array_limit", "max_processes"),
)
"""All of a spec that the scheduler or the check of its limits reads, but not whom it waits for."""

DEFAULTS: dict[str, Any] = {
    each.name: {} if each.name == "env" else None if each.name == "argv" else each.default
    for each in fields(JobSpec)
}
"""What a field is if nobody says anything; a command must be said."""


@dataclass(frozen=True)
class Row:
    """A part of an allocation: devices of one node."""

    node: int
    mask: int


@dataclass(frozen=True)
class Job:
    """A job as the journal knows it.

    Attributes:
        attempt: the number of its last attempt, 0 = never intended to run.
        rows: where that attempt runs, while it does.
        since_us: when the attempt was intended; of a job that pends again: when it came back.
        started_us: when its processes began; 0 = not known (yet).
        stopping: why it was told to stop ("cancel", "preempt"), "" = it was not.
        service_us: device time of ended attempts.
        preemptions, failures: attempts that ended so.
        values: what is known of its end: exit code, signal, cpu_s, max_rss_mib, peak_mib, energy_j,
            ...
    """

    id: int
    spec: JobSpec
    submit_us: int
    state: JobState = JobState.PENDING
    attempt: int = 0
    rows: tuple[Row, ...] = ()
    since_us: int = 0
    started_us: int = 0
    first_start_us: int = 0
    end_us: int = 0
    stopping: str = ""
    service_us: float = 0.0
    preemptions: int = 0
    failures: int = 0
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def submitted(cls, job_id: int, spec: JobSpec, submit_us: int) -> Self:
        """One that has just been accepted: as by the constructor, at a quarter of its cost."""
        made = object.__new__(cls)
        made.__dict__.update(_SUBMITTED, id=job_id, spec=spec, submit_us=submit_us, values={})
        return made

    @property
    def label(self) -> str:
        """As people write it: `12`, or `12_3` for a task of an array."""
        if self.spec.array:
            return f"{self.spec.array}_{self.spec.array_index}"
        return str(self.id)


_SUBMITTED: dict[str, Any] = dict(vars(Job(0, JobSpec(()), 0)))
"""A job of which nothing is known yet; in the order of its fields."""
