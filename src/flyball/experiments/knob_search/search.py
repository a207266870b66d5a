"""Searches for the setting of the knobs that is best over many scenarios.

Objective: the mean, over training scenarios and seeds, of the log of the mean completion time over
the best that a registered policy reaches there. 0 = as good everywhere as the best registered
policy of each scenario; -0.05 = 5 % better than that on average.

1. Every start (the setting of a registered policy) is judged on all training runs.
2. Random settings are judged on the first third of the seeds; the best quarter on all.
3. The best setting's neighbours are judged likewise, with smaller and smaller steps; when it has no
   better neighbour left, those of the next best, until the budget is spent.

The winner is the best of all that were judged on every training run, so never worse there than the
best start. Its real worth is measured on other seeds: see `held_out`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from flyball.app import PolicySetting
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.experiments.compare.runs import ComparePlan
from flyball.experiments.compare.summary import Comparison, compare
from flyball.experiments.knob_search.space import draw, neighbours, normal
from flyball.experiments.scenarios import Scenario
from flyball.experiments.workers import Workers

WINNER = "found"
"""The winner's name in comparisons with registered policies."""
RANDOM_SHARE = 0.4
"""Share of the budget for random settings."""
SCREEN_SHARE = 1 / 3
"""Share of the seeds for a first judgement."""
KEPT_SHARE = 0.25
"""Share of the settings judged once that are then judged on all seeds."""
FACTORS = (4.0, 2.0, 1.3)
"""Factors by which numbers are changed, in turn."""


@dataclass(frozen=True)
class Trainer:
    """Runs single settings in worker processes."""

    scenarios: tuple[Scenario, ...]

    def run(self, knobs: Knobs, scenario: int, seed: int) -> float:
        """Return the log of the mean completion time; infinite if the twin refuses the setting."""
        try:
            done = self.scenarios[scenario].case(PolicySetting(WINNER, knobs), seed).run(0, 0)
        except BadInput:
            return math.inf
        return math.log(max(done.summary.completion_s.mean, 1e-6))


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        knobs: the winner.
        objective: its value on the training runs.
        starts: the same for each policy it started from.
        tried: settings judged, on some seeds or all.
        history: (settings tried, best objective so far), at each improvement.
    """

    knobs: Knobs
    objective: float
    starts: dict[str, float]
    tried: int
    history: list[tuple[int, float]] = field(default_factory=list)


def tune(
    scenarios: Sequence[Scenario],
    starts: Sequence[PolicySetting],
    seeds: Sequence[int],
    budget: int,
    search_seed: int = 0,
    workers: int | None = None,
    done: Callable[[str], None] | None = None,
) -> Tuned:
    """Search for the best setting of the knobs. The same arguments give the same result.

    Args:
        scenarios: to train on.
        starts: settings to begin with; they are not part of the budget.
        seeds: to train on.
        budget: other settings to try.
        search_seed: of the random settings.
        workers: processes at most; None = as many as cores.
        done: receives the best objective so far, for each setting tried.

    Raises:
        BadInput: the twin refuses every start on a scenario.
    """
    with Workers(Trainer(tuple(scenarios)), workers) as crew:
        judge = _Judge(crew, len(scenarios), tuple(seeds), budget, done)
        judge.start(starts)
        _try_random(judge, round(RANDOM_SHARE * budget), np.random.default_rng([search_seed, 3]))
        _refine(judge)
    best = judge.ranking()[0]
    return Tuned(best, judge.objective(best), judge.starts, judge.tried, judge.history)


def held_out(
    scenarios: Sequence[Scenario],
    policies: Sequence[PolicySetting],
    knobs: Knobs,
    seeds: Sequence[int],
    workers: int | None = None,
) -> Comparison:
    """Compare the winner with policies on seeds it has not seen; `WINNER` is the baseline."""
    arms = (PolicySetting(WINNER, knobs), *policies)
    plan = ComparePlan(tuple(scenarios), arms, tuple(seeds))
    with Workers(plan, workers) as crew:
        records = dict(crew.run(plan.tasks()))
    return compare(plan, [records[task] for task in plan.tasks()], WINNER)


def _try_random(judge: _Judge, count: int, rng: np.random.Generator) -> None:
    drawn: dict[Knobs, None] = {}
    for _ in range(20 * count):
        if len(drawn) == count:
            break
        setting = draw(rng)
        if not judge.knows(setting):
            drawn[setting] = None
    judge.screen(list(drawn))


def _refine(judge: _Judge) -> None:
    """Climb from the best setting, then from the next best, until the budget is spent."""
    expanded: set[tuple[Knobs, float]] = set()
    while judge.left > 0:
        step = next(_steps(judge, expanded), None)
        if step is None:
            return
        expanded.add(step)
        around = dict.fromkeys(neighbours(*step))
        judge.screen([setting for setting in around if not judge.knows(setting)])


def _steps(judge: _Judge, expanded: set[tuple[Knobs, float]]) -> Iterator[tuple[Knobs, float]]:
    """Yield what to expand next: best setting first, largest step first."""
    for setting in judge.ranking():
        for factor in FACTORS:
            if (setting, factor) not in expanded:
                yield setting, factor


class _Judge:
    """Runs settings and keeps their results."""

    def __init__(
        self,
        crew: Workers[float],
        scenarios: int,
        seeds: tuple[int, ...],
        budget: int,
        done: Callable[[str], None] | None,
    ) -> None:
        self.starts: dict[str, float] = {}
        self.tried = 0
        self.left = budget
        self.history: list[tuple[int, float]] = []
        self._crew, self._scenarios, self._seeds, self._done = crew, scenarios, seeds, done
        self._logs: dict[tuple[Any, ...], float] = {}  # by knobs, scenario and seed
        self._tried: dict[Knobs, None] = {}
        self._full: dict[Knobs, None] = {}  # judged on every seed, in the order of judging
        self._reference: dict[tuple[int, int], float] = {}

    def start(self, starts: Sequence[PolicySetting]) -> None:
        """Judge the starts; the best of them for each scenario and seed is the reference, 0."""
        settings = {policy.name: normal(policy.knobs) for policy in starts}
        distinct = list(dict.fromkeys(settings.values()))
        self._run(distinct, self._seeds)
        for task in self._tasks(self._seeds):
            self._reference[task] = min(self._logs[(setting, *task)] for setting in distinct)
        if math.inf in self._reference.values():
            raise BadInput("no policy to start from can run every scenario", "name another one")
        self._tried |= dict.fromkeys(distinct)
        self._keep(distinct)
        self.starts = {name: self.objective(setting) for name, setting in settings.items()}

    def screen(self, settings: Sequence[Knobs]) -> None:
        """Judge settings on a few seeds and the best of them on all, within the budget left."""
        few = max(1, round(SCREEN_SHARE * len(self._seeds)))
        settings = settings[: self.left]
        self.left -= len(settings)
        self.tried += len(settings)
        self._tried |= dict.fromkeys(settings)
        self._run(settings, self._seeds[:few])
        ranked = sorted(settings, key=lambda setting: self._mean(setting, self._seeds[:few]))
        kept = ranked[: math.ceil(KEPT_SHARE * len(ranked))]
        self._run(kept, self._seeds[few:])
        self._keep(kept)
        if self._done is not None:
            for _ in settings:
                self._done(f"{self.history[-1][1]:+.4f}")

    def knows(self, setting: Knobs) -> bool:
        """Return whether the setting was judged before."""
        return setting in self._tried

    def objective(self, setting: Knobs) -> float:
        """Return the objective over all training runs; lower is better."""
        return self._mean(setting, self._seeds)

    def ranking(self) -> list[Knobs]:
        """Return all settings judged on every seed, best first; of equals the first judged."""
        return sorted(self._full, key=self.objective)

    def _keep(self, settings: Sequence[Knobs]) -> None:
        self._full |= dict.fromkeys(settings)
        best = min(map(self.objective, self._full))
        if not self.history or best < self.history[-1][1]:
            self.history.append((self.tried, best))

    def _tasks(self, seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(at, seed) for at in range(self._scenarios) for seed in seeds]

    def _run(self, settings: Sequence[Knobs], seeds: Sequence[int]) -> None:
        tasks = [(setting, *task) for setting in settings for task in self._tasks(seeds)]
        self._logs.update(self._crew.run(tasks))

    def _mean(self, setting: Knobs, seeds: Sequence[int]) -> float:
        tasks = self._tasks(seeds)
        return fmean(self._logs[(setting, *task)] - self._reference[task] for task in tasks)
