"""Start-time forecasts against what happened, on generated workloads in the twin.

    rows(note)      for the table of measured skill

Each policy runs several workloads like Philly's at load 0.9. Run times are predicted by the
estimator of `predict/runtime`, which learns online from jobs that have ended in the same run; the
policy sees its median as the estimate. Forecasts are made for a sample of jobs right after the
decision at their submission. Jobs that start at once need none; for the others the forecast is
p50 and p90 of roll-outs, corrected by the outcome of earlier forecasts. The correction is first
learnt on workloads of training seeds, then goes on learning online.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flyball.bench.figure import NO_BAR, Bar
from flyball.control.ask.start_bands import Edges, StartBands
from flyball.core.codes import Status
from flyball.core.knobs import Knobs
from flyball.core.records import records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import S_PER_HOUR, US_PER_S, to_us
from flyball.core.workload import Workload
from flyball.experiments.held_out import held_out
from flyball.predict.runtime.estimator import RunTimes
from flyball.predict.runtime.remaining import remaining
from flyball.predict.runtime.rows import rows_of
from flyball.predict.runtime.trees import LEVELS, MIDDLE
from flyball.schedule.policies.registry import get_policy
from flyball.twin.generate import generate
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.live import PAST, View
from flyball.twin.lookahead import (
    FutureArrivals,
    draw_arrivals,
    draw_scores,
    even_scores,
    horizon_us,
    start_times,
)
from flyball.twin.tables.spread import run_times
from flyball.twin.twin import Twin

Note = Callable[[str], None]

POLICIES = ("fifo-skip", "easy", "sjf")
CLUSTER, PRESET, LOAD, JOBS = "philly-8x8", "philly-like", 0.9, 1500
SEEDS = (0, 1, 2, 3)
WARM_SEEDS = (held_out().first_training_seed + 10,)
ASKED = 0.08
"""Share of the jobs that get a forecast."""
ROLLOUTS, SCOUTS = 32, 4
FIRST_PART = 0.1
"""Share of the arrival span, at its beginning, without forecasts: the cluster is still empty."""
FIRST_FIT, GROWTH = 400, 2.0
"""Number of ends before trees are first fitted, and the factor by which it grows for each refit."""
ACTIVE = (Status.PENDING, Status.RUNNING, Status.HELD)
OVER = (Status.DONE, Status.TIMEOUT)
NONE: Ints = np.zeros(0, np.int64)
BARS = {"p50 share %": Bar(45.0, 55.0), "p90 coverage %": Bar(87.0, 93.0)}


@dataclass(frozen=True)
class StartForecast:
    """One forecast and its outcome; times in seconds after the submission.

    Attributes:
        raw: forecast of the roll-outs.
        corrected: raw forecast, corrected by the outcome of earlier ones.
        wait_s: actual start.
    """

    raw: Edges
    corrected: Edges
    wait_s: float


@dataclass
class Ride:
    """One workload under one policy, from its first submission to its last."""

    policy: str
    seed: int
    bands: StartBands
    jobs: int = JOBS
    part: float = ASKED
    at_once: int = 0
    _forecasts: dict[int, tuple[Edges, Edges]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = load_cluster(CLUSTER)
        devices = self.cluster.device_count
        work = generate(PRESET, self.seed, jobs=self.jobs, load=LOAD, devices=devices)
        self.rows = [{k: v for k, v in row.items() if k != "run_s"} for row in rows_of(work)]
        self.true_us = work.duration_us
        self.knobs: Knobs = get_policy(self.policy).knobs
        self.twin = Twin(self.cluster, work, self.knobs)
        # Everything but the twin's clock sees estimates only, no true run times.
        self.estimate_us = np.full(len(work), to_us(S_PER_HOUR), float)
        self.work = replace(work, estimate_us=self.estimate_us, duration_us=self.estimate_us)
        self.quantiles = np.ones((len(work), len(LEVELS)))
        self.estimator = RunTimes()
        self.fitted = 0
        self.rng = np.random.default_rng([self.seed, 5])
        self.started, self.ended = np.zeros(len(work), bool), np.zeros(len(work), bool)

    def run(self) -> list[StartForecast]:
        """Run to the end and return every forecast of a job that had to wait."""
        submit_us = self.work.submit_us
        first_us = submit_us[0] + FIRST_PART * (submit_us[-1] - submit_us[0])
        begin = 0
        while begin < len(submit_us):
            # 1. Run to just before the next submissions; learn from what happened meanwhile.
            now_us = int(submit_us[begin])
            end = int(np.searchsorted(submit_us, now_us, side="right"))
            self.twin.run(now_us - 1)
            self._learn(begin, now_us)
            # 2. Predict the run times of the new jobs, then let the policy decide.
            for job in range(begin, end):
                self._come(job)
            self.twin.run(now_us)
            # 3. Forecast the starts of some of them.
            for job in range(begin, end):
                if now_us >= first_us and self.rng.random() < self.part:
                    self._ask(job, now_us)
            begin = end
        self.twin.run()
        self._learn(len(submit_us), self.twin.now_us)
        start_us = np.asarray(self.twin.state.runs.first_start_us)
        waits_s = (start_us - submit_us) / US_PER_S
        return [
            StartForecast(*edges, float(waits_s[job])) for job, edges in self._forecasts.items()
        ]

    def _learn(self, come: int, now_us: int) -> None:
        """Report starts and ends to the estimator and the bands, in order of time."""
        runs: Any = self.twin.state.runs
        start_us, status = runs.first_start_us[:come], runs.status[:come]
        new = np.flatnonzero((start_us >= 0) & ~self.started[:come])
        over = np.flatnonzero(np.isin(status, OVER) & ~self.ended[:come])
        self.started[new], self.ended[over] = True, True
        events = [(int(start_us[job]), False, int(job)) for job in new]
        events += [(int(runs[job].end_us), True, int(job)) for job in over]
        for when_us, is_end, job in sorted(events):
            if is_end:
                run_s = float(self.true_us[job]) / US_PER_S
                self.estimator.ended(job, run_s, when_us / US_PER_S)
            else:
                self.estimator.started(job, when_us / US_PER_S)
                self.bands.started((self.seed, job), when_us / US_PER_S)
        if self.estimator.learnt >= max(FIRST_FIT, GROWTH * self.fitted):
            self.fitted = self.estimator.learnt
            self.estimator.refit(now_us / US_PER_S)

    def _come(self, job: int) -> None:
        self.quantiles[job] = self.estimator.submitted(job, self.rows[job])
        self.estimate_us[job] = self.quantiles[job, MIDDLE] * US_PER_S
        self.twin.state.jobs.estimate_us[job] = self.estimate_us[job]

    def _ask(self, job: int, now_us: int) -> None:
        if self.twin.state.runs[job].first_start_us >= 0:
            self.at_once += 1
            return
        self.bands.advance(now_us / US_PER_S)
        starts_s = self._roll_out(job, now_us)
        raw = Edges(*np.percentile(starts_s, [50, 90]).tolist())
        corrected = self.bands.expect((self.seed, job), raw, now_us / US_PER_S)
        self._forecasts[job] = raw, corrected

    def _roll_out(self, job: int, now_us: int) -> Floats:
        """Return the seconds until the job starts, once for each roll-out."""
        view, ids = view_of(self.twin.state, self.work)
        asked = np.flatnonzero(ids == job)
        of_owner = even_scores(ROLLOUTS, len(self.work.users) + 1, self.rng)
        scores = draw_scores(self.work.user[ids], of_owner, self.rng)
        left_s, elapsed_s = self._left(ids, now_us)
        draws = (elapsed_s[:, 0] + run_times(left_s, LEVELS, scores)) * US_PER_S
        go = self.cluster, view, self.knobs, now_us
        scouts = start_times(*go, draws[:SCOUTS], asked=asked)[:, asked[0]]
        ahead_us = horizon_us(scouts)
        submitted = int(np.searchsorted(self.work.submit_us, now_us))
        run_s = self.quantiles[:submitted].copy()
        early = ids < submitted
        run_s[ids[early]] = elapsed_s[early] + left_s[early]
        coming = [
            self._coming(run_s, now_us, ahead_us, of_owner[at : at + 1]) for at in range(ROLLOUTS)
        ]
        recent = self.work.take(np.arange(submitted))
        return start_times(*go, draws, recent, coming, asked)[:, asked[0]]

    def _left(self, ids: Ints, now_us: int) -> tuple[Floats, Floats]:
        """Return quantiles of the time each job still runs, and how long (a column) it has run."""
        runs: Any = self.twin.state.runs
        left, elapsed_s = self.quantiles[ids].copy(), np.zeros((len(ids), 1))
        for at in np.flatnonzero(runs.status[ids] == Status.RUNNING):
            elapsed_s[at, 0] = (now_us - int(runs[ids[at]].since_us)) / US_PER_S
            left[at] = remaining(left[at], float(elapsed_s[at, 0])).seconds
        return left, elapsed_s

    def _coming(
        self, run_s: Floats, now_us: int, ahead_us: int, of_owner: Floats
    ) -> FutureArrivals:
        """Draw future jobs from past ones, with their true run times if they have ended."""
        past_us = self.work.submit_us[: len(run_s)]
        picks, times = draw_arrivals(past_us, now_us, ahead_us, self.rng)
        scores = draw_scores(self.work.user[picks], of_owner, self.rng)
        drawn_us = run_times(run_s[picks], LEVELS, scores)[0] * US_PER_S
        run_us = np.where(self.ended[picks], self.true_us[picks], drawn_us)
        return FutureArrivals(picks, times, run_us)


def view_of(state: State, work: Workload) -> tuple[View, Ints]:
    """Return what a live control plane would know in the twin's state, and the jobs in it."""
    runs: Any = state.runs
    come = int(state.clock[0].next_job)
    jobs = np.flatnonzero(np.isin(runs.status[:come], ACTIVE))
    past = records(len(jobs), PAST)
    for name in ("done_us", "service_us", "since_us", "attempt"):
        past[name] = runs[name][jobs]
    past["queued_us"] = work.submit_us[jobs]
    place = {int(job): at for at, job in enumerate(jobs)}
    running = jobs[runs.status[jobs] == Status.RUNNING]
    in_order = running[np.lexsort((running, runs.since_us[running]))]
    rows = [(place[int(job)], *row) for job in in_order for row in _held(state, int(job))]
    held = np.array(rows, np.int64).reshape(len(rows), 3)
    view = View(work.take(jobs), past, held[:, 0], held[:, 1], held[:, 2].astype(np.uint64), NONE)
    return view, jobs


def _held(state: State, job: int) -> list[tuple[int, int]]:
    """Return the nodes and devices that a running job holds."""
    held = []
    at = int(state.runs[job].first_row)
    while at >= 0:
        row = state.rows[at]
        held.append((int(row.node), int(row.mask)))
        at = int(row.next)
    return held


# The table ------------------------------------------------------------------------------


@dataclass
class Tally:
    """Collects forecasts of one policy, or of all: jobs that had to wait, and how many did not."""

    asked: list[StartForecast] = field(default_factory=list)
    at_once: int = 0

    def add(self, ride: Ride, asked: Sequence[StartForecast]) -> None:
        self.asked += asked
        self.at_once += ride.at_once


def rows(
    note: Note | None = None,
    seeds: Sequence[int] = SEEDS,
    warm: Sequence[int] = WARM_SEEDS,
    jobs: int = JOBS,
) -> list[dict[str, Any]]:
    """Measure the rows of the table: each policy, and all of them together."""
    total, by_policy = Tally(), []
    for policy in POLICIES:
        bands, tally = StartBands(), Tally()
        for seed in (*warm, *seeds):
            if note is not None:
                note(f"start times: {policy}, seed {seed}")
            ride = Ride(policy, seed, bands, jobs)
            asked = ride.run()
            if seed in seeds:
                tally.add(ride, asked)
                total.add(ride, asked)
        by_policy += table(policy, tally)
    return table("all policies", total) + by_policy


def table(name: str, tally: Tally) -> list[dict[str, Any]]:
    """Return the rows of one policy; the baseline is the roll-outs' forecast, not corrected."""
    waits = np.array([asked.wait_s for asked in tally.asked])
    corrected = np.array([asked.corrected for asked in tally.asked]).reshape(-1, 2)
    raw = np.array([asked.raw for asked in tally.asked]).reshape(-1, 2)
    n, total = len(waits), len(waits) + tally.at_once

    def row(metric: str, value: float, baseline: float | None, count: int) -> dict[str, Any]:
        bar = BARS.get(metric, NO_BAR)
        return {
            "target": f"start time, {name}",
            "horizon": "from submission",
            "metric": metric,
            "value": round(value, 2),
            "bar": bar.as_json(),
            "holds": bar.holds(value),
            "baseline": None if baseline is None else round(baseline, 2),
            "n": count,
        }

    def share(edges: Floats, at: int) -> float:
        return 100.0 * float(np.mean(waits <= edges[:, at]))

    def width_h(edges: Floats) -> float:
        return float(np.median(edges[:, 1] - edges[:, 0])) / S_PER_HOUR

    together = [(share(corrected, at) * n + 100.0 * tally.at_once) / total for at in (0, 1)]
    return [
        row("p50 share %", share(corrected, 0), share(raw, 0), n),
        row("p90 coverage %", share(corrected, 1), share(raw, 1), n),
        row("median width p50 to p90, h", width_h(corrected), width_h(raw), n),
        row("median wait of those who had to, h", float(np.median(waits)) / S_PER_HOUR, None, n),
        row("p50 share with those who start at once %", together[0], None, total),
        row("p90 coverage with those who start at once %", together[1], None, total),
    ]
