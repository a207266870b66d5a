"""The state of the worker process: follows the journal, forecasts starts, and has a learner learn.

    state = WorkerState(history, folder, now_us, learner)
    messages = state.step()

The worker has a live state of its own, folded from the same events, so that it can look ahead with
the same decisions. It only reads the journal, and returns messages for the control plane: those of
the learner (`learn.learner`), and

| message | holds |
|---|---|
| `bands` | the correction of start-time forecasts |
| `status` | how good predictions have been |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flyball.control.ask.durations import Durations
from flyball.control.ask.recent_arrivals import Recent
from flyball.control.ask.start_bands import LEVELS, StartBands
from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import JobColumns
from flyball.control.jobs.adjustments import size_changes
from flyball.control.jobs.fit import FitCheck
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.request import cluster_of, demand_in, nodes_of, resizes_in
from flyball.control.journal.history import History
from flyball.control.journal.sql import JobQuery
from flyball.core.events import CLASSES, Audited, Decided, NodeChanged, Opened, OthersChanged
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.knobs import Knobs
from flyball.core.learning import Learner, Message
from flyball.core.units import US_PER_S

MODEL_FOLDER = "predict"
"""Subfolder of the state folder that holds the model and the correction of start times."""
BANDS_FILE = "starts.json"
JOBS_LEARNT_FROM = 5_000
"""Number of latest jobs from which a new worker learns."""
PAGE = 1_000
FORECAST_INTERVAL_S = 15.0
"""Time between two forecasts of the starts of newly pending jobs."""
MAX_STARTS_PER_FORECAST = 100
MINUTE_S = 60.0
FOLLOWED_KINDS = tuple(kind for kind in CLASSES if kind not in (Decided.kind, Audited.kind))
"""Kinds of events that change the live state."""


class WorkerState:
    """Follows one journal.

    Attributes:
        live_state: what is true now.
        bands: corrections of start-time forecasts.
        learner: learns from jobs.
    """

    def __init__(
        self, history: History, folder: Path, now_us: Callable[[], int], learner: Learner
    ) -> None:
        """
        Args:
            history: the journal, read only.
            folder: where corrections are kept; created if absent.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._history, self._folder, self._now_us = history, folder, now_us
        self.learner = learner
        self.bands = StartBands.load(folder / BANDS_FILE)
        self._forecast_jobs: dict[int, None] = {}
        self._forecast_at_s = self._minute_at_s = 0.0
        self._begin()

    def _begin(self) -> None:
        """Read the state now, and the latest jobs to learn from."""
        last = self._history.last()
        opened_seq, opened = self._history.last_opened()
        nodes = nodes_of(opened)
        self.live_state, demand = LiveState(), demand_in(opened)
        knobs = Knobs().with_settings([f"{k}={v}" for k, v in opened.knobs.items()])
        columns = JobColumns(demand, knobs.reads_spread, resizes_in(opened))
        self.live_state.watchers = [columns.update]
        self.live_state.load(last.seq, self._history.active(), self._history.final_states(), set())
        of_nodes = NodeChanged.kind, OthersChanged.kind
        while page := self._history.events(opened_seq, PAGE, of_nodes):
            opened_seq = page[-1][0]
            self.live_state.absorb(last.seq, {}, [event for _seq, event in page])
        cluster = cluster_of(nodes, opened.cluster, opened.budget_w)
        columns.unfit = FitCheck(demand, cluster, knobs).unfit(self.live_state.jobs.values())
        decider = Decider(self.live_state, columns, cluster, opened.policy, knobs)
        jobs = self._latest_jobs()
        self._durations = Durations(reversed([job for job in jobs if job.state.final]))
        self._recent = Recent(demand, jobs)
        self.forecaster = StartForecaster(self.live_state, decider, self._durations, self._recent)
        self.forecaster.bands = self.bands
        self._decider = decider

        def devices_of(spec: JobSpec) -> int:
            request = demand.of(spec)
            return request.devices * request.milli

        self.learner.begin(jobs, devices_of, self._now_us())
        self._seen = last.seq

    def _latest_jobs(self) -> list[Job]:
        """Return the latest jobs in order of submission."""
        jobs: list[Job] = []
        after_id = 0
        while len(jobs) < JOBS_LEARNT_FROM:
            page, after_id = self._history.jobs(JobQuery(limit=PAGE, after_id=after_id))
            jobs += page
            if not after_id:
                break
        return sorted(jobs, key=lambda job: (job.submit_us, job.id))

    # One step ----------------------------------------------------------------------------

    def step(self) -> list[Message]:
        """Read what is new in the journal; return messages, none if nothing follows from it."""
        # 1. Fold new events.
        changes = self._read()
        now_us = self._now_us()
        now_s = now_us / US_PER_S
        # 2. Learn from them: predictions for new jobs.
        messages = self.learner.observe(changes, now_us)
        # 3. Judge earlier start-time forecasts.
        self._judge(changes, now_s)
        if now_s >= self._forecast_at_s:
            self._forecast_at_s = now_s + FORECAST_INTERVAL_S
            # 4. Measure resized jobs, and forecast the starts of newly pending ones.
            resized = size_changes(self.live_state.busy.values())
            messages += self.learner.measure(resized, now_us)
            self._forecast_starts(now_s)
        # 5. Once a minute: loads, corrections, and how good predictions are.
        if now_s >= self._minute_at_s:
            self._minute_at_s = now_s + MINUTE_S
            messages += self.learner.every_minute(self.live_state.jobs.values(), now_us)
            self.bands.save(self._folder / BANDS_FILE)
            messages += [{"bands": self.bands.as_dict()}, {"status": self.status()}]
        return messages

    def _read(self) -> dict[int, Job]:
        changed: dict[int, Job] = {}
        while page := self._history.events(self._seen, PAGE, FOLLOWED_KINDS):
            events = [event for _seq, event in page]
            if any(isinstance(event, Opened) for event in events):
                self._begin()  # the nodes have changed
                return changed
            changes = self.live_state.fold(events)
            self._seen = page[-1][0]
            self.live_state.absorb(self._seen, changes, events)
            changed |= changes
            if len(page) < PAGE or len(changed) >= PAGE:
                break
        self._recent.take(changed)
        for job in changed.values():
            if job.state.final:
                self._durations.learn(job)
        return changed

    def _judge(self, changes: Mapping[int, Job], now_s: float) -> None:
        """Compare forecast starts with those that happened."""
        for job in changes.values():
            if job.id in self._forecast_jobs and (job.first_start_us or job.state.final):
                del self._forecast_jobs[job.id]
                if job.first_start_us:
                    self.bands.started(job.id, job.first_start_us / US_PER_S)
                else:
                    self.bands.forget(job.id)
        self.bands.advance(now_s)

    def _forecast_starts(self, now_s: float) -> None:
        """Forecast the start of pending jobs that have no forecast yet."""
        pending = [
            job.id
            for job in self.live_state.jobs.values()
            if job.state == JobState.PENDING
            and not job.attempt
            and job.id not in self._forecast_jobs
        ][:MAX_STARTS_PER_FORECAST]
        if not pending:
            return
        self._decider.follow_lead(self._now_us())
        rolled = self.forecaster.roll_out((), self._now_us())
        for job_id in pending:
            if (raw := rolled.raw.get(job_id)) is not None and raw.p90_s > 0.0:
                self.bands.expect(job_id, raw, now_s)
            self._forecast_jobs[job_id] = None

    # Answers -----------------------------------------------------------------------------

    def predict(self, spec: JobSpec) -> list[float]:
        """Return the number of like jobs that ended, and quantiles of a job's run time."""
        run = self.learner.predict(spec, self._now_us())
        return [run.like, *run.quantiles]

    def status(self) -> dict[str, Any]:
        """Return how good predictions of start time, load and run time have been."""
        names = [f"p{round(100 * level)}" for level in LEVELS]
        starts: dict[str, Any] = {
            f"coverage_{name}": part if part == part else None
            for name, part in zip(names, self.bands.coverage(), strict=True)
        }
        judged = zip(names, self.bands.outcomes, strict=True)
        starts |= {f"n_{name}": len(outcomes) for name, outcomes in judged}
        return {
            "time": self._now_us() / US_PER_S,
            "seen": self._seen,
            **self.learner.status(),
            "starts": {
                **starts,
                "waiting": self.bands.waiting,
                "calibration": self.bands.calibration(self._now_us() / US_PER_S),
            },
        }

    def close(self) -> None:
        """Save the corrections, and stop the learner."""
        self.learner.close()
        self.bands.save(self._folder / BANDS_FILE)
