"""A live job: what its owner asked for, and its state. State names are Slurm's.

Ids are whole numbers from 1, in the order of submission; every task of an array has its own id, and
they share `array`. Times are microseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Any, Self

from flyball.core.errors import BadInput
from flyball.core.job_fields import DEFAULTS as DEFAULTS
from flyball.core.job_fields import FIELDS, JobFields
from flyball.core.job_fields.forms import Names, Structure


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
class JobSpec(JobFields):
    """What the owner of a job asks for: the fields of `core.job_fields`."""

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
        stated = dict(values)
        for name, restore in RESTORED.items():
            if name in stated:
                stated[name] = restore(stated[name])
        return cls.with_values(stated)

    @classmethod
    def with_values(cls, values: dict[str, Any]) -> Self:
        """Return the spec of values of the right types; faster than the constructor."""
        spec = object.__new__(cls)
        spec.__dict__.update(DEFAULTS, argv=values["argv"], env={})
        spec.__dict__.update(values)
        return spec


RESTORED: dict[str, Callable[[Any], Any]] = {
    name: row.form.restore if isinstance(row.form, Structure) else tuple
    for name, row in FIELDS.items()
    if isinstance(row.form, Structure | Names)
}
"""Converts the values of some fields from JSON, which has lists and no tuples."""

request_of = attrgetter(*(name for name, row in FIELDS.items() if row.scheduled))
"""Returns every value of a spec that the scheduler or the check of limits reads, except `after`."""


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
