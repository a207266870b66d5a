"""Runs whole workloads under several policies side by side, and scores what they cost.

    outcome = whole_runs([(problem, None), (problem, linear)], epoch_s=600.0)
    outcome[1].score(outcome[0])          # -0.05: about 5 % better than the incumbent

A score is `alpha * log(completion time) + beta * log(cost)` less that of another run of the same
problem: with both weights 1 the logarithm of (completion time x cost of energy). The cost is money,
grams of CO2 or energy, by the problem's priorities. Runs go on to the end of the last job: nothing
is gained by putting work off beyond a horizon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flyball.core.metrics import finish_time_fairness
from flyball.core.signals import DAY_US
from flyball.core.units import US_PER_S, to_us
from flyball.learn.env.caps import cap_running
from flyball.learn.env.memory import Memory, Outside
from flyball.learn.env.pattern import PATTERN_ROW, pattern_of_many
from flyball.learn.env.problems import Problem
from flyball.learn.env.spaces import (
    INCUMBENT,
    PRIORITIES,
    RESIDUALS,
    SIZE,
    ActionRows,
    Floats,
    Ints,
    Vector,
)
from flyball.twin.stepping.desk import rows_of
from flyball.twin.stepping.fields import GAINS
from flyball.twin.stepping.many import step_many
from flyball.twin.twin import Twin

GAIN = {field.name: at for at, field in enumerate(GAINS)}
COSTS = {"money": "money", "carbon": "carbon_g"}
"""Gains that the energy term counts, by the priority that is their share; the rest is energy."""
PATIENCE_US = 3 * DAY_US
"""From so long after the last submission, and half the time over which jobs were submitted, the
incumbent governs: a policy that keeps jobs from ending is judged, not waited for."""
WAVE = 64
"""Runs side by side: more need more memory and are no faster."""


class Chooser(Protocol):
    """Chooses actions for runs side by side; it may remember each of them."""

    def choose(self, rows: Ints, seen: Vector, pools: Ints) -> tuple[Ints, Floats]:
        """Return a strategy and residuals for each observation.

        Args:
            rows: numbers of the runs, from 0 to less than `begin` was given.
            seen: observations, a row each.
            pools: kinds of nodes of each cluster.
        """
        ...


class RunPolicy(Protocol):
    """Governs whole runs."""

    def begin(self, runs: int) -> Chooser:
        """Return what chooses for so many runs that begin."""
        ...


@dataclass(frozen=True)
class RunTotals:
    """What a whole run cost.

    Attributes:
        completion_s: mean time from submission to end.
        energy_j, money, carbon_g: of all nodes, from the first submission to the last end.
        preemptions: per job, moves included.
        fairness_p95: 95 % quantile of finish-time fairness over jobs.
        wait_p99_s: 99 % quantile of the time from submission to the first start.
        peak_w: highest mean draw of an epoch.
        priorities: of the problem.
    """

    completion_s: float
    energy_j: float
    money: float
    carbon_g: float
    preemptions: float
    fairness_p95: float
    wait_p99_s: float
    peak_w: float
    priorities: tuple[float, ...]

    def score(self, other: RunTotals) -> float:
        """Return the objective less that of another run of the same problem; less is better."""
        weights = dict(zip(PRIORITIES, self.priorities, strict=True))
        return weights["alpha"] * _log_ratio(self, other, "completion_s") + weights[
            "beta"
        ] * self.cost_score(other)

    def cost_score(self, other: RunTotals) -> float:
        """Return the logarithm of the cost of energy over that of another run."""
        weights = dict(zip(PRIORITIES, self.priorities, strict=True))
        parts = [(weights[share], field) for share, field in COSTS.items()]
        parts.append((1.0 - sum(share for share, _ in parts), "energy_j"))
        return sum(share * _log_ratio(self, other, field) for share, field in parts if share > 0)


def _log_ratio(one: RunTotals, other: RunTotals, field: str) -> float:
    first, second = getattr(one, field), getattr(other, field)
    return math.log(max(first, 1e-9) / max(second, 1e-9))


def whole_runs(
    pairs: Sequence[tuple[Problem, RunPolicy | None]],
    epoch_s: float,
    threads: int = 2,
    done: Callable[[int], None] = lambda _run: None,
) -> list[RunTotals]:
    """Run each problem to its end under its policy (None = the incumbent).

    Args:
        epoch_s: virtual time between two actions.
        threads: of the compiled stepping; results do not depend on it.
        done: receives the number of each run that is over.
    """
    out: list[RunTotals] = []
    for first in range(0, len(pairs), WAVE):
        wave = Wave(pairs[first : first + WAVE], epoch_s, threads)
        out += wave.run(lambda run, first=first: done(first + run))  # type: ignore[misc]
    return out


class Wave:
    """Runs side by side; those that are over leave it.

    Attributes:
        problems, twins: of each run.
        priorities: of the problems, a row each.
        pools: kinds of nodes of each cluster.
        now_us: where each run is.
        epoch_us: length of an epoch.
        threads: of the stepping.
        low, high: least and greatest numbers observed.
        epochs: steps of all runs so far.
    """

    def __init__(
        self, pairs: Sequence[tuple[Problem, RunPolicy | None]], epoch_s: float, threads: int
    ) -> None:
        runs = len(pairs)
        self.problems = [problem for problem, _ in pairs]
        self.twins = _twins(self.problems)
        self._choosers, self._places = _begun([policy for _, policy in pairs])
        self.threads, self.epoch_us = threads, to_us(epoch_s)
        self._memory = Memory(runs, epoch_s)
        self._outside = [_outside(problem) for problem in self.problems]
        self.priorities = np.array([problem.priorities for problem in self.problems])
        self.pools = np.array([len(twin.state.pools) for twin in self.twins])
        self.now_us = np.array([int(twin.state.clock["start_us"][0]) for twin in self.twins])
        self._packed = ActionRows(np.zeros(runs), np.zeros((runs, len(RESIDUALS)))).packed
        self._patience_us = np.array([_patience_us(problem) for problem in self.problems])
        self._peak_w, self.epochs = np.zeros(runs), 0
        self.low, self.high = np.full(SIZE, np.inf), np.full(SIZE, -np.inf)

    def run(self, done: Callable[[int], None]) -> list[RunTotals]:
        """Run all to their ends."""
        left = np.arange(len(self.twins))
        seen = np.stack([twin.observe() for twin in self.twins])
        while len(left):
            strategies, residuals = self.choose(left, seen)
            steps = self._step(left, strategies, residuals)
            self.note(left, steps.gains)
            self.epochs += len(left)
            elapsed_s = np.maximum(steps.gains[:, GAIN["elapsed_s"]], 1e-9)
            draw_w = steps.gains[:, GAIN["energy_j"]] / elapsed_s
            self._peak_w[left] = np.maximum(self._peak_w[left], draw_w)
            for run in left[steps.finished].tolist():
                done(run)
            left, seen = left[~steps.finished], steps.observations[~steps.finished]
        return [self._result(run) for run in range(len(self.twins))]

    def note(self, left: Ints, gains: Floats) -> None:
        """Take note of what an epoch added, a row per run that goes on."""

    def choose(self, left: Ints, cluster: Floats) -> tuple[Ints, Floats]:
        """Return the actions of the runs that go on, from what each of them shows."""
        strategies = np.zeros(len(left), np.int64)
        residuals = np.zeros((len(left), len(RESIDUALS)))
        is_acting = np.array([run in self._places for run in left.tolist()], np.bool_)
        is_acting &= self.now_us[left] <= self._patience_us[left]
        acting = np.flatnonzero(is_acting)
        if not len(acting):
            return strategies, residuals
        seen = self.observe(left[acting], cluster[acting])
        groups, rows = np.array([self._places[run] for run in left[acting].tolist()]).T
        for group in np.unique(groups).tolist():
            part = np.flatnonzero(groups == group)
            pools = self.pools[left[acting[part]]]
            chosen = self._choosers[group].choose(rows[part], seen[part], pools)
            strategies[acting[part]], residuals[acting[part]] = chosen
        return strategies, residuals

    def observe(self, runs: Ints, cluster: Floats) -> Vector:
        """Return the observations of some runs as they are now."""
        pattern = np.zeros((len(runs), PATTERN_ROW))
        desks = rows_of([self.twins[run].desk for run in runs.tolist()])
        pattern_of_many(desks, self.now_us[runs], pattern)
        outside = np.stack(
            [self._outside[run].numbers(int(self.now_us[run])) for run in runs.tolist()]
        )
        seen = self._memory.observe(runs, cluster, pattern, outside, self.priorities[runs])
        self.low, self.high = np.minimum(self.low, seen.min(0)), np.maximum(self.high, seen.max(0))
        return seen

    def _step(self, left: Ints, strategies: Ints, residuals: Floats) -> Any:
        """Carry the actions out and go an epoch further."""
        rows = ActionRows(strategies, residuals)
        before = self._packed[left]
        rows.changes[:] = rows.packed != before
        changed = rows.packed["cap"] != before["cap"]
        levels = np.where(changed, rows.packed["cap"], -1).astype(np.int64)
        twins = [self.twins[run] for run in left.tolist()]
        cap_running(twins, levels, self.now_us[left])
        self._packed[left] = rows.packed
        self.now_us[left] += self.epoch_us
        return step_many(twins, rows, until_us=self.now_us[left], threads=self.threads)

    def _result(self, run: int) -> RunTotals:
        priorities = self.problems[run].priorities
        return totals_of(self.twins[run], priorities, float(self._peak_w[run]))


def totals_of(twin: Twin, priorities: Floats, peak_w: float | None = None) -> RunTotals:
    """Return what a run that is over cost.

    Args:
        peak_w: highest mean draw of an epoch; None = the highest draw of any instant.
    """
    mark = twin.mark(twin.now_us)
    results = twin.results((mark, mark))
    waits_us = results.first_start_us - results.submit_us
    return RunTotals(
        completion_s=float((results.end_us - results.submit_us).mean()) / US_PER_S,
        energy_j=mark.energy_j,
        money=mark.money or 0.0,
        carbon_g=mark.carbon_g or 0.0,
        preemptions=float(results.preemptions.mean()),
        fairness_p95=float(np.quantile(finish_time_fairness(results), 0.95)),
        wait_p99_s=float(np.quantile(waits_us, 0.99)) / US_PER_S,
        peak_w=results.peak_power_w if peak_w is None else peak_w,
        priorities=tuple(priorities.tolist()),
    )


def _begun(
    policies: Sequence[RunPolicy | None],
) -> tuple[list[Chooser], dict[int, tuple[int, int]]]:
    """Begin every policy's runs; return its chooser, and each run's chooser and row there."""
    runs_of: dict[int, list[int]] = {}
    by_id = {id(policy): policy for policy in policies if policy is not None}
    for run, policy in enumerate(policies):
        if policy is not None:
            runs_of.setdefault(id(policy), []).append(run)
    choosers = [by_id[key].begin(len(runs)) for key, runs in runs_of.items()]
    places = {
        run: (group, row)
        for group, runs in enumerate(runs_of.values())
        for row, run in enumerate(runs)
    }
    return choosers, places


def _twins(problems: Sequence[Problem]) -> list[Twin]:
    """Build a twin for each problem; equal problems are built once and cloned."""
    built: dict[int, Twin] = {}
    twins = []
    for problem in problems:
        first = built.get(id(problem))
        if first is None:
            first = Twin(problem.cluster, problem.workload, INCUMBENT, problem.effects)
            built[id(problem)] = first.clone()
            twins.append(first)
        else:
            twins.append(first.clone())
    return twins


def _patience_us(problem: Problem) -> int:
    """Return when the incumbent takes over from a policy under which work does not get done."""
    first, last = int(problem.workload.submit_us[0]), int(problem.workload.submit_us[-1])
    return last + (last - first) // 2 + PATIENCE_US


def _outside(problem: Problem) -> Outside:
    origin_us = problem.workload.origin_us
    price, carbon = (
        signal and signal.on_clock(origin_us)
        for signal in (problem.cluster.price, problem.cluster.carbon)
    )
    return Outside(price, carbon)
