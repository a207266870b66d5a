"""A live job: what its owner asked for, and its state. State names are Slurm's.

Ids are whole numbers from 1, in the order of submission; every task of an array has its own id, and
they share `array`. Times are microseconds since 1970.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Self

from flyball.core.errors import BadInput


class JobState(StrEnum):
    """The state of a job. Everything but the first three is final."""

    PENDING = "PENDING"  # waits: for devices, other jobs, its array, or after a preemption
    RUNNING = "RUNNING"  # an attempt is intended or alive
    COMPLETING = "COMPLETING"  # asked to stop; its processes are not gone yet
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"  # ended with an exit code other than 0
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"  # killed at its time limit
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"  # its supervisor was lost and it may not be requeued
    BOOT_FAIL = "BOOT_FAIL"  # could not be started: no such program, no such folder

    @property
    def final(self) -> bool:
        return self not in ACTIVE


ACTIVE = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETING)


class Dependency(StrEnum):
    """The condition on another job under which a job may start."""

    AFTEROK = "afterok"
    AFTERANY = "afterany"
    AFTERNOTOK = "afternotok"


_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class SpecValues(dict[str, Any]):
    """The plain values of a spec, with a reference to that spec so that it need not be rebuilt."""

    __slots__ = ("_text", "spec")
    spec: object
    _text: str

    def text(self) -> str:
        """Return the values as JSON, encoded once; equal values give equal texts."""
        try:
            return self._text
        except AttributeError:
            self._text = _encode(self)
            return self._text


@dataclass(frozen=True)
class JobSpec:
    """What the owner of a job asks for.

    Attributes:
        argv: the command and its arguments; not passed through a shell.
        name: for people; default: the name of the command.
        cwd: absolute path of the working directory.
        env: added to a small, clean environment.
        user, tenant: who submitted it, and on whose account.
        cpus: cores.
        gpus: devices; 0 = none.
        least, most: minimum and maximum of devices (cores, if it asks for no other) while it runs;
            0 = it cannot be resized.
        milli: thousandths of each device, 1..1000.
        memory_mib: limit of host memory; 0 = not stated.
        max_processes: limit of processes and threads at a time; 0 = the server's default.
        limit_s: time limit, after which it is killed; 0 = none.
        estimate_s: run time that the owner expects; 0 = not stated.
        priority: higher goes first.
        kind: workload class (`compute-intensive`, ...), "" = to be classified.
        model: what it trains, if stated.
        after: (how, job) pairs it waits for.
        array, array_index, array_limit: the id of the array's first task, the number of this task,
            tasks at a time (0 = any number).
        requeue: whether it may run again after its node or supervisor was lost.
        preemptible: whether it may be preempted.
        grace_s: time between SIGTERM and SIGKILL.
        checkpoint_signal: sent, if not 0, before SIGTERM when it is preempted.
        nice: niceness of its processes, 0..19.
        stdout: absolute path of its output; "" = under the state folder.
        stderr: absolute path of its error output; "" = together with stdout.
        hold: it does not start until it is released.
        begin_time: earliest start, in seconds since 1970; 0 = at once.
        signal_before_s: the checkpoint signal is also sent this long before the limit; 0 = not.
        signal_children: send that signal to the children of its process, not to the process itself.
        notify: targets to notify of its end, each a URL or a command with its arguments.
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
        """Return the values that differ from their defaults; they are shared, not copied."""
        attributes = self.__dict__
        values = SpecValues(
            {name: attributes[name] for name in attributes if attributes[name] != DEFAULTS[name]}
        )
        values.spec = self
        return values

    @classmethod
    def of(cls, values: dict[str, Any], ignore_unknown: bool = False) -> Self:
        """Return the spec of these values, the inverse of `as_dict`.

        Args:
            ignore_unknown: leave out fields of a newer version.

        Raises:
            BadInput: an unknown field.
        """
        if isinstance(values, SpecValues) and isinstance(values.spec, cls):
            return values.spec
        if ignore_unknown:
            values = {name: values[name] for name in values if name in DEFAULTS}
        if extra := sorted(values.keys() - DEFAULTS.keys()):
            raise BadInput(f"unknown field {extra[0]!r} in a job", f"known: {', '.join(DEFAULTS)}")
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
"""Returns every value of a spec that the scheduler or the check of limits reads, except `after`."""

DEFAULTS: dict[str, Any] = {
    entry.name: {} if entry.name == "env" else None if entry.name == "argv" else entry.default
    for entry in fields(JobSpec)
}
"""Default of every field; `argv` has none and must be stated."""


@dataclass(frozen=True)
class Row:
    """A part of an allocation: devices of one node."""

    node: int
    mask: int


@dataclass(frozen=True)
class Job:
    """A job as recorded in the journal.

    Attributes:
        attempt: the number of its last attempt, 0 = never intended to run.
        rows: where that attempt runs, while it does.
        since_us: when the attempt was intended; of a requeued job: when it was requeued.
        started_us: when its processes began; 0 = not known (yet).
        stopping: why it was asked to stop ("cancel", "preempt"), "" = it was not.
        service_us: device time of ended attempts.
        preemptions, failures: attempts that ended so.
        values: figures of its end: exit code, signal, cpu_s, max_rss_mib, peak_mib, energy_j, ...
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
        """Return a job just accepted: the same as the constructor's, at a quarter of the cost."""
        job = object.__new__(cls)
        job.__dict__.update(_SUBMITTED, id=job_id, spec=spec, submit_us=submit_us, values={})
        return job

    @property
    def label(self) -> str:
        """The id as users write it: `12`, or `12_3` for a task of an array."""
        if self.spec.array:
            return f"{self.spec.array}_{self.spec.array_index}"
        return str(self.id)


_SUBMITTED: dict[str, Any] = dict(vars(Job(0, JobSpec(()), 0)))
"""Field values of a job that was just submitted, in the order of its fields."""
