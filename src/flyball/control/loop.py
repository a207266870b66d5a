"""The control cycle: observe, understand, decide, record, act. On one screen, and on any clock.

Everything it does is on record before it is done: whoever kills it at any point loses nothing.
The stages arrive as objects; this file knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flyball.control.jobs.adjustments import orders_of
from flyball.core.jobs import Job, JobState
from flyball.core.live import Event, EventKind, Launch, Report, Stop
from flyball.core.protocols import Engine, Journal

TOLD_ONCE = ("started", "void")
"""Reports that are not made again by the engine: a start, and what it never heard of."""


class Jobs(Protocol):
    """What is true now."""

    jobs: dict[int, Job]
    busy: dict[int, Job]


class Decides(Protocol):
    """Makes decisions; see `control.decider`."""

    def decide(self, own: Sequence[Event], now_us: int) -> Any: ...
    def settle(self, decision: Any) -> None: ...


class Loop:
    """One cycle after another.

    Attributes:
        last: the last decision, for whoever asks why.
        means: by what means the engine said it does what it was told, by (job, attempt).
    """

    def __init__(
        self,
        book: Jobs,
        journal: Journal,
        engine: Engine,
        decider: Decides,
        understand: Callable[[Sequence[Report], dict[int, Job], int], list[Event]],
        asked: Callable[[int, Sequence[Event]], list[Event]],
        now_us: Callable[[], int],
        passing: Callable[[str], None] = lambda point: None,
    ) -> None:
        """
        Args:
            understand: turns reports into events.
            asked: given the instant and what was understood, what is to be done besides, as events:
                jobs that can no longer run are cancelled, sizes change as somebody ordered.
            now_us: the clock.
            passing: told of each point on the way; tests end the world there.
        """
        self._book, self._journal, self._engine = book, journal, engine
        self._decider, self._understand, self._asked = decider, understand, asked
        self._now_us, self._passing = now_us, passing
        self._told: set[tuple[int, int, str]] = set()
        self._kept: list[Report] = []
        self._owed: dict[tuple[int, int], None] = {}
        self._ordered: set[tuple[type, int, int, int]] = set()
        self.means: dict[tuple[int, int], str] = {}
        self.last: Any = None

    def cycle(self) -> bool:
        """Go round once; whether anything happened."""
        # 1. Observe: what has the engine seen since we last acknowledged?
        reports = self._observe()
        now = self._now_us()
        self._passing("observed")
        # 2. Understand: what does that mean for the jobs?
        own = self._understand(reports, self._book.jobs, now)
        own = [*own, *self._asked(now, own)]
        # 3. Decide, as if that were on record already.
        decision = self._decider.decide(own, now)
        events = [*own, *(decision.events if decision else ())]
        self._passing("decided")
        # 4. Record all of it at once, and wait until it is durable.
        if events:
            self._journal.record(events)
        self._decider.settle(decision)
        self._kept = []
        self._passing("recorded")
        # 5. What is on record need not be reported again.
        self._engine.acknowledge(reports)
        self._passing("acknowledged")
        # 6. Act on what is on record: who gets less makes room, then launch, steer, and stop.
        acted = self._steer()
        acted += self._launch(events, now)
        acted += self._steer() + self._stop()
        self._passing("acted")
        self.last = decision or self.last
        return bool(events or acted)

    def _observe(self) -> list[Report]:
        """What the engine reports, and what is kept because nobody will report it again."""
        reports = [*self._kept, *self._engine.observe()]
        merged = {(each.job, each.attempt, each.what): each for each in reports}
        self._kept = [each for each in merged.values() if each.what in TOLD_ONCE]
        return list(merged.values())

    def _launch(self, events: Sequence[Event], now_us: int) -> int:
        """Start the attempts that were intended; what is refused is tried again next time.

        An attempt that was cancelled before the engine heard of it can never begin: it is void.
        """
        intended = [event for event in events if event["kind"] == EventKind.INTENDED]
        self._owed |= {(event["job"], event["attempt"]): None for event in intended}
        done = 0
        for token in list(self._owed):
            job = self._book.jobs.get(token[0])
            settled = True
            if job is None or job.attempt != token[1] or job.state == JobState.PENDING:
                pass  # overtaken, and over
            elif job.state == JobState.COMPLETING:
                self._kept.append(Report(*token, "void", now_us, {}))
            else:
                self._passing("launching")
                settled = self._engine.apply(Launch(*token, job.spec, job.rows)).accepted
            if settled:
                del self._owed[token]
                done += 1
        return done

    def _steer(self) -> int:
        """Tell the engine, once, what a running attempt is to have; after a restart all of it."""
        wanted = {
            (type(order), order.job, order.attempt, order.sequence): order
            for job in list(self._book.busy.values())
            for order in orders_of(job)
        }
        self._ordered &= wanted.keys()
        self.means = {each: how for each, how in self.means.items() if each[0] in self._book.busy}
        done = 0
        for key in sorted(wanted.keys() - self._ordered, key=lambda each: each[1:]):
            answer = self._engine.apply(wanted[key])
            if answer.accepted:
                self._ordered.add(key)
                done += 1
            if answer.how:
                self.means[answer.job, answer.attempt] = answer.how
        return done

    def _stop(self) -> int:
        """Tell the engine, once, to end what is to end."""
        ending = [job for job in list(self._book.busy.values()) if job.stopping]
        wanted = {(job.id, job.attempt, job.stopping) for job in ending}
        self._told &= wanted
        new = [
            (job_id, attempt, why)
            for job_id, attempt, why in sorted(wanted - self._told)
            if self._engine.apply(Stop(job_id, attempt, why)).accepted
        ]
        self._told.update(new)
        return len(new)
