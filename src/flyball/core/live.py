"""Messages between the live parts: actions for an engine, its reports, and events for the journal.

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
    """The kinds of events. The journal keeps them for ever, in order."""

    OPENED = "opened"  # version, policy, knobs, cluster: a control plane began
    SUBMITTED = "submitted"  # job, spec
    INTENDED = "intended"  # job, attempt, rows, decision: durable before anything is launched
    STARTED = "started"  # job, attempt, began_us, pid
    ENDED = "ended"  # job, attempt, over_us, state, values: the attempt and the job are over
    REQUEUED = "requeued"  # job, attempt, over_us, why ("preempt", "lost", "void"): pending again
    CANCEL = "cancel"  # job, who, reason: a user asked for its end
    STOPPING = "stopping"  # job, attempt, why: durable before the engine gets the stop action
    HELD = "held"  # job, by, who: it may not start until it is released
    RELEASED = "released"  # job, why ("release", "begin"), who: the hold is over
    DECIDED = "decided"  # number, seen, own, now_us, is_round, digest, plan: one decision
    NODE = "node"  # node, up
    RESIZED = "resized"  # job, attempt, devices, rows (none: by a restart), reason, gain, who
    CAPPED = "capped"  # job, attempt, share, reason, gain, who
    CHECKPOINTED = "checkpointed"  # job, attempt, reason, gain, who: asked to save a checkpoint
    SCALED = "scaled"  # job, parallel, changes: how its speed grows with its devices, as measured
    PREDICTED = "predicted"  # runs: (job, like jobs ended, *quantiles of its run time in seconds)
    REPORTED = "reported"  # job, values: progress that arrived after its end was recorded
    NOTIFIED = "notified"  # job, target (its index), ok, message: a target was notified of the end
    AUDIT = "audit"  # what, who: refused tokens and the like


class Launch(NamedTuple):
    """Start an attempt."""

    job: int
    attempt: int
    spec: JobSpec
    rows: tuple[Row, ...]


class Stop(NamedTuple):
    """End an attempt: checkpoint signal (if preempted), SIGTERM, grace, SIGKILL."""

    job: int
    attempt: int
    why: str
    """`cancel` or `preempt`."""


class Resize(NamedTuple):
    """Let a running attempt go on with other devices of its node.

    For this action and the next two: a sequence number that is not above the last one applied
    changes nothing.
    """

    job: int
    attempt: int
    sequence: int
    rows: tuple[Row, ...]


class Cap(NamedTuple):
    """Limit a running attempt to a share of what its devices can do; 1 = no cap."""

    job: int
    attempt: int
    sequence: int
    share: float
    rows: tuple[Row, ...]


class Checkpoint(NamedTuple):
    """Have a running attempt save a checkpoint and go on."""

    job: int
    attempt: int
    sequence: int


Action = Launch | Stop | Resize | Cap | Checkpoint


class Receipt(NamedTuple):
    """An engine's answer to one action; the same (job, attempt) always gets the same one.

    Attributes:
        how: by what means it was done, or why not: an engine does what the machine permits.
    """

    job: int
    attempt: int
    accepted: bool
    how: str = ""


class Report(NamedTuple):
    """An engine's report on an attempt: a start once, an end until it is acknowledged.

    Attributes:
        what: `started`, `ended`, `lost` (no supervisor and no record of an end: its processes are
            gone) or `void` (it never began and never will).
        time_us: when it happened.
        values: of a start: pid. Of an end: exit_code, signal, why (`exit`, `limit`, `memory`,
            `stopped`, `boot`), message, cpu_s, max_rss_mib, and
            peak_mib with peak_by where the memory of all processes together was measured.
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
        uuids: of its devices, in order; empty if its devices are cores.
        features: what jobs can require of it by name.
    """

    name: str
    device: str
    devices: int
    cpus: int
    memory_mib: int
    uuids: tuple[str, ...] = ()
    up: bool = True
    features: tuple[str, ...] = ()
