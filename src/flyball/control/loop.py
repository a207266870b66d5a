"""The control cycle: observe, understand, decide, record, act. On one screen, and on any clock.

Every action is on record before it is carried out, so a kill at any point loses nothing. The stages
are passed in as objects; this file imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flyball.control.jobs.adjustments import orders_of
from flyball.core.events import Event, Intended
from flyball.core.jobs import Job, JobSpec, JobState, Row
from flyball.core.live import Launch, Report, Stop
from flyball.core.protocols import Engine, Journal

REPORTED_ONCE = ("queued", "unknown", "started", "void")
"""Reports that the engine does not repeat: how an attempt fares, and one it never received."""


class Jobs(Protocol):
    """The jobs of the live state."""

    jobs: dict[int, Job]
    busy: dict[int, Job]


class Decides(Protocol):
    """Makes decisions; see `control.decide.decider`."""

    def decide(self, unrecorded: Sequence[Event], now_us: int) -> Any: ...
    def settle(self, decision: Any) -> None: ...
    def launched(self, spec: JobSpec) -> JobSpec: ...


class Loop:
    """Runs the control cycle.

    Attributes:
        last: the last decision, to explain it.
        means: the means by which the engine carries out an order, by (job, attempt).
    """

    def __init__(
        self,
        live_state: Jobs,
        journal: Journal,
        engine: Engine,
        decider: Decides,
        understand: Callable[[Sequence[Report], dict[int, Job], int], Sequence[Event]],
        asked: Callable[[int, Sequence[Event]], list[Event]],
        now_us: Callable[[], int],
        passing: Callable[[str], None] = lambda point: None,
        node_names: Callable[[Sequence[Row]], tuple[str, ...]] = lambda rows: (),
    ) -> None:
        """
        Args:
            understand: turns reports into events.
            asked: given the time and the events so far, returns further events that are due:
                jobs that can no longer run are cancelled, sizes change as users ordered.
            now_us: the clock.
            passing: called with the name of each point passed; fault tests kill the process there.
            node_names: returns the names of the rows' nodes.
        """
        self._live_state, self._journal, self._engine = live_state, journal, engine
        self._decider, self._understand, self._asked = decider, understand, asked
        self._now_us, self._passing, self._node_names = now_us, passing, node_names
        self._stops_sent: set[tuple[int, int, str]] = set()
        self._carried_over: list[Report] = []
        self._to_launch: dict[tuple[int, int], None] = {}
        self._orders_sent: set[tuple[type, int, int, int]] = set()
        self.means: dict[tuple[int, int], str] = {}
        self.last: Any = None

    def cycle(self) -> bool:
        """Run one cycle; return whether anything happened."""
        # 1. Observe: what has the engine seen since we last acknowledged?
        reports = self._observe()
        now = self._now_us()
        self._passing("observed")
        # 2. Understand: what does that mean for the jobs?
        reported = self._understand(reports, self._live_state.jobs, now)
        unrecorded = [*reported, *self._asked(now, reported)]
        # 3. Decide, as if that were on record already.
        decision = self._decider.decide(unrecorded, now)
        events = [*unrecorded, *(decision.events if decision else ())]
        self._passing("decided")
        # 4. Record all of it at once, and wait until it is durable.
        if events:
            self._journal.record(events)
        self._decider.settle(decision)
        self._carried_over = []
        self._passing("recorded")
        # 5. What is on record need not be reported again.
        self._engine.acknowledge(reports)
        self._passing("acknowledged")
        # 6. Act on what is on record: shrink to make room, then launch, steer, and stop.
        acted = self._steer()
        acted += self._launch(events, now)
        acted += self._steer() + self._stop()
        self._passing("acted")
        self.last = decision or self.last
        return bool(events or acted)

    def _observe(self) -> list[Report]:
        """Return the engine's reports, and those kept because the engine does not repeat them."""
        reports = [*self._carried_over, *self._engine.observe()]
        merged = {(report.job, report.attempt, report.what): report for report in reports}
        self._carried_over = [report for report in merged.values() if report.what in REPORTED_ONCE]
        return list(merged.values())

    def _launch(self, events: Sequence[Event], now_us: int) -> int:
        """Start the attempts that were intended; a refused one is retried in the next cycle.

        An attempt that was cancelled before the engine received it can never begin: it is void.
        """
        intended = [event for event in events if isinstance(event, Intended)]
        self._to_launch |= {(event.job, event.attempt): None for event in intended}
        done = 0
        for token in list(self._to_launch):
            job = self._live_state.jobs.get(token[0])
            settled = True
            if job is None or job.attempt != token[1] or job.state == JobState.PENDING:
                pass  # superseded: the attempt is over
            elif job.state == JobState.COMPLETING:
                self._carried_over.append(Report(*token, "void", now_us, {}))
            else:
                self._passing("launching")
                spec, names = self._decider.launched(job.spec), self._node_names(job.rows)
                launch = Launch(*token, spec, job.rows, names)
                settled = self._engine.apply(launch).accepted
            if settled:
                del self._to_launch[token]
                done += 1
        return done

    def _steer(self) -> int:
        """Send the engine each order for a running attempt once; after a restart all of them."""
        orders = {
            (type(order), order.job, order.attempt, order.sequence): order
            for job in list(self._live_state.busy.values())
            for order in orders_of(job)
        }
        self._orders_sent &= orders.keys()
        self.means = {
            token: how for token, how in self.means.items() if token[0] in self._live_state.busy
        }
        done = 0
        for key in sorted(orders.keys() - self._orders_sent, key=lambda sent: sent[1:]):
            answer = self._engine.apply(orders[key])
            if answer.accepted:
                self._orders_sent.add(key)
                done += 1
            if answer.how:
                self.means[answer.job, answer.attempt] = answer.how
        return done

    def _stop(self) -> int:
        """Send the engine each stop once."""
        ending = [job for job in list(self._live_state.busy.values()) if job.stopping]
        stops = {(job.id, job.attempt, job.stopping) for job in ending}
        self._stops_sent &= stops
        new = [
            (job_id, attempt, why)
            for job_id, attempt, why in sorted(stops - self._stops_sent)
            if self._engine.apply(Stop(job_id, attempt, why)).accepted
        ]
        self._stops_sent.update(new)
        return len(new)
