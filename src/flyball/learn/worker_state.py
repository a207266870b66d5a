"""Follows a journal from beside the control plane, and says what it expects.

    follower = Follower(history, folder, now_us)
    messages = follower.step()

It has a book of its own, made of the same events, so that it can look ahead by the same decisions.
It only reads the journal. What it says are plain messages:

| message | holds |
|---|---|
| `runs` | (job, like jobs ended, *quantiles of its run time) of jobs that are new |
| `scaled` | (job, part of a step that devices share, changes it was measured by) |
| `bands` | how start-time forecasts are to be corrected |
| `loads`, `status` | forecasts of load; how good all of it has been |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flyball.control.ask.durations import Durations
from flyball.control.ask.recent_arrivals import Recent
from flyball.control.ask.start_bands import LEVELS, StartBands
from flyball.control.ask.start_forecast import Forecaster
from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import Table
from flyball.control.jobs.live_state import Book
from flyball.control.jobs.request import Demand, cluster_of, nodes_of
from flyball.control.journal.history import History
from flyball.control.journal.sql import JobQuery
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.knobs import Knobs
from flyball.core.live import EventKind
from flyball.core.units import US_PER_S
from flyball.learn import fit_process
from flyball.learn.loads import Loads, Measured
from flyball.learn.run_times import Learner
from flyball.learn.scalings import Scalings

NOT_FOLLOWED = (EventKind.DECIDED, EventKind.AUDIT)
FOLDER = "predict"
"""In the state folder: the model, and the correction of start times."""
BANDS = "starts.json"
REMEMBERED = 5_000
"""Latest jobs from which a new worker learns."""
PAGE = 1_000
MOST_TOLD = 500
"""Predictions in one message: each is written to the journal."""
ASK_S = 15.0
"""Start times of jobs that have come to wait are forecast this often."""
MOST_ASKED = 100
MINUTE_S = 60.0
FOLLOWED = tuple(each for each in EventKind if each not in NOT_FOLLOWED)
"""Kinds of events that change the book."""

Message = dict[str, Any]


class Follower:
    """Everything that is learnt beside the control plane."""

    def __init__(
        self,
        history: History,
        folder: Path,
        now_us: Callable[[], int],
        measured: Measured | None = None,
        fits: fit_process.Fitting | None = None,
    ) -> None:
        """
        Args:
            history: the journal, read only.
            folder: where models are kept; made if it is not there.
            measured: series of the monitor.
            fits: grows trees.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._history, self._folder, self._now_us = history, folder, now_us
        self._fits = fits or fit_process.Fitting(folder)
        self.learner = Learner(folder / fit_process.CURRENT)
        self.bands = StartBands.load(folder / BANDS)
        self._untold: list[list[Any]] = []
        self._asked: dict[int, None] = {}
        self._ask_at_s = self._minute_at_s = 0.0
        self._gone: dict[int, Job] = {}
        self._seen = 0
        self._begin(measured)

    def _begin(self, measured: Measured | None) -> None:
        """Read what there is: the state now, and the latest jobs to learn from."""
        last = self._history.last()
        opened = self._opened()
        nodes = nodes_of(opened)
        self.book, demand = Book(), Demand(nodes)
        table = Table(demand)
        self.book.watchers = [table.update]
        self.book.load(last.seq, self._history.active(), self._history.final_states(), set())
        knobs = Knobs().with_settings([f"{k}={v}" for k, v in opened["knobs"].items()])
        cluster = cluster_of(nodes, opened["cluster"], opened["budget_w"])
        decider = Decider(self.book, table, cluster, opened["policy"], knobs)
        jobs = self._latest()
        self._durations = Durations(reversed([job for job in jobs if job.state.final]))
        self._recent = Recent(demand, jobs)
        self.forecaster = Forecaster(self.book, decider, self._durations, self._recent)
        self.forecaster.bands = self.bands
        self.learner.begin(jobs)
        self.loads = Loads(demand, measured)
        self.loads.begin(jobs, self._now_us() / US_PER_S)
        self.scalings = Scalings(measured)
        self.scalings.begin(jobs)
        self._seen = last.seq

    def _opened(self) -> Any:
        """How the control plane began that runs now."""
        found: Any = None
        after = 0
        while page := self._history.events(after, PAGE, (EventKind.OPENED,)):
            after, found = page[-1]
        return found

    def _latest(self) -> list[Job]:
        """The latest jobs, in order of submission."""
        found: list[Job] = []
        after_id = 0
        while len(found) < REMEMBERED:
            page, after_id = self._history.jobs(JobQuery(limit=PAGE, after_id=after_id))
            found += page
            if not after_id:
                break
        return sorted(found, key=lambda job: (job.submit_us, job.id))

    # One step ----------------------------------------------------------------------------

    def step(self) -> list[Message]:
        """Take what is new, and say what follows; an empty list if nothing does."""
        messages: list[Message] = []
        # 1. What happened?
        changes = self._read()
        # 2. Run times of those that came; tell as many as the journal takes at a time.
        made = self.learner.take(changes)
        self._untold += [[job, each.like, *each.quantiles] for job, each in made.items()]
        if told := self._untold[:MOST_TOLD]:
            self._untold = self._untold[MOST_TOLD:]
            messages.append({"runs": told})
        # 3. How elastic jobs scale: of those that came, and of those whose size has changed.
        now_s = self._now_us() / US_PER_S
        scaled = self.scalings.take(changes)
        if now_s >= self._ask_at_s:
            scaled += self.scalings.look(list(self.book.busy.values()), now_s)
        if scaled:
            messages.append({"scaled": scaled})
        # 4. What became of start times that were forecast, and forecasts of new ones.
        self._judge(changes, now_s)
        if now_s >= self._ask_at_s:
            self._ask_at_s = now_s + ASK_S
            self._ask(now_s)
        # 5. Trees that have been grown meanwhile.
        self._grow()
        # 6. Once a minute: loads, and how good all of it is.
        if now_s >= self._minute_at_s:
            self._minute_at_s = now_s + MINUTE_S
            messages += self._minutely(now_s)
        return messages

    def _read(self) -> dict[int, Job]:
        changed: dict[int, Job] = {}
        while page := self._history.events(self._seen, PAGE, FOLLOWED):
            events = [event for _seq, event in page]
            changes = self.book.fold(events)
            self._seen = page[-1][0]
            self.book.absorb(self._seen, changes, events)
            changed |= changes
            if len(page) < PAGE or len(changed) >= PAGE:
                break
        self._recent.take(changed)
        for job in changed.values():
            if job.state.final:
                self._durations.learn(job)
                self._gone[job.id] = job
        return changed

    def _judge(self, changes: Mapping[int, Job], now_s: float) -> None:
        for job in changes.values():
            if job.id in self._asked and (job.first_start_us or job.state.final):
                del self._asked[job.id]
                if job.first_start_us:
                    self.bands.started(job.id, job.first_start_us / US_PER_S)
                else:
                    self.bands.forget(job.id)
        self.bands.advance(now_s)

    def _ask(self, now_s: float) -> None:
        """Forecast the start of jobs that wait and have not been asked about."""
        waiting = [
            job.id
            for job in self.book.jobs.values()
            if job.state == JobState.PENDING and not job.attempt and job.id not in self._asked
        ][:MOST_ASKED]
        if not waiting:
            return
        rolled = self.forecaster.roll_out((), self._now_us())
        for job_id in waiting:
            if (raw := rolled.raw.get(job_id)) is not None and raw.p90_s > 0.0:
                self.bands.expect(job_id, raw, now_s)
            self._asked[job_id] = None

    def _grow(self) -> None:
        trees = self._fits.poll()
        if trees is not None:
            self.learner.run_times.trees = trees
            fit_process.keep(self.learner.run_times, self._folder)
        elif not self._fits.busy and self.learner.fit_due:
            self._fits.start(self.learner.fitting(self._now_us()))

    def _minutely(self, now_s: float) -> list[Message]:
        self.loads.tick([*self.book.jobs.values(), *self._gone.values()], now_s)
        self._forget_gone(now_s)
        self.bands.save(self._folder / BANDS)
        for each in self.loads.followed:
            if each.fit(now_s):
                break  # one a minute: the others are as good as before meanwhile
        loads = [made for each in self.loads.followed if (made := each.forecast())]
        return [{"loads": loads}, {"bands": self.bands.as_dict()}, {"status": self.status()}]

    def _forget_gone(self, now_s: float) -> None:
        """Jobs that ended before every series' last step count no more."""
        earliest_s = min(
            (each.next_s - each.kind.step_s for each in self.loads.followed), default=0
        )
        kept = {i: job for i, job in self._gone.items() if job.end_us / US_PER_S >= earliest_s}
        self._gone = kept

    # Answers -----------------------------------------------------------------------------

    def predict(self, spec: JobSpec) -> list[float]:
        """The run time of a job that might be submitted: like jobs ended, then quantiles."""
        found = self.learner.predict(spec, self._now_us())
        return [found.like, *found.quantiles]

    def status(self) -> dict[str, Any]:
        """How good everything has been."""
        kept = self.bands.coverage()
        names = [f"p{round(100 * level)}" for level in LEVELS]
        starts: dict[str, Any] = {
            f"coverage_{name}": part if part == part else None
            for name, part in zip(names, kept, strict=True)
        }
        n = {f"n_{name}": len(each) for name, each in zip(names, self.bands.outcomes, strict=True)}
        return {
            "time": self._now_us() / US_PER_S,
            "seen": self._seen,
            "loads": [each.status() for each in self.loads.followed],
            "run_times": {**self.learner.status(), "fit_error": self._fits.last_error},
            "starts": {**starts, **n, "waiting": self.bands.waiting},
        }

    def close(self) -> None:
        """Keep what was learnt."""
        self._fits.stop()
        self.bands.save(self._folder / BANDS)
