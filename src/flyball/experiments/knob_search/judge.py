"""Judges settings of the knobs: runs them on the training scenarios and keeps their results.

Objective: the mean, over training scenarios and seeds, of the log of the mean completion time over
the best that a start reaches there. 0 = as good everywhere as the best start of each scenario;
-0.05 = 5 % better than that on average. A setting that loses to the guard in some scenarios pays
for it: `GUARD_WEIGHT` times what it loses there, averaged over all scenarios, is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from flyball.app import PolicySetting
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs
from flyball.experiments.knob_search.space import normal
from flyball.experiments.replay import ReplayCase
from flyball.experiments.scenarios import Scenario
from flyball.experiments.workers import Workers

WINNER = "found"
"""The winner's name in comparisons with registered policies."""
SCREEN_SHARE = 1 / 3
"""Share of the seeds for a first judgement."""
KEPT_SHARE = 0.25
"""Share of the settings judged once that are then judged on all seeds."""
GUARD_WEIGHT = 3.0


@dataclass(frozen=True)
class Trainer:
    """Runs single settings in worker processes; each keeps the workloads that it has made."""

    scenarios: tuple[Scenario, ...]
    _cases: dict[tuple[int, int], ReplayCase] = field(default_factory=dict, compare=False)

    def run(self, knobs: Knobs, scenario: int, seed: int) -> float:
        """Return the log of the mean completion time; infinite if the twin refuses the setting."""
        policy = PolicySetting(WINNER, knobs)
        if (scenario, seed) not in self._cases:
            self._cases[scenario, seed] = self.scenarios[scenario].case(policy, seed)
        case = replace(self._cases[scenario, seed], policies=(policy,))
        try:
            done = case.run(0, 0)
        except BadInput:
            return math.inf
        return math.log(max(done.summary.completion_s.mean, 1e-6))


class Judge:
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
        self._full: dict[Knobs, float] = {}  # objective of those judged on every seed
        self._reference: dict[tuple[int, int], float] = {}
        self._guard: Knobs | None = None

    def start(self, starts: Sequence[PolicySetting], guard: str | None = None) -> None:
        """Judge the starts; the best of them for each scenario and seed is the reference, 0.

        Raises:
            UnknownName: the guard is not a start.
            BadInput: a scenario refuses all of them.
        """
        settings = {policy.name: normal(policy.knobs) for policy in starts}
        if guard is not None:
            if guard not in settings:
                raise UnknownName("start", guard, settings)
            self._guard = settings[guard]
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
        """Return the objective of a setting judged on every seed; lower is better."""
        return self._full[setting]

    def ranking(self) -> list[Knobs]:
        """Return all settings judged on every seed, best first; of equals the first judged."""
        return sorted(self._full, key=self.objective)

    def _keep(self, settings: Sequence[Knobs]) -> None:
        self._full |= {setting: self._mean(setting, self._seeds) for setting in settings}
        best = min(self._full.values())
        if not self.history or best < self.history[-1][1]:
            self.history.append((self.tried, best))

    def _tasks(self, seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(at, seed) for at in range(self._scenarios) for seed in seeds]

    def _run(self, settings: Sequence[Knobs], seeds: Sequence[int]) -> None:
        tasks = [(setting, *task) for setting in settings for task in self._tasks(seeds)]
        self._logs.update(self._crew.run(tasks))

    def _mean(self, setting: Knobs, seeds: Sequence[int]) -> float:
        tasks = self._tasks(seeds)
        mean = fmean(self._logs[(setting, *task)] - self._reference[task] for task in tasks)
        return mean + self._lost_to_guard(setting, seeds)

    def _lost_to_guard(self, setting: Knobs, seeds: Sequence[int]) -> float:
        if self._guard is None or setting == self._guard:
            return 0.0
        lost = 0.0
        for at in range(self._scenarios):
            ours = fmean(self._logs[setting, at, seed] for seed in seeds)
            theirs = fmean(self._logs[self._guard, at, seed] for seed in seeds)
            lost += max(0.0, ours - theirs)
        return GUARD_WEIGHT * lost / self._scenarios
