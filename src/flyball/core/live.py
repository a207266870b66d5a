"""What the live parts say to each other: actions for an engine, reports from it, events to keep.

An *event* is a plain mapping that JSON can hold, with `kind` and `time_us`, and `job` and
`attempt` where it is about one. `EventKind` lists the kinds and what each carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from flyball.core.jobs import JobSpec, Row

Event = Mapping[str, Any]


class EventKind(StrEnum):
    """What can happen. The journal keeps these for ever, in order."""

    OPENED = "opened"  # version, policy, knobs, cluster: a control plane began
    SUBMITTED = "submitted"  # job, spec
    INTENDED = "intended"  # job, attempt, rows, decision: durable before anything is launched
    STARTED = "started"  # job, attempt, began_us, pid
    ENDED = "ended"  # job, attempt, over_us, state, values: the attempt and the job are over
    REQUEUED = "requeued"  # job, attempt, over_us, why ("preempt", "lost", "void"): it pends again
    CANCEL = "cancel"  # job, who, reason: somebody wants it to end
    STOPPING = "stopping"  # job, attempt, why: durable before the engine is told to stop it
    HELD = "held"  # job, by, who: it may not start until it is released
    RELEASED = "released"  # job, why ("release", "begin"), who: that is over
    DECIDED = "decided"  # number, seen, own, now_us, is_round, digest, plan: one decision
    NODE = "node"  # node, up
    RESIZED = "resized"  # job, attempt, devices, rows (none: it starts anew so), reason, gain, who
    CAPPED = "capped"  # job, attempt, share, reason, gain, who
    CHECKPOINTED = "checkpointed"  # job, attempt, reason, gain, who: told to save what it has
    SCALED = "scaled"  # job, parallel, changes: how its speed grows with its devices, as measured
    PREDICTED = "predicted"  # runs: (job, like jobs ended, *quantiles of its run time in seconds)
    REPORTED = "reported"  # job, values: its progress, heard after its end was on record
    NOTIFIED = "notified"  # job, target (its place), ok, message: a target was told of the end
    AUDIT = "audit"  # what, who: refused tokens and the like


class Launch(NamedTuple):
    """Start an attempt."""

    job: int
    attempt: int
    spec: JobSpec
    rows: tuple[Row, ...]


class Stop(NamedTuple):
    """End an attempt: checkpoint signal (if set aside), SIGTERM, grace, SIGKILL."""

    job: int
    attempt: int
    why: str
    """`cancel` or `preempt`."""


class Resize(NamedTuple):
    """Let a running attempt go on with other devices of its node.

    Of this and the next two: what has the sequence number of an action that was obeyed before, or
    a lower one, changes nothing.
    """

    job: int
    attempt: int
    sequence: int
    rows: tuple[Row, ...]


class Cap(NamedTuple):
    """Keep a running attempt to a part of what its devices could do; 1 = no cap."""

    job: int
    attempt: int
    sequence: int
    share: float
    rows: tuple[Row, ...]


class Checkpoint(NamedTuple):
    """Have a running attempt save what it has and go on."""

    job: int
    attempt: int
    sequence: int


Action = Launch | Stop | Resize | Cap | Checkpoint


class Receipt(NamedTuple):
    """An engine's answer to one action; the same (job, attempt) always gets the same one.

    Attributes:
        how: by what means, or by which not: an engine does what the machine permits.
    """

    job: int
    attempt: int
    accepted: bool
    how: str = ""


class Report(NamedTuple):
    """What an engine saw of an attempt: a start once, an end until it is acknowledged.

    Attributes:
        what: `started`, `ended`, `lost` (no supervisor and no record of an end: its processes are
            gone) or `void` (it never began and never will).
        time_us: when it happened.
        values: of a start: pid. Of an end: exit_code, signal, why (`exit`, `limit`, `memory`,
            `stopped`, `boot`), message, cpu_s, max_rss_mib, and
            peak_mib with peak_by where the memory of all processes together is known.
    """

    job: int
    attempt: int
    what: str
    time_us: int
    values: Mapping[str, Any]


class LiveNode(NamedTuple):
    """A node as an engine describes it.

    Attributes:
        device: its type, a name in the catalogue.
        uuids: of its devices, in order; empty where cores are the devices.
    """

    name: str
    device: str
    devices: int
    cpus: int
    memory_mib: int
    uuids: tuple[str, ...] = ()
    up: bool = True
