"""Events: what the journal keeps for ever, in order. A frozen class per kind.

    event = Intended(now_us, 17, 1, rows=[(0, 3)], decision=5)
    event.as_dict()         {"kind": "intended", "time_us": ..., "job": 17, "attempt": 1, ...}
    event_of(record)        the event of such a mapping

A field without a default is always recorded. The only other default is None, and such a field is
left out of the record while it is None: a record that is read and written again stays the same.

A change that old readers cannot pass over (another meaning, another required field) raises `form`,
which is recorded from 2 on, and `upgraded` turns the older records into the new form. A field of a
newer version is ignored, an event of a kind from a newer version is `Unknown`.
docs/reference/journal.md is printed from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, Self

from flyball.core.jobs import Job

Rows = Sequence[Sequence[int]]
"""Devices: (node, mask) pairs."""
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    kind: ClassVar[str]
    form: ClassVar[int] = 1
    time_us: Annotated[int, "when, in microseconds since 1970"]

    def as_dict(self) -> dict[str, Any]:
        """Return the event as it is recorded; the values are shared, not copied."""
        always, optional = field_names(type(self))
        record: dict[str, Any] = {"kind": self.kind}
        if self.form > 1:
            record["form"] = self.form
        for name in always:
            record[name] = getattr(self, name)
        for name in optional:
            value = getattr(self, name)
            if value is not None:
                record[name] = value
        return record

    @classmethod
    def upgraded(cls, record: Values) -> Values:
        """Return a record of an older form in this one; overridden where `form` is above 1."""
        return record


@dataclass(frozen=True, slots=True)
class JobEvent(Event):
    """Something that happened to a job."""

    job: Annotated[int, "number of the job"]


@dataclass(frozen=True, slots=True)
class AttemptEvent(JobEvent):
    """Something that happened to an attempt of a job, or to a job during one."""

    attempt: Annotated[int, "number of the job's attempt; 0 = it has never run"]


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """An event of a kind that this version does not know. It keeps its place and changes nothing.

    Attributes:
        record: the whole event, as recorded.
    """

    kind = "unknown"
    record: Values

    def as_dict(self) -> dict[str, Any]:
        """Return the event as it was recorded."""
        return dict(self.record)


# The life of a job ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submitted(JobEvent):
    """A job was accepted."""

    kind = "submitted"
    spec: Annotated[dict[str, Any], "what its owner asked for: `JobSpec.as_dict`"]
    who: Annotated[str | None, "who submitted it"] = None


@dataclass(frozen=True, slots=True)
class Intended(AttemptEvent):
    """An attempt is to start; recorded before the engine gets the launch."""

    kind = "intended"
    rows: Annotated[Rows, "its devices: (node, mask) pairs"]
    decision: Annotated[int, "number of the decision; 0 = it continues elsewhere after a move"]

    @classmethod
    def next_attempt(cls, job: Job, time_us: int, rows: Rows, decision: int) -> Self:
        """Return the event with which the next attempt of a job begins."""
        return cls(time_us, job.id, job.attempt + 1, rows, decision)


@dataclass(frozen=True, slots=True)
class Started(AttemptEvent):
    """The processes of an attempt began."""

    kind = "started"
    began_us: Annotated[int, "when they began"]
    pid: Annotated[int | None, "process id of the supervisor"] = None
    rows: Annotated[Rows | None, "its devices, if the engine placed it otherwise than intended"] = (
        None
    )


@dataclass(frozen=True, slots=True)
class Accepted(AttemptEvent):
    """A queue behind the engine, such as Slurm's, took an attempt; it starts only after this."""

    kind = "accepted"
    reference: Annotated[str, "its number in that queue"]


@dataclass(frozen=True, slots=True)
class Queued(AttemptEvent):
    """An attempt does not run yet, or nobody can say whether it does."""

    kind = "queued"
    what: Annotated[str, "`queued` (the queue behind the engine lets it wait) or `unknown`"]
    reason: Annotated[str, "why"]


@dataclass(frozen=True, slots=True)
class Stopping(AttemptEvent):
    """An attempt is to stop; recorded before the engine gets the stop."""

    kind = "stopping"
    why: Annotated[str, "`preempt` or `cancel`"]
    order: Annotated[int | None, "number of the user's order that causes it"] = None

    @classmethod
    def preempt(cls, job: Job, time_us: int) -> Self:
        """Return the event that preempts the running attempt of a job."""
        return cls(time_us, job.id, job.attempt, "preempt")


@dataclass(frozen=True, slots=True)
class Ended(AttemptEvent):
    """An attempt is over, and with it the job."""

    kind = "ended"
    over_us: Annotated[int, "when its processes ended"]
    state: Annotated[str, "final state of the job"]
    reason: Annotated[str | None, "why, if the state does not say it"] = None
    values: Annotated[Values | None, "figures of the end: exit_code, signal, cpu_s, ..."] = None


@dataclass(frozen=True, slots=True)
class Requeued(AttemptEvent):
    """An attempt is over, and the job is pending again."""

    kind = "requeued"
    over_us: Annotated[int, "when its processes ended"]
    why: Annotated[str, "`preempt`, `lost` (its supervisor died) or `void` (it never began)"]
    values: Annotated[Values | None, "figures of the end, as of `ended`"] = None


@dataclass(frozen=True, slots=True)
class CancelRequested(JobEvent):
    """A job is to end: a pending one ends at once, a running one when its processes have."""

    kind = "cancel"
    who: Annotated[str | None, "who asked; `flyball` = it can never run"] = None
    reason: Annotated[str | None, "why, if Flyball itself cancelled it"] = None


@dataclass(frozen=True, slots=True)
class Held(JobEvent):
    """A pending job may not start until it is released."""

    kind = "held"
    by: Annotated[str, "the user that holds it"]
    who: Annotated[str | None, "who asked"] = None


@dataclass(frozen=True, slots=True)
class Deferred(JobEvent):
    """A pending job that may wait is held back until electricity is expected to cost less."""

    kind = "deferred"
    until_us: Annotated[int, "when it is expected to start"]
    latest_us: Annotated[int, "when it starts at the latest"]
    saving: Annotated[float, "part of the cost of its energy that waiting is expected to save"]


@dataclass(frozen=True, slots=True)
class Released(JobEvent):
    """A hold is over."""

    kind = "released"
    why: Annotated[
        str,
        "`release` (a user's hold), `begin` (its begin time has come) or `defer` (to wait longer "
        "is not expected to save more)",
    ]
    who: Annotated[str | None, "who released it"] = None


@dataclass(frozen=True, slots=True)
class Prioritised(JobEvent):
    """An active job gets another priority."""

    kind = "prioritised"
    priority: Annotated[float, "the new priority; higher goes first"]
    who: Annotated[str | None, "who asked"] = None


@dataclass(frozen=True, slots=True)
class Reported(JobEvent):
    """Progress that a job reported arrived after its end was recorded."""

    kind = "reported"
    values: Annotated[Values, "the last of each value"]


@dataclass(frozen=True, slots=True)
class Notified(JobEvent):
    """A target was notified of a job's end."""

    kind = "notified"
    target: Annotated[int, "which of the job's targets, from 0"]
    ok: Annotated[bool, "whether it succeeded"]
    message: Annotated[str, "how it went"]


# Adjustments of active jobs ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resized(AttemptEvent):
    """A job gets another number of devices."""

    kind = "resized"
    devices: Annotated[int, "the new number"]
    rows: Annotated[Rows, "its devices from now on; none = from the next start on"]
    reason: Annotated[str | None, "`ordered` by a user, or a tuner's reason"] = None
    gain: Annotated[float | None, "gain that the tuner expects"] = None
    who: Annotated[str | None, "who asked"] = None
    wants: Annotated[Rows | None, "devices on which it continues after a preemption"] = None
    order: Annotated[int | None, "number of the user's order within this control plane"] = None


@dataclass(frozen=True, slots=True)
class Capped(AttemptEvent):
    """A job is limited to a share of what its devices could do."""

    kind = "capped"
    share: Annotated[float, "the share; 1 = no cap"]
    reason: Annotated[str | None, "`ordered` by a user, or a tuner's reason"] = None
    gain: Annotated[float | None, "gain that the tuner expects"] = None
    who: Annotated[str | None, "who asked"] = None


@dataclass(frozen=True, slots=True)
class Checkpointed(AttemptEvent):
    """A running job is to save a checkpoint."""

    kind = "checkpointed"
    reason: Annotated[str | None, "`ordered` by a user"] = None
    who: Annotated[str | None, "who asked"] = None


@dataclass(frozen=True, slots=True)
class Scaled(JobEvent):
    """It was measured how the speed of an elastic job grows with its devices."""

    kind = "scaled"
    parallel: Annotated[float, "part of a step that its devices share"]
    changes: Annotated[int, "number of resizes that this was measured at"]


@dataclass(frozen=True, slots=True)
class Predicted(Event):
    """Run times of active jobs were predicted; decisions use them."""

    kind = "predicted"
    runs: Annotated[
        Sequence[Sequence[float]], "(job, like jobs that ended, *quantiles in seconds) of each job"
    ]


# The control plane ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened(Event):
    """A control plane began, or got other nodes. They are up until `node` says otherwise."""

    kind = "opened"
    version: Annotated[str, "version of Flyball"]
    policy: Annotated[str, "name of the policy"]
    knobs: Annotated[Values, "every knob of the policy"]
    cluster: Annotated[str, "name of the cluster"]
    budget_w: Annotated[float, "power budget; 0 = none"]
    nodes: Annotated[Sequence[Values], "the nodes in order: the fields of `LiveNode`"]
    tuners: Annotated[Sequence[str] | None, "names of the tuners, in order"] = None
    tuner_settings: Annotated[Sequence[str] | None, "their changed settings"] = None
    tuner_rules: Annotated[
        Sequence[int] | None, "version of each tuner's rule; absent = 1 for all"
    ] = None
    pathways: Annotated[
        str | None, "how far class pathways are followed: `named`, `jobs` or `cluster`"
    ] = None
    can: Annotated[
        Sequence[str] | None, "what its engine can do; absent = tuners planned whatever they wanted"
    ] = None
    apart: Annotated[
        bool | None, "jobs for GPUs use no node of cores only; absent = in mixed clusters they did"
    ] = None
    learned: Annotated[
        Values | None, "file, hash and epoch of the learned policy; absent = none"
    ] = None


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A decision was made. The starts and stops that follow from it are events of their own."""

    kind = "decided"
    number: Annotated[int, "decisions are numbered from 1"]
    seen: Annotated[int, "number of the last event in the state that it saw"]
    own: Annotated[int, "number of events just before it that it saw as well"]
    is_round: Annotated[bool, "whether running jobs could be preempted"]
    digest: Annotated[str, "fingerprint of everything it depends on"]
    plan: Annotated[
        Sequence[Sequence[Any]],
        "actions: [kind, job, node, mask, thousandths, reason, gain, perhaps a level]",
    ]
    adjusted: Annotated[
        Sequence[Sequence[Any]] | None, "further actions, by tuners; absent = not their round"
    ] = None
    forecast: Annotated[
        Values | None, "the outlook that tuners were given, by subject; null = nothing was forecast"
    ] = None
    signals: Annotated[
        Values | None,
        "price_per_kwh and carbon_g_per_kwh at that time, limit_w and the account of its budgets",
    ] = None
    pathway: Annotated[
        str | None, "class pathway whose knobs and tuners it followed; absent = none"
    ] = None
    learned: Annotated[
        Values | None,
        "what a learned policy chose for an epoch that begins here, and from which inputs besides "
        "the state; absent = none did",
    ] = None

    def as_dict(self) -> dict[str, Any]:
        """Return the event as it is recorded: `forecast` is there if `adjusted` is."""
        record = Event.as_dict(self)
        if self.adjusted is not None:
            record["forecast"] = self.forecast
        return record


@dataclass(frozen=True, slots=True)
class NodeChanged(Event):
    """A node went down or came up, is absent, or was drained."""

    kind = "node"
    node: Annotated[int, "its place in `nodes` of the last `opened`"]
    up: Annotated[bool, "whether it takes new jobs"]
    name: Annotated[str | None, "its name"] = None
    state: Annotated[str | None, "if it is not up: `down`, `absent` or `drained`"] = None
    reason: Annotated[str | None, "why"] = None
    who: Annotated[str | None, "who drained or resumed it; `flyball` = its jobs ran too slowly"] = (
        None
    )


@dataclass(frozen=True, slots=True)
class OthersChanged(Event):
    """Jobs that are not ours have another part of some nodes than before; first, they have none."""

    kind = "others"
    nodes: Annotated[
        Sequence[Sequence[int]],
        "[place in `nodes` of the last `opened`, devices, cores, MiB of memory] of each node",
    ]


@dataclass(frozen=True, slots=True)
class Audited(Event):
    """Something about access happened, such as a refused token."""

    kind = "audit"
    what: Annotated[str, "what happened"]
    who: Annotated[str, "who caused it"]


GROUPS: dict[str, tuple[type[Event], ...]] = {
    "The life of a job": (
        *(Submitted, Intended, Accepted, Queued, Started, Stopping, Ended, Requeued),
        *(CancelRequested, Held, Deferred, Released, Prioritised, Reported, Notified),
    ),
    "Adjustments of active jobs": (Resized, Capped, Checkpointed, Scaled, Predicted),
    "The control plane": (Opened, Decided, NodeChanged, OthersChanged, Audited),
}
CLASSES: dict[str, type[Event]] = {cls.kind: cls for group in GROUPS.values() for cls in group}
"""The class of every kind."""


_names: dict[type[Event], tuple[tuple[str, ...], tuple[str, ...]]] = {}


def field_names(cls: type[Event]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields that are always recorded, and of those that may be absent."""
    if cls not in _names:
        always = tuple(entry.name for entry in fields(cls) if entry.default is MISSING)
        _names[cls] = always, tuple(entry.name for entry in fields(cls))[len(always) :]
    return _names[cls]


def event_of(record: Values) -> Event:
    """Return the event of a record, the inverse of `Event.as_dict`.

    Raises:
        ValueError: a field is missing.
    """
    cls = CLASSES.get(record["kind"])
    if cls is None:
        return Unknown(record["time_us"], record)
    form = record.get("form", 1)
    if form < cls.form:
        record = cls.upgraded(record)
    always, optional = field_names(cls)
    try:
        return cls(*[record[name] for name in always], *map(record.get, optional))
    except KeyError as missing:
        of_form = f" of form {form} (this version reads {cls.form})" * (form > cls.form)
        raise ValueError(f"a {cls.kind!r} event{of_form} has no {missing}") from None
