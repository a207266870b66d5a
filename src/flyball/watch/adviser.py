"""Forecasts the starts of a Slurm site's pending jobs, reading after reading.

    adviser = Adviser()
    adviser.learn(site.ended())          run times of the last weeks
    advice = adviser.observe(reading)    p50 and p90 of every pending job's start

The same classes forecast Flyball's own queue: the twin's look-ahead with the site's rules, run
times predicted from the owner's jobs, arrivals drawn from past ones, and a correction of the bands
by how earlier forecasts turned out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flyball.control.ask.durations import Durations
from flyball.control.ask.recent_arrivals import Recent
from flyball.control.ask.start_bands import Edges
from flyball.control.ask.start_forecast import StartForecaster, StartTime
from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import JobColumns
from flyball.control.jobs.live_state import PREDICTION, LiveState
from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.units import to_us
from flyball.engines.slurm.accounting import EndedJob
from flyball.engines.slurm.poll import Reading
from flyball.engines.slurm.queue_text import QueuedJob
from flyball.learn.run_times import RunTimeLearner
from flyball.twin.live import fits
from flyball.watch.correction import Correction
from flyball.watch.mirror import (
    PARTS,
    PENDING,
    RUNNING,
    TIER,
    Mirror,
    Mirroring,
    Numbers,
    ended_job,
    ended_of,
    started_s,
)
from flyball.watch.rules import Rules, rules_of
from flyball.watch.site_model import Place, SiteModel, place_of

MAX_RECENT = 2000
"""Number of latest jobs from which future arrivals are drawn."""
UNLEARNT = ("the stated", "no estimate")
"""How the source of a run time begins if it is not the history of like jobs."""
MAX_STATED_PART = 0.5
"""Largest part of the active jobs without history at which forecasts teach the bands."""


@dataclass(frozen=True)
class Start:
    """Holds when a pending job starts: our forecast and Slurm's, in seconds from now.

    Attributes:
        forecast: None = there is none; `why_none` says why.
        slurm_s: Slurm's own estimate, as in `squeue --start`; None = it has none.
        raw: the forecast before the correction by earlier outcomes.
    """

    job: QueuedJob
    forecast: StartTime | None
    slurm_s: float | None
    why_none: str = ""
    raw: Edges | None = None


@dataclass(frozen=True)
class Advice:
    """Holds what was concluded from one reading.

    Attributes:
        starts: pending jobs in the order in which Slurm takes them.
        started: labels and times of jobs that started since the last reading.
        coverage: share of earlier forecasts whose p50 and p90 held, NaN without any.
        notes: what could not be modelled, for people.
    """

    reading: Reading
    rules: Rules
    starts: list[Start]
    started: dict[str, float]
    running: int
    coverage: list[float]
    learnt: int
    notes: list[str]


class Adviser:
    """Follows one site.

    Attributes:
        correction: how earlier forecasts turned out, and what follows from that.
    """

    def __init__(self) -> None:
        self.correction = Correction()
        self._numbers = Numbers()
        self._learner = RunTimeLearner()
        self._durations = Durations()
        self._predictions: dict[int, list[float]] = {}
        self._known: dict[int, Job] = {}
        self._recent: dict[int, tuple[Job, Place, int]] = {}
        self._ended: set[int] = set()
        self._started: set[int] = set()
        self._fits: dict[tuple[object, ...], bool] = {}
        self._fits_of: object = None
        self.forecaster: StartForecaster | None = None
        self.live_state = LiveState()
        self.decider: Decider | None = None
        self._mirror: Mirror | None = None
        self._model: SiteModel | None = None
        self._rules: Rules | None = None

    # Learning ----------------------------------------------------------------------------

    def learn(self, ended: Iterable[EndedJob], now_s: float) -> int:
        """Learn from jobs that ended before the first reading; return how many."""
        jobs = []
        for past in sorted(ended, key=lambda job: job.submit_s):
            number = self._numbers.of(past.label, past.submit_s)
            job = ended_job(number, past, memory_counts=True)
            if job is not None and number not in self._ended:
                self._ended.add(number)
                jobs.append(job)
                self._remember(job, past.partitions, past.gpus, past.gpu_type, past.priority)
        self._learner.begin(jobs)
        for job in sorted(jobs, key=lambda job: job.end_us):
            self._durations.learn(job)
        if self._learner.fit_due:
            self._learner.training_rows(to_us(now_s))
            self._learner.run_times.refit(now_s)
        return len(jobs)

    def _remember(
        self, job: Job, partitions: tuple[str, ...], gpus: int, gpu_type: str, priority: int
    ) -> None:
        """Keep a job as one that may come again, with the place where it may run."""
        place = Place(tuple(sorted(partitions)), (gpu_type or "any") * bool(gpus), ())
        remembered = self._recent.get(job.id)
        first_priority = remembered[2] if remembered else priority
        values = {"features": (place.label,), "after": ()}
        spec = JobSpec.with_values({**job.spec.__dict__, **values})
        self._recent[job.id] = (replace(job, spec=spec, rows=()), place, first_priority)
        while len(self._recent) > MAX_RECENT:
            del self._recent[next(iter(self._recent))]

    def _follow(self, reading: Reading, mirror: Mirror, rules: Rules) -> None:
        """Learn from what changed since the last reading."""
        ends: dict[int, Job] = {}
        for queued in reading.jobs:
            number = self._numbers.of(queued.label, queued.submit_s)
            past = ended_of(queued)
            if past is not None and number not in self._ended:
                job = ended_job(number, past, rules.memory_counts)
                if job is not None:
                    ends[number] = job
            if queued.state in PENDING or queued.state in RUNNING or number in ends:
                job = ends.get(number) or self._known.get(number)
                if job is not None:
                    place = (queued.partitions, queued.gpus, queued.gpu_type)
                    self._remember(job, *place, queued.priority)
        active = {job.id: job for job in mirror.active if job.id < PARTS}
        for number in self._known.keys() - active.keys() - ends.keys():
            gone = replace(self._known[number], state=JobState.CANCELLED)
            ends[number] = replace(gone, end_us=to_us(reading.time_s), rows=())
        predictions = self._learner.observe({**active, **ends})
        self._predictions |= {
            number: [run.like, *run.quantiles] for number, run in predictions.items()
        }
        self._forget_absent(reading)
        for number, job in ends.items():
            self._durations.learn(job)
            self._ended.add(number)
            self._predictions.pop(number, None)
        self._known = active

    def _forget_absent(self, reading: Reading) -> None:
        """Forget jobs that squeue no longer shows, so that months of watching take no memory."""
        present = {self._numbers.of(job.label, job.submit_s) for job in reading.jobs}
        self._started &= present
        self._ended &= present | self._recent.keys()
        self._numbers.keep(present | self._recent.keys() | self._known.keys())

    # Forecasting -------------------------------------------------------------------------

    def observe(self, reading: Reading) -> Advice:
        """Follow a reading and forecast the starts of its pending jobs."""
        # 1. The site and its rules, as the kernel sees them.
        rules = rules_of(reading.settings)
        active = [job for job in reading.jobs if job.state in PENDING or job.state in RUNNING]
        places = [place_of(job) for job in active]
        places += [place for _job, place, _priority in self._recent.values()]
        name = reading.settings.get("clustername", "slurm")
        model = SiteModel(name, reading.nodes, places)
        # 2. Its jobs as ours; learn from what changed.
        mirror = Mirroring(reading, model, rules, self._numbers).mirror()
        self._follow(reading, mirror, rules)
        started = self._judge(reading)
        # 3. Look ahead.
        mirror = self._without_misfits(mirror, model, rules)
        self._load(mirror, model, rules, reading.tiers)
        now_us = to_us(reading.time_s)
        assert self.forecaster is not None
        rolled = self.forecaster.roll_out((), now_us)
        # Errors of stated limits say nothing about forecasts from history, so they teach no band.
        stated = sum(method.startswith(UNLEARNT) for method in rolled.methods.values())
        teaches = stated <= MAX_STATED_PART * len(rolled.methods)
        starts = []
        for queued in reversed(ordered(reading)):
            number = mirror.of_label[queued.label]
            raw = rolled.raw.get(number)
            why = mirror.blocked.get(queued.label, "")
            forecast = None
            if raw is not None and not why:
                edges = self.correction.show(number, raw, reading.time_s, teaches)
                forecast = StartTime(*edges, rolled.methods[number])
            slurm_s = None
            if queued.start_s is not None:
                slurm_s = max(0.0, queued.start_s - reading.time_s)
            why = why or ("" if forecast else "it never starts in the twin's look-ahead")
            starts.append(Start(queued, forecast, slurm_s, why, raw if forecast else None))
        notes = [*mirror.notes, self.forecaster.note(now_us)]
        running = sum(job.state in RUNNING for job in reading.jobs)
        coverage, learnt = self.correction.coverage(), self._learner.run_times.learnt
        return Advice(reading, rules, starts, started, running, coverage, learnt, notes)

    def job(self, label: str) -> Job | None:
        """Return a pending job of the last reading, if the look-ahead has it."""
        number = self._mirror.of_label.get(label) if self._mirror else None
        return None if number is None else self.live_state.get(number)

    def with_node_names(self, sentence: str) -> str:
        """Return a sentence of the twin's with the site's names of nodes."""
        assert self._model is not None
        names, at = {}, 0
        for group in self._model.cluster.groups:
            for number in range(group.count):
                names[f"{group.name}{number}"] = self._model.nodes[at].name
                at += 1
        return re.sub(r"[\w.-]*\w", lambda word: names.get(word[0], word[0]), sentence)

    def if_changed(self, job: Job, changes: Mapping[str, Any], now_us: int) -> StartTime | None:
        """Return the start of a pending job if it asked for something else; None = never."""
        assert self.forecaster is not None and self._model is not None and self._rules is not None
        spec = JobSpec.with_values({**job.spec.__dict__, **changes})
        if not self._fits_site(spec, self._model, self._rules):
            return None
        return self.forecaster.if_changed(job, changes, now_us)

    def _judge(self, reading: Reading) -> dict[str, float]:
        """Compare earlier forecasts with the starts that happened; return new starts."""
        started = {}
        for queued in reading.jobs:
            number = self._numbers.of(queued.label, queued.submit_s)
            began_s = started_s(queued)
            if began_s is not None and number not in self._started:
                self._started.add(number)
                started[queued.label] = began_s
                self.correction.started(number, began_s)
            elif queued.state == "CA":
                self.correction.forget(number)
        self.correction.advance(reading.time_s)
        return started

    def _without_misfits(self, mirror: Mirror, model: SiteModel, rules: Rules) -> Mirror:
        """Leave out pending jobs that no nodes of the model could ever hold."""
        labels = {number: label for label, number in mirror.of_label.items()}
        kept, blocked = [], dict(mirror.blocked)
        for job in mirror.active:
            if job.state == JobState.PENDING and not self._fits_site(job.spec, model, rules):
                why = "no nodes that are alike could hold it, down ones included"
                blocked[labels[job.id]] = blocked.get(labels[job.id]) or why
            else:
                kept.append(job)
        return mirror._replace(active=kept, blocked=blocked)

    def _fits_site(self, spec: JobSpec, model: SiteModel, rules: Rules) -> bool:
        if self._fits_of != model.cluster:
            self._fits, self._fits_of = {}, model.cluster
        key = (spec.cpus, spec.gpus, spec.memory_mib, spec.features)
        if key not in self._fits:
            columns = JobColumns(model.demand)
            plain = JobSpec.with_values({**spec.__dict__, "after": ()})
            columns.update({1: Job.submitted(1, plain, 0)})
            view, _ids = columns.view({}, set())
            try:
                has_place = not spec.features or model.demand.choice.pools(spec) > 0
                fits(model.cluster, view.workload, rules.knobs)
                self._fits[key] = has_place
            except BadInput:
                self._fits[key] = False
        return self._fits[key]

    def _come_again(self, model: SiteModel, rules: Rules, tiers: Mapping[str, int]) -> list[Job]:
        """Return the jobs that future arrivals are drawn from.

        With multifactor they come with the priority that they had when first seen; else behind all.
        """
        jobs = []
        for job, place, priority in self._recent.values():
            if self._fits_site(job.spec, model, rules):
                tier = max((tiers.get(name, 1) for name in place.partitions), default=1)
                value = tier * TIER + priority if rules.ages else 0.0
                spec = JobSpec.with_values({**job.spec.__dict__, "priority": value})
                jobs.append(replace(job, spec=spec))
        return sorted(jobs, key=lambda job: (job.submit_us, job.id))

    def _load(
        self, mirror: Mirror, model: SiteModel, rules: Rules, tiers: Mapping[str, int]
    ) -> None:
        """Put the mirrored jobs where the look-ahead reads them."""
        jobs = []
        for job in mirror.active:
            prediction = self._predictions.get(job.id % PARTS)
            values = {**job.values, PREDICTION: prediction} if prediction else job.values
            jobs.append(replace(job, values=values))
        self.live_state = LiveState()
        columns = JobColumns(model.demand)
        self.live_state.watchers = [columns.update]
        self.live_state.load(0, jobs, (), model.down)
        self.decider = Decider(self.live_state, columns, model.cluster, "slurm", rules.knobs)
        recent = Recent(model.demand, self._come_again(model, rules, tiers))
        self.forecaster = StartForecaster(self.live_state, self.decider, self._durations, recent)
        self.forecaster.bands = self.correction.bands
        self._mirror, self._model, self._rules = mirror, model, rules


def ordered(reading: Reading) -> list[QueuedJob]:
    """Return the pending jobs, last first, as Slurm would take them."""

    def key(job: QueuedJob) -> tuple[int, int, float, int]:
        tier = max((reading.tiers.get(name, 1) for name in job.partitions), default=1)
        return tier, job.priority, -job.submit_s, -job.id

    return sorted((job for job in reading.jobs if job.state in PENDING), key=key)
