"""Orders of people about jobs that run: another size, a cap, a checkpoint.

A cap and a checkpoint concern nobody else and go straight into the journal. A size takes devices
from others or gives them back, so it is settled by the loop, in line with its decisions: the order
waits until the next cycle has made it an event, and is answered when that is durable.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Protocol

from flyball.control.ask.views import unit_of_job
from flyball.control.decide.job_columns import Table
from flyball.control.decide.tuning_rounds import Held
from flyball.control.jobs.adjustments import held_devices, size_of, wants_of
from flyball.control.jobs.live_state import Book
from flyball.control.jobs.request import Demand
from flyball.control.journal.store import Journal
from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput, Conflict, FlyballError, Unavailable
from flyball.core.jobs import Job, JobState
from flyball.core.live import Event, EventKind, LiveNode

PATIENCE_S = 30.0
"""For a cycle to take up an order."""
LEAST_SHARE = 0.05
ORDERED = "ordered"


class Site(Protocol):
    """The control plane, as far as orders need it."""

    book: Book
    table: Table
    demand: Demand
    journal: Journal
    cluster: Cluster
    nodes_: tuple[LiveNode, ...]
    now_us: Callable[[], int]
    wake: Callable[[], None]

    def job(self, job: int) -> Job: ...
    def step(self) -> bool: ...


@dataclass
class Wanted:
    """A size that somebody wants a job to have."""

    job: int
    devices: int
    who: str
    done: Future[None] = field(default_factory=Future)


class Orders:
    """Takes orders from any thread.

    Args:
        site: the control plane.
        inline: no loop runs by itself: an order makes a step of its own.
    """

    def __init__(self, site: Site, inline: bool) -> None:
        self._site, self._inline = site, inline
        self._lock = threading.Lock()
        self._wanted: dict[int, Wanted] = {}
        self._number = 0

    # From outside ----------------------------------------------------------------------

    def resize(self, job: int, devices: int, key: str, who: str) -> dict[str, Any]:
        """Let an elastic job have so many devices (cores): at once if it runs on cores, by a new
        start from its checkpoint if it runs on accelerators, when it starts if it waits.

        Raises:
            NotFound: no such job.
            BadInput: it is rigid, or has ended, or cannot have that many.
            Unavailable: devices are not free, or no cycle took the order up.
        """
        asked = {"resize": job, "devices": devices}
        if (known := self._known(key, asked)) is not None:
            return known
        found = self._check_size(job, devices)
        if devices != (held_devices(found) or size_of(found) or self._asks(found)):
            self._settle_by_loop(Wanted(job, devices, who))
        answer = {"id": job, "devices": devices, "print": _print(asked)}
        if key:
            ticket = self._site.journal.append([], key, answer)
            ticket.wait()
            answer = _same(ticket.answer, key, asked) if ticket.repeated else answer
        return _public(answer)

    def cap(self, job: int, share: float, key: str, who: str) -> dict[str, Any]:
        """Keep a job to a part of what its devices could do, from now on; 1 = no cap.

        Raises:
            NotFound: no such job.
            BadInput: it has ended, or the share makes no sense.
        """
        if not LEAST_SHARE <= share <= 1.0:
            raise BadInput(f"a cap of {share:.0%}", f"from {LEAST_SHARE:.0%} to 100%")
        more = {"share": share}
        return self._record(job, EventKind.CAPPED, more, {"cap": job, **more}, key, who)

    def checkpoint(self, job: int, key: str, who: str) -> dict[str, Any]:
        """Have a running job save what it has.

        Raises:
            NotFound: no such job.
            BadInput: it does not run.
        """
        asked = {"checkpoint": job}
        if (known := self._known(key, asked)) is not None:
            return known
        found = self._active(job)
        if found.state != JobState.RUNNING:
            raise BadInput(f"job {found.label} is {found.state}: there is nothing to save")
        return self._record(job, EventKind.CHECKPOINTED, {}, asked, key, who)

    def _record(
        self, job: int, kind: EventKind, more: dict[str, Any], asked: Any, key: str, who: str
    ) -> dict[str, Any]:
        if (known := self._known(key, asked)) is not None:
            return known
        found = self._active(job)
        about = {"kind": kind, "time_us": self._site.now_us(), "job": job}
        event = {**about, "attempt": found.attempt, "reason": ORDERED, "who": who, **more}
        answer = {"id": job, **more, "print": _print(asked)}
        ticket = self._site.journal.append([event], key, answer if key else None)
        ticket.wait()
        self._site.wake()
        return _public(_same(ticket.answer, key, asked) if ticket.repeated else answer)

    def _known(self, key: str, asked: Any) -> dict[str, Any] | None:
        """What a key was answered before, if it was; raises as `_same` does."""
        found = self._site.journal.answer(key) if key else None
        return None if found is None else _public(_same(found.value, key, asked))

    def _active(self, job: int) -> Job:
        found = self._site.job(job)
        if found.state.final:
            raise BadInput(f"job {found.label} is {found.state}", "only active jobs take orders")
        return found

    def _units(self, job: Job) -> str:
        """`cores` or `GPUs`."""
        return f"{unit_of_job(job, self._site.nodes_)}s"

    def _check_size(self, job: int, devices: int) -> Job:
        found = self._active(job)
        if not found.spec.elastic:
            raise BadInput(
                f"job {found.label} is rigid: it runs with what it asked for",
                "submit it with --elastic MIN-MAX",
            )
        least, most = self._site.demand.range_of(found.spec)
        most = min(most, self._site.cluster.device_count)
        if not least <= devices <= most:
            raise BadInput(
                f"job {found.label} cannot have {devices} {self._units(found)}",
                f"its range is {least} to {most}",
            )
        if found.state == JobState.COMPLETING:
            raise Unavailable(f"job {found.label} is ending", "try again when it has")
        if found.rows and not self._site.table.in_place and not found.spec.preemptible:
            raise BadInput(
                f"job {found.label} would have to start anew, and may not be set aside",
                "submit it without --no-preempt",
            )
        return found

    def _asks(self, job: Job) -> int:
        return self._site.demand.of(job.spec).devices

    # By the loop -----------------------------------------------------------------------

    def _settle_by_loop(self, wanted: Wanted) -> None:
        with self._lock:
            self._number += 1
            number = self._number
            self._wanted[number] = wanted
        self._site.wake()
        if self._inline:
            self._site.step()
        try:
            wanted.done.result(PATIENCE_S)
        except TimeoutError:
            raise Unavailable("the control plane is busy", "try again") from None
        finally:
            with self._lock:
                self._wanted.pop(number, None)

    def due(self, now_us: int) -> list[Event]:
        """The events that orders come to; what cannot be is refused. Called by the loop."""
        with self._lock:
            wanted = dict(self._wanted)
        events: list[Event] = []
        taken: dict[int, int] = {}
        for number, each in wanted.items():
            try:
                made = self._resized(each, now_us, taken)
            except FlyballError as error:
                _fail(each, error)
                continue
            events += [{**event, "order": number} for event in made]
        return events

    def moved(self, now_us: int, own: Sequence[Event]) -> list[Event]:
        """Starts of jobs that have just been set aside in order to go on elsewhere, if they can.

        Args:
            own: events that are not in the book yet.
        """
        book = self._site.book
        with book.lock:
            changes = book.fold(own)
            waiting = [job for job in changes.values() if _may_go_on(job)]
            if not waiting:
                return []
            busy = {**book.busy, **changes}.values()
            held = Held([(row.node, row.mask) for job in busy for row in job.rows])
            down = set(book.down)
        events: list[Event] = []
        for job in waiting:
            rows = wants_of(job)
            if held.free(rows) and not any(node in down for node, _mask in rows):
                held.take(rows)
                about = {"time_us": now_us, "job": job.id, "attempt": job.attempt + 1}
                events.append({"kind": EventKind.INTENDED, **about, "rows": rows, "decision": 0})
        return events

    def settle(self, events: Sequence[Event]) -> None:
        """These are durable: they are wanted no more, and whoever ordered them is answered.

        Taken out here and not by him: he may wake after the next cycle has begun.
        """
        for event in events:
            with self._lock:
                found = self._wanted.pop(event.get("order", 0), None)
            if found is not None and not found.done.done():
                found.done.set_result(None)

    def _resized(self, wanted: Wanted, now_us: int, taken: dict[int, int]) -> list[Event]:
        job = self._check_size(wanted.job, wanted.devices)
        about = {"time_us": now_us, "job": job.id, "attempt": job.attempt}
        event: Event = {
            "kind": EventKind.RESIZED, **about, "devices": wanted.devices, "reason": ORDERED,
            "who": wanted.who, "rows": [],
        }  # fmt: skip
        if not job.rows:
            return [event]
        if not self._site.table.in_place or len(job.rows) > 1:
            return [event, {"kind": EventKind.STOPPING, **about, "why": "preempt"}]
        return [{**event, "rows": self._rows(job, wanted.devices, taken)}]

    def _rows(self, job: Job, devices: int, taken: dict[int, int]) -> list[list[int]]:
        """Devices of the node it is on: its own first, then free ones.

        Raises:
            Unavailable: there are not enough.
        """
        node = job.rows[0].node
        own = job.rows[0].mask
        with self._site.book.lock:
            held = [row for each in self._site.table.running.values() for row in each.rows]
        used = taken.get(node, 0)
        for row in held:
            used |= row.mask if row.node == node else 0
        size = self._site.nodes_[node].devices
        free = [bit for bit in range(size) if not used >> bit & 1]
        chosen = [bit for bit in range(size) if own >> bit & 1][:devices]
        more = devices - len(chosen)
        if more > len(free):
            raise Unavailable(
                f"job {job.label} has {len(chosen)} {self._units(job)} and wants {devices}; "
                f"{len(free)} of {size} are free on its node",
                "make room first, or try again later",
            )
        mask = sum(1 << bit for bit in [*chosen, *free[:more]])
        taken[node] = taken.get(node, 0) | mask
        return [[node, mask]]


def _may_go_on(job: Job) -> bool:
    return job.state == JobState.PENDING and bool(wants_of(job))


def _fail(wanted: Wanted, error: FlyballError) -> None:
    try:
        wanted.done.set_exception(error)
    except InvalidStateError:  # nobody waits for it any more
        return


def _print(asked: Any) -> str:
    """Equal for equal orders."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _public(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "print"}


def _same(answer: dict[str, Any], key: str, asked: Any) -> dict[str, Any]:
    """What a key was answered before.

    Raises:
        Conflict: something else was asked then.
    """
    if answer.get("print") != _print(asked):
        raise Conflict(f"key {key!r} was used for something else", "use a new key")
    return answer
