"""Sampled look-ahead: tries settings in copies of the twin before it chooses one.

Whenever it decides, it draws some futures and runs every candidate through each of them for a few
hours. The candidate whose copies did best, against the incumbent's in the same futures, is kept
until the next decision. It needs no training and costs thousands of times what a policy costs.

A future is drawn from what is known at the instant: run times of the jobs that are there from
their estimates, with the error that estimates of ended jobs had; arrivals from past arrivals, in
blocks (`twin.lookahead.draw_arrivals`). Arrivals take the places of those to come, so near the end
of a workload fewer are drawn than came before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.core.codes import Status
from flyball.learn.env.caps import cap_running
from flyball.learn.env.problems import Problem
from flyball.learn.env.spaces import (
    PRIORITIES,
    RESIDUALS,
    ActionRows,
    Floats,
    Ints,
    Vector,
    strategy_mask,
)
from flyball.learn.policy.trial import drop_ends
from flyball.learn.whole_runs import COSTS, GAIN, RunTotals, Wave
from flyball.physics.compile import entry
from flyball.twin.live_kernel import schedule_ends
from flyball.twin.lookahead import NEVER_US, draw_arrivals
from flyball.twin.stepping.fields import GAINS
from flyball.twin.stepping.many import step_many
from flyball.twin.twin import Twin

CAPS = (-0.2, -0.4, -0.6, -0.8, -1.0)
"""Residuals of the cap that are tried."""
SLEEP = 0.8
"""Residual of sleep with them: idle nodes sleep soon."""
ENOUGH_ENDED = 20
"""Ended jobs from which the error of estimates is taken; before, it is taken to be `GUESSED`."""
GUESSED = 0.5
BEYOND = 40
"""Draws of a run time that must exceed what was done already, before that much is assumed."""


@dataclass(frozen=True)
class LookSettings:
    """How far and how often it looks.

    Attributes:
        every: epochs between two decisions.
        horizon: epochs of a trial.
        futures: drawn each time.
        true_future: use the future as it will be, as no scheduler can: a bound, not a rival.
    """

    every: int = 3
    horizon: int = 18
    futures: int = 3
    true_future: bool = False


@dataclass
class Lesson:
    """What it saw and chose, for an agent to imitate."""

    seen: Vector
    strategy: int
    residuals: Floats


def candidates(pools: int) -> tuple[Ints, Floats]:
    """Return the settings that are tried: strategies and residuals, the incumbent first."""
    allowed = np.flatnonzero(strategy_mask(pools))
    names = [residual.name for residual in RESIDUALS]
    rows = [(int(strategy), np.zeros(len(RESIDUALS))) for strategy in allowed]
    for cap in (0.0, *CAPS):
        residuals = np.zeros(len(RESIDUALS))
        residuals[names.index("cap")], residuals[names.index("sleep_s")] = cap, SLEEP
        rows.append((0, residuals))
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


class LookingAhead(Wave):
    """Runs problems under sampled look-ahead.

    Attributes:
        lessons: every decision.
    """

    def __init__(
        self, problems: Sequence[Problem], settings: LookSettings, epoch_s: float, seed: int,
        threads: int = 2,
    ) -> None:  # fmt: skip
        super().__init__([(problem, None) for problem in problems], epoch_s, threads)
        self.lessons: list[Lesson] = []
        self._settings = settings
        self._rngs = [np.random.default_rng([seed, run]) for run in range(len(problems))]
        self._spent = np.zeros((len(problems), len(GAINS)))
        self._epochs = np.zeros(len(problems), np.int64)
        self._kept: list[tuple[int, Floats]] = [(0, np.zeros(len(RESIDUALS)))] * len(problems)

    def note(self, left: Ints, gains: Floats) -> None:
        """Take note of what an epoch added."""
        self._spent[left] += gains
        self._epochs[left] += 1

    def choose(self, left: Ints, cluster: Floats) -> tuple[Ints, Floats]:
        """Decide anew for the runs whose turn it is."""
        seen = self.observe(left, cluster)
        for at, run in enumerate(left.tolist()):
            if self._epochs[run] % self._settings.every == 0:
                self._kept[run] = self._best(run)
                self.lessons.append(Lesson(seen[at], *self._kept[run]))
        strategies = np.array([self._kept[run][0] for run in left.tolist()])
        return strategies, np.array([self._kept[run][1] for run in left.tolist()])

    def _best(self, run: int) -> tuple[int, Floats]:
        """Return the candidate that does best over the futures."""
        s, now_us = self._settings, int(self.now_us[run])
        strategies, residuals = candidates(int(self.pools[run]))
        ahead_us = s.horizon * self.epoch_us
        futures = [
            self.twins[run].clone() if s.true_future
            else drawn_future(self.twins[run], now_us, ahead_us, self._rngs[run])
            for _ in range(1 if s.true_future else s.futures)
        ]  # fmt: skip
        twins = [future.clone() for future in futures for _ in strategies]
        rows = ActionRows(np.tile(strategies, len(futures)), np.tile(residuals, (len(futures), 1)))
        cap_running(twins, rows.packed["cap"].astype(np.int64), np.full(len(twins), now_us))
        gains = step_many(twins, rows, until_us=now_us + ahead_us, threads=self.threads).gains
        gains = gains.reshape(len(futures), len(strategies), -1)
        worth = np.mean([self._worth(run, part) for part in gains], axis=0)
        best = int(worth.argmin())
        return int(strategies[best]), residuals[best]

    def _worth(self, run: int, gains: Floats) -> Floats:
        """Return what each trial cost beyond the incumbent's, relative to usual; less is better."""
        weights = dict(zip(PRIORITIES, self.priorities[run].tolist(), strict=True))
        beyond = gains - gains[0]
        usual = np.maximum(gains[0], self._usual(run))
        presence = beyond[:, GAIN["presence_s"]] / usual[GAIN["presence_s"]]
        behind = -beyond[:, GAIN["work_s"]] / usual[GAIN["work_s"]]
        cost = np.zeros(len(gains))
        shares = {field: weights[share] for share, field in COSTS.items()}
        shares["energy_j"] = 1.0 - sum(shares.values())
        for field, share in shares.items():
            if share > 0.0:
                # Work that is not done in this time will cost as much later.
                cost += share * (beyond[:, GAIN[field]] / usual[GAIN[field]] + behind)
        return np.asarray(weights["alpha"] * presence + weights["beta"] * cost)

    def _usual(self, run: int) -> Floats:
        """Return what a trial's time has cost on average so far, a little at least."""
        mean = self._spent[run] / max(1, int(self._epochs[run]))
        return np.asarray(np.maximum(mean * self._settings.horizon, 1e-6))


def look_ahead(
    problems: Sequence[Problem], settings: LookSettings, epoch_s: float, seed: int
) -> tuple[list[RunTotals], list[Lesson]]:
    """Run problems to their ends under look-ahead; return what they cost and what was chosen."""
    runs = LookingAhead(problems, settings, epoch_s, seed)
    return runs.run(lambda _run: None), runs.lessons


# Futures ----------------------------------------------------------------------------------


def drawn_future(twin: Twin, now_us: int, ahead_us: int, rng: np.random.Generator) -> Twin:
    """Return a copy of a twin in which what is not known yet is drawn."""
    future = twin.clone()
    jobs: Any = future.state.jobs.copy()
    runs: Any = future.state.runs
    next_job = int(future.state.clock["next_job"][0])
    begun = np.arange(len(jobs)) < next_job
    ended = begun & (runs.status >= Status.DONE)
    errors = np.log(jobs.work_us[ended] / jobs.estimate_us[ended])
    sigma = float(errors.std()) if len(errors) >= ENOUGH_ENDED else GUESSED
    active = np.flatnonzero(begun & ~ended)
    jobs.work_us[active] = _run_times(future, active, now_us, sigma, rng)
    picks, submit_us = draw_arrivals(
        np.asarray(jobs.submit_us[:next_job], np.int64), now_us, ahead_us, rng
    )
    picks, submit_us = _that_fit(future, jobs, picks, submit_us, active, len(jobs) - next_job)
    last = next_job + len(picks)
    jobs[next_job:last] = jobs[picks]
    jobs.submit_us[next_job:last] = submit_us
    jobs.submit_us[last:] = NEVER_US
    jobs.group[next_job:], jobs.successor_count[next_job:] = -1, 0
    drawn = jobs.estimate_us[next_job:last] * np.exp(sigma * rng.standard_normal(len(picks)))
    jobs.work_us[next_job:last] = np.maximum(drawn, 1.0)
    last_first = np.arange(len(jobs))[::-1]
    future.state.shapes["sample"][jobs.shape_id[last_first]] = last_first
    future.state = future.state._replace(jobs=jobs)
    forget_ends(future.state)  # the heap has room for one end of each job
    schedule_ends(future.state)
    return future


@entry
def forget_ends(state: Any) -> None:
    """Drop the scheduled ends of running jobs."""
    drop_ends(state)


def _run_times(
    twin: Twin, active: Ints, now_us: int, sigma: float, rng: np.random.Generator
) -> Floats:
    """Draw run times of the jobs that are there; each exceeds what was done of it."""
    state = twin.state
    runs: Any = state.runs[active]
    running = runs.first_row >= 0
    ready_us = np.maximum(0, now_us - runs.ready_us)
    done_us = runs.done_us + np.where(running, ready_us * runs.rate, 0.0)
    estimate_us = np.asarray(state.jobs.estimate_us[active], float)
    out = np.zeros(len(active))
    for _ in range(BEYOND):
        short = np.flatnonzero(out <= done_us)
        if not len(short):
            break
        out[short] = estimate_us[short] * np.exp(sigma * rng.standard_normal(len(short)))
    return np.asarray(np.where(out > done_us, out, 2.0 * np.maximum(done_us, 1.0)))


def _that_fit(
    twin: Twin, jobs: Any, picks: Ints, submit_us: Ints, active: Ints, places: int
) -> tuple[Ints, Ints]:
    """Return the arrivals for which there are places: rows of jobs, and places in their queues."""
    shapes = len(twin.state.shapes)
    room = np.bincount(jobs.shape_id, minlength=shapes) - np.bincount(
        jobs.shape_id[active], minlength=shapes
    )
    kept: list[int] = []
    for at, shape in enumerate(jobs.shape_id[picks].tolist()):
        if room[shape] > 0 and len(kept) < places:
            room[shape] -= 1
            kept.append(at)
    return picks[kept], submit_us[kept]
