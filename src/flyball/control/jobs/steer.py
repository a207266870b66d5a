"""Orders from users about active jobs: another size, a cap, a checkpoint.

A cap or a checkpoint affects no other job and is appended to the journal directly. A new size takes
devices from the free ones or returns some, so the loop applies it between its decisions: the order
waits until the next cycle has turned it into an event, and is answered once that is durable.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from flyball.control.ask.views import unit_of_job
from flyball.control.decide.job_columns import JobColumns
from flyball.control.decide.tuning_rounds import HeldDevices
from flyball.control.jobs.adjustments import held_devices, resume_rows, size_of
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.request import Demand
from flyball.control.journal.store import Journal
from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput, Conflict, FlyballError, Unavailable
from flyball.core.events import Capped, Checkpointed, Event, Intended, Resized, Stopping
from flyball.core.jobs import Job, JobState
from flyball.core.live import LiveNode
from flyball.core.protocols import Engine

if TYPE_CHECKING:
    from flyball.control.ask.queries import Queries

ORDER_TIMEOUT_S = 30.0
"""How long an order waits for a cycle to apply it."""
MIN_SHARE = 0.05
"""Lowest cap that may be ordered."""
ORDERED = "ordered"
"""Reason of events that a user ordered."""


class Site(Protocol):
    """The part of the control plane that orders need."""

    live_state: LiveState
    columns: JobColumns
    demand: Demand
    journal: Journal
    cluster: Cluster
    engine: Engine
    now_us: Callable[[], int]
    wake: Callable[[], None]
    ask: Queries

    @property
    def nodes_(self) -> Sequence[LiveNode]: ...
    def step(self) -> bool: ...


@dataclass
class SizeOrder:
    """Holds one order for a new size until the loop has applied or refused it."""

    job: int
    devices: int
    who: str
    done: Future[None] = field(default_factory=Future)


class Orders:
    """Takes orders from any thread.

    Args:
        site: the control plane.
        inline: no loop runs in a thread, so an order runs a cycle itself.
    """

    def __init__(self, site: Site, inline: bool) -> None:
        self._site, self._inline = site, inline
        self._lock = threading.Lock()
        self._pending: dict[int, SizeOrder] = {}
        self._number = 0

    # Called by users -------------------------------------------------------------------

    def resize(self, job: int, devices: int, key: str, who: str) -> dict[str, Any]:
        """Change the number of devices (or cores) of an elastic job.

        A job on cores changes at once, one on accelerators restarts from its checkpoint, and a
        pending job starts with the new size.

        Raises:
            NotFound: no such job.
            BadInput: it is rigid, or has ended, or the number is outside its range.
            Unavailable: the devices are not free, or no cycle applied the order in time.
        """
        asked = {"resize": job, "devices": devices}
        if (answered := self._earlier_answer(key, asked)) is not None:
            return answered
        current = self._check_size(job, devices)
        if devices != (held_devices(current) or size_of(current) or self._asks(current)):
            self._wait_for_loop(SizeOrder(job, devices, who))
        answer = {"id": job, "devices": devices, "print": _fingerprint(asked)}
        if key:
            ticket = self._site.journal.append([], key, answer)
            ticket.wait()
            answer = _checked(ticket.answer, key, asked) if ticket.repeated else answer
        return _public(answer)

    def cap(self, job: int, share: float, key: str, who: str) -> dict[str, Any]:
        """Limit a job to a share of what its devices could do, from now on; 1 = no cap.

        Raises:
            NotFound: no such job.
            BadInput: it has ended, or the share is out of range.
        """
        if not MIN_SHARE <= share <= 1.0:
            raise BadInput(f"a cap of {share:.0%}", f"from {MIN_SHARE:.0%} to 100%")
        if not self._site.engine.capabilities().cap:
            raise BadInput(
                "the engine cannot limit what a job uses of its devices",
                "`flyball doctor` shows what it can do",
            )
        asked = {"cap": job, "share": share}
        if (answered := self._earlier_answer(key, asked)) is not None:
            return answered
        attempt = self._active(job).attempt
        event = Capped(self._site.now_us(), job, attempt, share, ORDERED, who=who)
        return self._record(event, {"id": job, "share": share}, asked, key)

    def checkpoint(self, job: int, key: str, who: str) -> dict[str, Any]:
        """Order a running job to save a checkpoint.

        Raises:
            NotFound: no such job.
            BadInput: it is not running.
        """
        asked = {"checkpoint": job}
        if (answered := self._earlier_answer(key, asked)) is not None:
            return answered
        current = self._active(job)
        if current.state != JobState.RUNNING:
            raise BadInput(f"job {current.label} is {current.state}: there is nothing to save")
        event = Checkpointed(self._site.now_us(), job, current.attempt, ORDERED, who)
        return self._record(event, {"id": job}, asked, key)

    def _record(self, event: Event, reply: dict[str, Any], asked: Any, key: str) -> dict[str, Any]:
        """Record an order that is carried out at once; return the reply, or that of its key."""
        answer = {**reply, "print": _fingerprint(asked)}
        ticket = self._site.journal.append([event], key, answer if key else None)
        ticket.wait()
        self._site.wake()
        return _public(_checked(ticket.answer, key, asked) if ticket.repeated else answer)

    def _earlier_answer(self, key: str, asked: Any) -> dict[str, Any] | None:
        """Return the stored answer of a key, None if it is new; raises as `_checked` does."""
        stored = self._site.journal.answer(key) if key else None
        return None if stored is None else _public(_checked(stored.value, key, asked))

    def _active(self, job: int) -> Job:
        current = self._site.ask.job(job)
        if current.state.final:
            raise BadInput(
                f"job {current.label} is {current.state}", "only active jobs take orders"
            )
        return current

    def _units(self, job: Job) -> str:
        """Return the unit of a job's devices: `cores` or `GPUs`."""
        return f"{unit_of_job(job, self._site.nodes_)}s"

    def _check_size(self, job: int, devices: int) -> Job:
        current = self._active(job)
        if not current.spec.elastic:
            raise BadInput(
                f"job {current.label} is rigid: it runs with what it requested",
                "submit it with --elastic MIN-MAX",
            )
        least, most = self._site.demand.range_of(current.spec)
        most = min(most, self._site.cluster.device_count)
        if not least <= devices <= most:
            raise BadInput(
                f"job {current.label} cannot have {devices} {self._units(current)}",
                f"its range is {least} to {most}",
            )
        if current.state == JobState.COMPLETING:
            raise Unavailable(f"job {current.label} is ending", "try again when it has")
        if current.rows and not self._site.columns.in_place and not current.spec.preemptible:
            raise BadInput(
                f"job {current.label} would have to restart, and may not be preempted",
                "submit it without --no-preempt",
            )
        return current

    def _asks(self, job: Job) -> int:
        return self._site.demand.of(job.spec).devices

    # Called by the loop ----------------------------------------------------------------

    def _wait_for_loop(self, order: SizeOrder) -> None:
        with self._lock:
            self._number += 1
            number = self._number
            self._pending[number] = order
        self._site.wake()
        if self._inline:
            self._site.step()
        try:
            order.done.result(ORDER_TIMEOUT_S)
        except TimeoutError:
            raise Unavailable("the control plane is busy", "try again") from None
        finally:
            with self._lock:
                self._pending.pop(number, None)

    def due(self, now_us: int) -> list[Event]:
        """Return the events that apply the pending orders; refuses those that are not possible."""
        with self._lock:
            orders = dict(self._pending)
        events: list[Event] = []
        taken: dict[int, int] = {}
        for number, order in orders.items():
            try:
                resized = self._resized(number, order, now_us, taken)
            except FlyballError as error:
                _fail(order, error)
                continue
            events += resized
        return events

    def moved(self, now_us: int, unrecorded: Sequence[Event]) -> list[Event]:
        """Return the starts of jobs that were just preempted to continue on other devices.

        Args:
            unrecorded: events that the live state does not hold yet.
        """
        live_state = self._site.live_state
        with live_state.lock:
            changes = live_state.fold(unrecorded)
            waiting = [job for job in changes.values() if _may_resume(job)]
            if not waiting:
                return []
            busy = {**live_state.busy, **changes}.values()
            held = HeldDevices([(row.node, row.mask) for job in busy for row in job.rows])
            down = live_state.down_after(unrecorded)
        events: list[Event] = []
        for job in waiting:
            rows = resume_rows(job)
            if held.free(rows) and not any(node in down for node, _mask in rows):
                held.take(rows)
                events.append(Intended.next_attempt(job, now_us, rows, decision=0))
        return events

    def settle(self, events: Sequence[Event]) -> None:
        """Answer the orders whose events are now durable, and drop them.

        They are dropped here and not by the waiting thread, which may wake only after the next
        cycle has begun and would apply them twice.
        """
        for event in events:
            if not isinstance(event, Resized) or event.order is None:
                continue
            with self._lock:
                order = self._pending.pop(event.order, None)
            if order is not None and not order.done.done():
                order.done.set_result(None)

    def _resized(
        self, number: int, order: SizeOrder, now_us: int, taken: dict[int, int]
    ) -> list[Event]:
        job = self._check_size(order.job, order.devices)
        event = Resized(
            now_us, job.id, job.attempt, order.devices, (), ORDERED, who=order.who, order=number
        )
        if not job.rows:
            return [event]
        if not self._site.columns.in_place or len(job.rows) > 1:
            return [event, replace(Stopping.preempt(job, now_us), order=number)]
        return [replace(event, rows=self._choose_rows(job, order.devices, taken))]

    def _choose_rows(self, job: Job, devices: int, taken: dict[int, int]) -> list[list[int]]:
        """Choose devices of the job's node: those it holds first, then free ones.

        Raises:
            Unavailable: too few are free.
        """
        node = job.rows[0].node
        mask_now = job.rows[0].mask
        with self._site.live_state.lock:
            held = [row for other in self._site.columns.running.values() for row in other.rows]
        used = taken.get(node, 0)
        for row in held:
            used |= row.mask if row.node == node else 0
        size = self._site.nodes_[node].devices
        free = [bit for bit in range(size) if not used >> bit & 1]
        chosen = [bit for bit in range(size) if mask_now >> bit & 1][:devices]
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


def _may_resume(job: Job) -> bool:
    return job.state == JobState.PENDING and bool(resume_rows(job))


def _fail(order: SizeOrder, error: FlyballError) -> None:
    try:
        order.done.set_exception(error)
    except InvalidStateError:  # the caller has given up waiting
        return


def _fingerprint(asked: Any) -> str:
    """Return a hash that is equal for equal orders."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _public(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "print"}


def _checked(answer: dict[str, Any], key: str, asked: Any) -> dict[str, Any]:
    """Return the stored answer of a key if it belongs to the same order.

    Raises:
        Conflict: the key was used for another order.
    """
    if answer.get("print") != _fingerprint(asked):
        raise Conflict(f"key {key!r} was used for something else", "use a new key")
    return answer
