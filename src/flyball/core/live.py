"""Messages between the control plane and an engine: actions, reports, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from flyball.core.jobs import JobSpec, Row


class Launch(NamedTuple):
    """Start an attempt.

    Attributes:
        nodes: the names of the rows' nodes.
    """

    job: int
    attempt: int
    spec: JobSpec
    rows: tuple[Row, ...]
    nodes: tuple[str, ...] = ()


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
    """An engine's report on an attempt: most kinds once, an end until it is acknowledged.

    Attributes:
        what: `accepted` (a queue behind the engine took it; repeated until acknowledged, and it
            cannot start before), `queued` (that queue lets it wait), `started`, `unknown` (for now
            nobody can say how it is), `ended`, `lost` (no supervisor and no record of an end: its
            processes are gone) or `void` (it never began and never will).
        time_us: when it happened.
        values: of `accepted`: reference, the number that the other queue gave it. Of `queued`,
            `unknown` and `void`: message. Of a start: pid, and rows ((node name, mask) pairs) if
            the engine placed it otherwise than it was told. Of an end: exit_code, signal, why
            (`exit`, `limit`, `memory`, `stopped`, `boot`), message, cpu_s, max_rss_mib, and
            peak_mib with peak_by where the memory of all processes together was measured.
    """

    job: int
    attempt: int
    what: str
    time_us: int
    values: Mapping[str, Any]


NOBODY = (0, 0, 0)
"""What others have of a node that nobody else uses."""


class LiveNode(NamedTuple):
    """A node as an engine describes it. Its name stays the same for as long as it exists.

    Attributes:
        device: its type, a name in the catalogue.
        uuids: of its devices, in order; empty if its devices are cores.
        up: whether it takes new jobs.
        features: what jobs can require of it by name.
        reason: why it is not up.
        others: devices, cores and MiB of memory that jobs have there which are not ours.
    """

    name: str
    device: str
    devices: int
    cpus: int
    memory_mib: int
    uuids: tuple[str, ...] = ()
    up: bool = True
    features: tuple[str, ...] = ()
    reason: str = ""
    others: tuple[int, int, int] = NOBODY


class Capabilities(NamedTuple):
    """What an engine can do. Tuners plan nothing else, and orders for anything else are refused.

    Attributes:
        fields: the optional fields (`core.job_fields`) that it honours.
        resize: give a running job other devices of its nodes without a restart.
        cap: limit a running job to a share of its devices.
        preempt: stop a running job after it was asked for a checkpoint.
        sleep: put idle nodes to sleep and wake them.
        choose_devices: run a job on just the devices it is told, not only on its nodes.
        logs: keep what jobs print where the control plane can read it.
        see_others: know of jobs on its nodes that are not ours.
    """

    fields: frozenset[str] = frozenset()
    resize: bool = False
    cap: bool = False
    preempt: bool = False
    sleep: bool = False
    choose_devices: bool = False
    logs: bool = False
    see_others: bool = False

    @property
    def abilities(self) -> list[str]:
        """The names of what it can do beyond fields."""
        return [name for name in ABILITIES if getattr(self, name)]

    @classmethod
    def of(cls, abilities: Iterable[str]) -> Self:
        """Return capabilities without fields; names of a newer version are left out."""
        named = set(abilities)
        return cls(frozenset(), *(name in named for name in ABILITIES))


ABILITIES = Capabilities._fields[1:]
