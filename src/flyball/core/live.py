"""Messages between the control plane and an engine: actions, receipts, reports, nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flyball.core.jobs import JobSpec, Row


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
    """

    name: str
    device: str
    devices: int
    cpus: int
    memory_mib: int
    uuids: tuple[str, ...] = ()
    up: bool = True
