"""The control plane as the API sees it: submit, cancel, steer, ask. Safe from any thread.

plane = Plane(folder, engine, policy, knobs, clock)
plane.open()                    read the journal, reconcile with the engine
plane.step()                    one cycle; `Driver` calls it again and again
plane.ask.why(job)              questions
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flyball import __version__
from flyball.control.access.attempt_tokens import AttemptTokens
from flyball.control.ask import status
from flyball.control.ask.bills import Prices
from flyball.control.ask.durations import Durations
from flyball.control.ask.queries import Queries
from flyball.control.ask.recent_arrivals import Recent
from flyball.control.ask.reported_steps import Steps
from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.ask.worker_client import WorkerClient
from flyball.control.ask.worker_process import WorkerProcess
from flyball.control.cluster_nodes import ClusterNodes
from flyball.control.decide.day_budget import day_budget
from flyball.control.decide.decider import Decider
from flyball.control.decide.governing import Governs
from flyball.control.decide.job_columns import JobColumns
from flyball.control.decide.tuning_rounds import Tuning, rules_of
from flyball.control.jobs.admission import Admission
from flyball.control.jobs.deadlines import Deadlines
from flyball.control.jobs.deferrals import Deferrals
from flyball.control.jobs.fit import FitCheck
from flyball.control.jobs.holds import Holds
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.output_guard import OutputGuard
from flyball.control.jobs.priority import Priorities
from flyball.control.jobs.progress import Progress
from flyball.control.jobs.request import (
    Demand,
    cluster_of,
    earlier_ids,
    fingerprint,
    numbered,
)
from flyball.control.jobs.scaling import scaled_events
from flyball.control.jobs.steer import Orders
from flyball.control.jobs.submit_notes import SubmitNotes
from flyball.control.journal.job_numbers import JobNumbers
from flyball.control.journal.store import Changes, JobQuery, Journal, Ticket
from flyball.control.loop import Loop
from flyball.control.notify import notices
from flyball.control.recover import reconcile
from flyball.core.errors import BadInput
from flyball.core.events import (
    Audited,
    CancelRequested,
    Event,
    Opened,
    Predicted,
    Submitted,
)
from flyball.core.jobs import Job, JobSpec
from flyball.core.knobs import Knobs
from flyball.core.learning import RunTimeLearner
from flyball.core.protocols import Engine
from flyball.core.units import US_PER_S
from flyball.tune.pathway_scope import Scope

JOURNAL = "journal.db"
ARRIVALS_RECALLED = 1000
"""Number of latest jobs from which future arrivals are drawn."""


class Plane:
    """Runs one cluster.

    Attributes:
        live_state: what is true now, folded from the journal.
        journal: the record of everything that happened.
        loop: the control cycle.
        ask: answers questions.
        learner: predicts run times in this process where no worker runs, on virtual clocks.
        wake: starts a cycle soon.
        attempt_tokens: issues the tokens with which jobs report over HTTP.
    """

    ask: Queries

    def __init__(
        self,
        folder: Path,
        engine: Engine,
        policy: str,
        knobs: Knobs,
        clock: Callable[[int], Callable[[], int]],
        prices: Prices | None = None,
        inline: bool = False,
        passing: Callable[[str], None] = lambda point: None,
        tuning: Tuning | None = None,
        pathways: Scope = Scope.NAMED,
        governor: Governs | None = None,
    ) -> None:
        """
        Args:
            folder: the state folder.
            clock: returns a clock that does not go behind the time of the last event.
            inline: the journal writes without a thread, for virtual clocks.
            passing: see `Loop`.
            tuning: tuners of the policy's decisions; None for none.
            pathways: how far class pathways are followed.
            governor: chooses other knobs in every epoch; None = they stay as they are.
        """
        self.folder, self.engine = folder, engine
        self.policy, self.knobs = policy, knobs
        self.attempt_tokens = AttemptTokens(folder)
        self.live_state = LiveState()
        self.progress = Progress(self.live_state, lambda: self.ask.sensors, lambda: self.now_us())
        self._ids = threading.Lock()
        self.journal = Journal(folder / JOURNAL, self._fold, self._committed, inline=inline)
        self._active = self.journal.active()
        self.nodes = ClusterNodes(self, self._active)
        self.nodes_ = self.nodes.roster
        self.cluster = cluster_of(self.nodes_, "live")
        self.demand = Demand(self.nodes_, pathways)
        self.fit = FitCheck(self.demand, self.cluster, knobs)
        self._outputs = OutputGuard(folder)
        can = engine.capabilities()
        self.columns = JobColumns(self.demand, knobs.reads_spread, can.resize)
        self.deadlines = Deadlines()
        self.prices = prices or Prices()
        self.deferrals = Deferrals(self.prices.signals, self.cluster.device_count)
        self.live_state.watchers += [
            self.nodes.slow.update,
            self.columns.update,
            self.deadlines.update,
            self.deferrals.update,
        ]
        last = self.journal.last()
        self.now_us = clock(last.time_us)
        self._numbers = JobNumbers(folder, last.next_job, engine.files)
        self.decider = Decider(
            self.live_state, self.columns, self.cluster, policy, knobs, tuning, governor
        )
        self.decider.signals = self.prices.signals
        self.decider.tuning.can = can
        self.decider.budget = day_budget(self.prices.limits, self.prices.signals)
        self.loop = Loop(
            self.live_state, self.journal, engine, self.decider, self.nodes.understood,
            self._due, self.now_us, passing, self.nodes.names,
        )  # fmt: skip
        self.orders = Orders(self, inline)
        self.holds = Holds(self.live_state, self.journal, self.now_us)
        self.priorities = Priorities(self.live_state, self.journal, self.now_us)
        self.notices = notices.Notices(folder, self.nodes_, self.journal, self.now_us)
        self.durations = Durations(self.journal.ended())
        self.recent = Recent(
            self.demand, reversed(self.journal.jobs(JobQuery(limit=ARRIVALS_RECALLED)).jobs)
        )
        self.forecaster = StartForecaster(
            self.live_state, self.decider, self.durations, self.recent
        )
        self.forecaster.steps = self._steps
        self.worker = WorkerClient(self.forecaster, self._predicted, self._scaled)
        self.learner: RunTimeLearner | None = None
        self.wake: Callable[[], None] = lambda: None
        self.pulse = status.Pulse()
        self.admission = Admission(
            self.live_state, self.demand, self.fit, self._outputs, self.now_us
        )
        defers = {"deferrable_until"} if self.deferrals.enabled else set[str]()
        self._notes = SubmitNotes(can.fields | defers)
        self.ask = Queries(
            folder, self.journal, self.nodes_, self.prices, self.decider, self.demand,
            self.forecaster, self.worker, self.progress, self.pulse, self._cap_means, self.now_us,
        )  # fmt: skip
        self.ask.files = engine.files

    def _fold(self, events: Sequence[Event]) -> Changes:
        return self.notices.fold(events, self.progress.fold(events))

    def _committed(self, seq: int, events: Sequence[Event], changes: Changes) -> None:
        """Take events that the journal has made durable."""
        if events:
            self.live_state.absorb(seq, changes, events)
            self.orders.settle(events)
        self.notices.settle(changes)
        changes = self.progress.settle(events, changes)
        self.recent.take(changes)
        for job in changes.values():
            if job.state.final:
                self.durations.learn(job)
        if self.learner is not None:
            runs = self.learner.observe(changes)
            self._predicted([[job, run.like, *run.quantiles] for job, run in runs.items()])
        self.ask.announce_events()

    def open(self) -> int:
        """Continue where the last control plane stopped; return how many attempts had ended."""
        last = self.journal.last()
        self.live_state.load(last.seq, self._active, self.journal.final_states(), set())
        self._active = []
        self.notices.load()
        self.decider.number = self.journal.last_decision()
        if self.decider.budget is not None:
            last_one = self.journal.decisions(self.decider.number - 1, 1)
            self.decider.budget.recall(last_one[-1][1].get("signals") or {} if last_one else {})
        self.nodes.open(self._opened)
        self.progress.recall(list(self.live_state.busy))
        now_us = self.now_us()
        return reconcile(self.live_state, self.journal, self.engine, self.nodes.understood, now_us)

    def _opened(self) -> Opened:
        tuning = self.decider.tuning
        return Opened(
            self.now_us(),
            __version__,
            self.policy,
            self.knobs.as_dict(),
            self.cluster.name,
            self.cluster.power_budget_w,
            [node._asdict() for node in self.nodes_],
            list(tuning.tuners) or None,
            tuning.settings or None,
            rules_of(tuning.tuners) or None,
            self.demand.classes.scope.label if self.demand.classes.scope else None,
            self.engine.capabilities().abilities,
            True,
            self.decider.governor.about if self.decider.governor else None,
        )

    def _predicted(self, runs: Sequence[Sequence[float]]) -> Ticket | None:
        """Record predicted run times of active jobs; decisions use what is recorded."""
        active = [list(run) for run in runs if run[0] in self.live_state.jobs]
        if not active:
            return None
        return self.journal.append([Predicted(self.now_us(), active)])

    def _scaled(self, rows: Sequence[Sequence[float]]) -> Ticket | None:
        """Record how elastic jobs were measured to scale."""
        events = scaled_events(rows, self.live_state.jobs, self.now_us())
        return self.journal.append(events) if events else None

    def step(self) -> bool:
        """Run one cycle; return whether anything happened."""
        began_us = self.now_us()
        self.nodes.follow(self._opened)
        busy = self.loop.cycle()
        if late := self.progress.late():
            self.journal.record(late)
        now_us = self.now_us()
        self.pulse.beat(now_us, (now_us - began_us) / US_PER_S)
        return busy

    def worker_process(self, command: Sequence[str]) -> WorkerProcess:
        """Return the process that learns next to this control plane, not started yet.

        Args:
            command: started with `--state FOLDER`.
        """
        process = WorkerProcess(self.folder, self.worker.receive, command)
        self.forecaster.ask = process.ask
        self.worker.state_of_process = process.state
        self.worker.wake = lambda: self.wake()
        self.worker.on_outlook = lambda outlook: setattr(self.decider, "outlook", outlook)
        return process

    def close(self) -> None:
        """Flush and close the journal. Jobs go on."""
        self.journal.close()
        self._numbers.close()

    # Jobs ------------------------------------------------------------------------------

    def submit(self, specs: Sequence[JobSpec], key: str = "", who: str = "") -> list[int]:
        """Accept jobs, all or none; they are durable when it returns.

        Neighbours with rising `array_index` are the tasks of one array.

        Args:
            specs: the descriptions.
            key: idempotency key: the same key returns the same ids, and submits nothing twice.
            who: recorded in the journal.

        Raises:
            BadInput: a job that can never run here.
            Conflict: the key was used for another submission.
            Unavailable: the journal cannot be written.
        """
        if not specs:
            raise BadInput("no job to submit", "name a command")
        described = [spec.as_dict() for spec in specs]
        print_ = fingerprint(described) if key else ""
        try:
            for spec in specs:
                self.admission.check(spec)
        except BadInput:
            # It may have been accepted before, when it could still run.
            if key and (answer := self.journal.answer(key)) is not None:
                return earlier_ids(answer.value, key, print_)
            raise
        with self._ids:
            first = self._numbers.take(len(specs))
            jobs = numbered(specs, first)
            for spec, stated in zip(jobs, specs, strict=True):
                if spec is not stated:  # the patterns in its paths are filled in now
                    self._outputs.check(spec)
            now = self.now_us()
            events = [
                Submitted(
                    now, first + at, described[at] if spec is specs[at] else spec.as_dict(), who
                )
                for at, spec in enumerate(jobs)
            ]
            answer_ = {"first": first, "count": len(jobs), "print": print_} if key else None
            ticket = self.journal.append(events, key, answer_)
        ticket.wait()
        self.wake()
        if ticket.repeated:
            with self._ids:
                self._numbers.give_back(first, len(jobs))
            return earlier_ids(ticket.answer, key, print_)
        return list(range(first, first + len(jobs)))

    def notes(self, specs: Sequence[JobSpec]) -> list[dict[str, Any]]:
        """Return notes on fields that these jobs state and that have no effect here."""
        return self._notes.of(specs)

    def cancel(self, job: int, who: str = "") -> None:
        """End a job; nothing happens if it has ended already.

        Raises:
            NotFound: no such job.
        """
        if not self.cancel_all([job], who):
            self.ask.job(job)

    def cancel_all(self, jobs: Sequence[int], who: str = "") -> list[int]:
        """End jobs, recorded together; return those that had not ended already."""
        active, now_us = [job for job in jobs if job in self.live_state.jobs], self.now_us()
        if active:
            self.journal.append([CancelRequested(now_us, job, who) for job in active]).wait()
            self.wake()
        return active

    def hold(self, jobs: Sequence[int], by: str = "", who: str = "") -> list[int]:
        """Keep waiting jobs from starting; see `Holds`."""
        return self.holds.hold(jobs, by, who)

    def release(self, jobs: Sequence[int], who: str = "") -> list[int]:
        """Release held jobs; return those that were held."""
        released = self.holds.release(jobs, who)
        self.wake()
        return released

    def prioritise(self, jobs: Sequence[int], priority: float, who: str = "") -> list[int]:
        """Give jobs another priority; return those that are active."""
        active = self.priorities.change(jobs, priority, who)
        self.wake()
        return active

    def resize(self, job: int, devices: int, key: str = "", who: str = "") -> dict[str, Any]:
        """Resize a running elastic job; see `Orders`."""
        return self.orders.resize(job, devices, key, who)

    def cap(self, job: int, share: float, key: str = "", who: str = "") -> dict[str, Any]:
        """Cap a job to a share of its devices; see `Orders`."""
        return self.orders.cap(job, share, key, who)

    def checkpoint(self, job: int, key: str = "", who: str = "") -> dict[str, Any]:
        """Have a running job write a checkpoint; see `Orders`."""
        return self.orders.checkpoint(job, key, who)

    def _due(self, now_us: int, unrecorded: Sequence[Event]) -> list[Event]:
        """Return what is due besides the decision.

        Nodes that went down or came up are noted, jobs whose dependencies or deadlines can no
        longer be met are cancelled, jobs whose begin time has come are released, jobs that may wait
        for price or carbon are deferred or released, requested sizes
        are granted, and preempted jobs that move are restarted.
        """
        nodes = self.nodes.changes(now_us)
        with self.live_state.lock:
            doomed = self.columns.doomed(self.live_state.ended)
            begun = self.holds.due(self.columns.held.values(), now_us)
            begun += self.deferrals.due(self.live_state.jobs.values(), now_us)
            reasons = self.deadlines.missed(now_us)
        ended = self.live_state.ended
        for job, other in doomed.items():
            reasons[job] = f"dependency-never-satisfied: job {other} is {ended[other]}"
        cancels = [
            CancelRequested(now_us, job, "flyball", reason) for job, reason in reasons.items()
        ]
        moved = self.orders.moved(now_us, [*unrecorded, *nodes])
        return [*nodes, *cancels, *begun, *self.orders.due(now_us), *moved]

    def drain(self, node: str, reason: str, who: str = "") -> None:
        """Start no more jobs on a node until it is resumed; those that run there run on.

        Raises:
            NotFound: no such node.
        """
        self.nodes.order(node, False, reason, who)

    def resume(self, node: str, who: str = "") -> None:
        """Let a drained node take jobs again, if it is up.

        Raises:
            NotFound: no such node.
        """
        self.nodes.order(node, True, "", who)

    def _cap_means(self, job: Job) -> str:
        return self.loop.means.get((job.id, job.attempt), "")

    def report(self, job: int, attempt: int, values: Mapping[str, Any]) -> None:
        """Take the progress that a job reports; the last report counts."""
        record = self.ask.job(job)
        if not record.state.final and attempt in (0, record.attempt):
            self.progress.hear(job, values)
            self.worker.steps.hear(record, self.now_us(), values)

    def _steps(self, job: Job) -> Steps | None:
        return self.worker.steps.of(job, self.ask.sensors, self.progress.of(job))

    def dry_run(self, spec: JobSpec) -> dict[str, Any]:
        """Return whether and when a job would start if it were submitted now.

        Raises:
            BadInput: it can never run here.
        """
        self.admission.check(spec)
        return self.ask.would_start(spec) | {"notes": self.notes([spec])}

    def audit(self, what: str, who: str) -> None:
        """Record something that is not about a job."""
        self.journal.append([Audited(self.now_us(), what, who)])
