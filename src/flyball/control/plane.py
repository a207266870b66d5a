"""The control plane as others see it: submit, cancel, ask. Safe from any thread.

plane = Plane(folder, engine, policy, knobs)
plane.open()                    read the journal, ask the engine, reconcile
plane.step()                    one cycle; `Driver` does this for ever
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flyball import __version__
from flyball.control.ask import status
from flyball.control.ask.durations import Durations
from flyball.control.ask.queries import Answers, Sensors
from flyball.control.ask.receipts import Prices
from flyball.control.ask.recent_arrivals import Recent
from flyball.control.ask.reported_steps import Steps
from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.ask.views import job_view
from flyball.control.ask.waiting_tokens import Tokens
from flyball.control.ask.worker_client import WorkerClient
from flyball.control.ask.worker_process import WorkerProcess
from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import Table
from flyball.control.decide.tuning_rounds import Tuning
from flyball.control.jobs.holds import Holds
from flyball.control.jobs.live_state import Book
from flyball.control.jobs.output_guard import OutputGuard
from flyball.control.jobs.progress import Progress
from flyball.control.jobs.request import (
    Demand,
    can_hold,
    cluster_of,
    earlier_ids,
    fingerprint,
    numbered,
)
from flyball.control.jobs.scaling import scaled_events
from flyball.control.jobs.steer import Orders
from flyball.control.journal.job_numbers import JobNumbers
from flyball.control.journal.store import Changes, JobQuery, Journal, Ticket
from flyball.control.loop import Loop
from flyball.control.notify import notices
from flyball.control.notify.target import check_targets
from flyball.control.recover import give_up_unfit, reconcile
from flyball.core.errors import BadInput, NotFound
from flyball.core.jobs import Job, JobSpec, request_of
from flyball.core.knobs import Knobs
from flyball.core.live import Event, EventKind
from flyball.core.protocols import Engine, RunTimeLearner
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.twin.live import fits

JOURNAL = "journal.db"
LESS = "ask for less; `flyball nodes` shows what there is"
MOST_FITTING = 10_000
"""Requests that are remembered to fit."""


class Plane(Answers):
    """One cluster's control plane.

    Attributes:
        book: what is true now.
        journal: all that ever was.
        loop: the cycle.
    """

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
    ) -> None:
        """
        Args:
            folder: the state folder.
            clock: given the time of the last event, a clock that does not go behind it.
            inline: the journal writes without a thread, for virtual clocks.
            passing: see `Loop`.
            tuning: who changes what the policy decides; None = nobody.
        """
        self.folder, self.engine = folder, engine
        self.policy, self.knobs = policy, knobs
        self.prices = prices or Prices()
        self.book = Book()
        self.sensors: Sensors | None = None
        self.progress = Progress(self.book, lambda: self.sensors, lambda: self.now_us())
        self._news = threading.Condition()
        self._ids = threading.Lock()
        self.journal = Journal(folder / JOURNAL, self._fold, self._committed, inline=inline)
        self.nodes_ = tuple(engine.nodes())
        self.cluster = cluster_of(self.nodes_, "live")
        self.demand = Demand(self.nodes_)
        self._outputs = OutputGuard(folder)
        self.table = Table(self.demand)
        self.book.watchers.append(self.table.update)
        last = self.journal.last()
        self.now_us = clock(last.time_us)
        self._numbers = JobNumbers(folder, last.next_job)
        self.decider = Decider(self.book, self.table, self.cluster, policy, knobs, tuning)
        self.loop = Loop(
            self.book, self.journal, engine, self.decider, self.progress.understood, self._asked,
            self.now_us, passing,
        )  # fmt: skip
        self.orders = Orders(self, inline)
        self.holds = Holds(self.book, self.journal, self.now_us)
        self.notices = notices.Notices(folder, self.nodes_, self.journal, self.now_us)
        self.durations = Durations(self.journal.ended())
        self.recent = Recent(self.demand, reversed(self.journal.jobs(JobQuery(limit=1000)).jobs))
        self.forecaster = StartForecaster(self.book, self.decider, self.durations, self.recent)
        self.forecaster.steps = self._steps
        self.tokens = Tokens(self.book, self.decider)
        self.worker = WorkerClient(self.forecaster, self._predicted, self._scaled)
        self.learner: RunTimeLearner | None = None
        """Predicts run times in this process where no worker runs: on virtual clocks."""
        self._fitting: set[tuple[Any, ...]] = set()
        """Requests that were found to fit."""
        self.wake: Callable[[], None] = lambda: None
        self.pulse = status.Pulse()

    def _fold(self, events: Sequence[Event]) -> Changes:
        return self.notices.fold(events, self.progress.fold(events))

    def _committed(self, events: Sequence[tuple[int, Event]], changes: Changes) -> None:
        """The journal has made these durable."""
        if events:
            self.book.absorb(events[-1][0], changes, [event for _, event in events])
            self.orders.settle([event for _, event in events])
        self.notices.settle(changes)
        changes = self.progress.settle([event for _, event in events], changes)
        self.recent.take(changes)
        for job in changes.values():
            if job.state.final:
                self.durations.learn(job)
        if self.learner is not None:
            runs = self.learner.observe(changes)
            self._predicted([[job, run.like, *run.quantiles] for job, run in runs.items()])
        with self._news:
            self._news.notify_all()

    def open(self) -> int:
        """Take up where the last one stopped; how many attempts turned out to be over."""
        last = self.journal.last()
        active, ended = self.journal.active(), self.journal.final_states()
        self.book.load(last.seq, active, ended, set())
        self.notices.load()
        self.decider.number = self.journal.last_decision()
        self.journal.append([self._opened()]).wait()
        self.progress.recall(list(self.book.busy))
        over = reconcile(self.book, self.journal, self.engine, self.now_us())
        give_up_unfit(self.book, self.journal, self._check_fit, self.now_us())
        return over

    def _opened(self) -> Event:
        tuning = self.decider.tuning
        tuners = {"tuners": list(tuning.tuners), "tuner_settings": tuning.settings}
        return {
            "kind": EventKind.OPENED,
            "time_us": self.now_us(),
            "version": __version__,
            "policy": self.policy,
            "knobs": self.knobs.as_dict(),
            "cluster": self.cluster.name,
            "budget_w": self.cluster.power_budget_w,
            "nodes": [each._asdict() for each in self.nodes_],
            **{name: value for name, value in tuners.items() if value},
        }

    def _predicted(self, runs: Sequence[Sequence[float]]) -> Ticket | None:
        """Put predicted run times on record; decisions use what is there."""
        known = [list(each) for each in runs if each[0] in self.book.jobs]
        if not known:
            return None
        event = {"kind": EventKind.PREDICTED, "time_us": self.now_us(), "runs": known}
        return self.journal.append([event])

    def _scaled(self, rows: Sequence[Sequence[float]]) -> Ticket | None:
        """Put on record how elastic jobs were found to scale."""
        events = scaled_events(rows, self.book.jobs, self.now_us())
        return self.journal.append(events) if events else None

    def step(self) -> bool:
        """One cycle; whether anything happened."""
        began_us = self.now_us()
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
        self.worker.on_loads = lambda loads: setattr(self.decider, "forecasts", loads)
        return process

    def close(self) -> None:
        """Write what is left and let go of the journal. Jobs run on."""
        self.journal.close()
        self._numbers.close()

    # Jobs ------------------------------------------------------------------------------

    def submit(self, specs: Sequence[JobSpec], key: str = "", who: str = "") -> list[int]:
        """Accept jobs, all or none; on record when it returns.

        Neighbours with rising `array_index` are the tasks of one array.

        Args:
            specs: what is asked for.
            key: the same key gives the same ids, and nothing is submitted twice.
            who: for the record.

        Raises:
            BadInput: a job that can never run here.
            Conflict: the key was used for something else.
            Unavailable: the journal cannot be written.
        """
        if not specs:
            raise BadInput("no job to submit", "name a command")
        said = [spec.as_dict() for spec in specs]
        print_ = fingerprint(said) if key else ""
        try:
            for spec in specs:
                self._check(spec)
        except BadInput:
            # It may have been accepted before, when it could still run.
            if key and (known := self.journal.answer(key)) is not None:
                return earlier_ids(known.value, key, print_)
            raise
        with self._ids:
            first = self._numbers.take(len(specs))
            made = numbered(specs, first)
            for spec in made:  # again, now that the patterns in its paths are filled in
                self._outputs.check(spec)
            now = self.now_us()
            events = [
                {
                    "kind": EventKind.SUBMITTED,
                    "time_us": now,
                    "job": first + at,
                    "who": who,
                    "spec": said[at] if spec is specs[at] else spec.as_dict(),
                }
                for at, spec in enumerate(made)
            ]
            answer = {"first": first, "count": len(made), "print": print_} if key else None
            ticket = self.journal.append(events, key, answer)
        ticket.wait()
        self.wake()
        if ticket.repeated:
            with self._ids:
                self._numbers.give_back(first, len(made))
            return earlier_ids(ticket.answer, key, print_)
        return list(range(first, first + len(made)))

    def _check(self, spec: JobSpec) -> None:
        self._check_fit(spec)
        self.demand.check_growth(spec)
        self._outputs.check(spec)
        check_targets(spec)
        for how, other in spec.after:
            if other not in self.book.jobs and other not in self.book.ended:
                raise NotFound(f"no job {other} to wait for", "see flyball queue --all")
            if not can_hold(how, self.book.ended.get(other)):
                state = self.book.ended[other]
                raise BadInput(f"job {other} is {state}: {how} can never hold", "use afterany")

    def _check_fit(self, spec: JobSpec) -> None:
        """Raise BadInput for a job that could not even run on an empty cluster."""
        request = request_of(spec)
        if request in self._fitting:
            return
        self.demand.check(spec)
        asks = self.demand.of(spec)
        if asks not in self._fitting:
            one = Workload.of(
                "it can never run here", [0.0], [1.0], asks.devices, milli=asks.milli, kind=0,
                cpu_milli=asks.cpu_milli, host_mib=asks.host_mib,
                ids=[spec.name or "job"], device=0, device_names=(self.demand.device,),
            )  # fmt: skip
            try:
                fits(self.cluster, one, self.knobs)
            except BadInput as error:  # what helps with a trace does not help here
                raise BadInput(error.args[0], LESS) from None
        if len(self._fitting) > MOST_FITTING:
            self._fitting.clear()
        self._fitting |= {asks, request}

    def cancel(self, job: int, who: str = "") -> None:
        """Have a job end; nothing if it has already.

        Raises:
            NotFound: no such job.
        """
        if not self.cancel_all([job], who):
            self.job(job)

    def cancel_all(self, jobs: Sequence[int], who: str = "") -> list[int]:
        """Have jobs end, all on record at once; those that had not ended already."""
        active, now_us = [each for each in jobs if each in self.book.jobs], self.now_us()
        about = {"kind": EventKind.CANCEL, "time_us": now_us, "who": who}
        if active:
            self.journal.append([{**about, "job": each} for each in active]).wait()
            self.wake()
        return active

    def hold(self, jobs: Sequence[int], by: str = "", who: str = "") -> list[int]:
        """Keep waiting jobs from starting; see `Holds`."""
        return self.holds.hold(jobs, by, who)

    def release(self, jobs: Sequence[int], who: str = "") -> list[int]:
        """Let held jobs start as soon as they can; those that were held."""
        released = self.holds.release(jobs, who)
        self.wake()
        return released

    def resize(self, job: int, devices: int, key: str = "", who: str = "") -> dict[str, Any]:
        """Let an elastic job go on with another number of devices; see `Orders`."""
        return self.orders.resize(job, devices, key, who)

    def cap(self, job: int, share: float, key: str = "", who: str = "") -> dict[str, Any]:
        """Keep a job to a part of what its devices could do; see `Orders`."""
        return self.orders.cap(job, share, key, who)

    def checkpoint(self, job: int, key: str = "", who: str = "") -> dict[str, Any]:
        """Have a running job save what it has; see `Orders`."""
        return self.orders.checkpoint(job, key, who)

    def _asked(self, now_us: int, own: Sequence[Event]) -> list[Event]:
        """What is done besides deciding: doomed jobs are cancelled, ordered sizes are given,
        jobs whose time to begin has come may start, and jobs that were set aside to move go on
        where they were wanted.

        Cancellations are of jobs whose dependencies can no longer hold.
        """
        with self.book.lock:
            doomed = self.table.doomed(self.book.ended)
            begun = self.holds.due(self.table.held.values(), now_us)
        cancels: list[Event] = [
            {"kind": EventKind.CANCEL, "time_us": now_us, "job": job, "who": "flyball"}
            | {"reason": f"dependency-never-satisfied: job {other} is {self.book.ended[other]}"}
            for job, other in doomed.items()
        ]
        return [*cancels, *begun, *self.orders.due(now_us), *self.orders.moved(now_us, own)]

    def jobs(self, query: JobQuery) -> list[Job]:
        """A page of jobs, newest first."""
        return self.journal.jobs(query).jobs

    def view(self, job: Job) -> dict[str, Any]:
        """A job as the API shows it."""
        how = self.loop.means.get((job.id, job.attempt), "")
        more = {"progress": self.progress.of(job), "notify": notices.view(job)}
        return job_view(job, self.nodes_, how) | more

    def report(self, job: int, attempt: int, values: Mapping[str, Any]) -> None:
        """Progress that a job tells of itself; the last counts."""
        found = self.job(job)
        if not found.state.final and attempt in (0, found.attempt):
            self.progress.hear(job, values)
            self.worker.steps.hear(found, self.now_us(), values)

    def _steps(self, job: Job) -> Steps | None:
        return self.worker.steps.of(job, self.sensors, self.progress.of(job))

    def dry_run(self, spec: JobSpec) -> dict[str, Any]:
        """Whether and when a job would start if it were submitted now.

        Raises:
            BadInput: it can never run here.
        """
        self._check(spec)
        return self._dry_run(spec)
