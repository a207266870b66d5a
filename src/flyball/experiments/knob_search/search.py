"""Searches for the setting of the knobs that is best over many scenarios.

1. Every start (the setting of a registered policy) is judged on all training runs.
2. Random settings are judged on the first third of the seeds; the best quarter on all.
3. Around the best setting a cross-entropy search moves the numbers: a generation is drawn from a
   cloud and judged likewise, the best settings with these choices pull the cloud, and so on until
   it has settled. Each leader's other choices are tried as well; a new leader with other choices
   gets a cloud of its own, and so does the next best, until the budget is spent.

The winner is the best of all that were judged on every training run, so never worse there than the
best start. Its real worth is measured on what it has not seen: see `on_other_seeds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice

import numpy as np

from flyball.app import PolicySetting
from flyball.core.knobs import Knobs
from flyball.experiments.compare.runs import ComparePlan
from flyball.experiments.compare.summary import Comparison, compare
from flyball.experiments.held_out import refuse
from flyball.experiments.knob_search.cloud import Cloud, choices_of
from flyball.experiments.knob_search.judge import WINNER, Judge, Trainer
from flyball.experiments.knob_search.space import draw, other_choices
from flyball.experiments.scenarios import Scenario
from flyball.experiments.workers import Workers

RANDOM_SHARE = 0.25
"""Share of the budget for random settings."""
GENERATION = 40
"""Settings drawn at a time."""
ELITES = 8
"""Settings that a cloud learns from: the best so far with its choices."""
GENERATIONS = 12
"""Most generations of one cloud."""


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
    guard: str | None = None,
    base: Knobs | None = None,
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
        guard: a start that the result should not lose to in any scenario.
        base: has the knobs that are not searched, for all settings but the starts'.

    Raises:
        BadInput: a scenario or seed is held out; the twin refuses every start on a scenario.
    """
    refuse(scenarios, seeds)
    rng = np.random.default_rng([search_seed, 3])
    with Workers(Trainer(tuple(scenarios)), workers) as crew:
        judge = Judge(crew, len(scenarios), tuple(seeds), budget, done)
        judge.start(starts, guard)
        _try_random(judge, round(RANDOM_SHARE * budget), rng, base or Knobs())
        _refine(judge, rng)
    best = judge.ranking()[0]
    return Tuned(best, judge.objective(best), judge.starts, judge.tried, judge.history)


def on_other_seeds(
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


def _try_random(judge: Judge, count: int, rng: np.random.Generator, base: Knobs) -> None:
    for first in range(0, count, GENERATION):
        judge.screen(_fresh(judge, min(GENERATION, count - first), lambda: draw(rng, base)))


def _fresh(judge: Judge, count: int, drawn: Callable[[], Knobs]) -> list[Knobs]:
    """Draw settings that were not judged yet: `count`, or fewer if there are not as many."""
    settings: dict[Knobs, None] = {}
    for _ in range(20 * count):
        if len(settings) == count:
            break
        setting = drawn()
        if not judge.knows(setting):
            settings[setting] = None
    return list(settings)


def _refine(judge: Judge, rng: np.random.Generator) -> None:
    """Search around the best setting, then around the best with other choices, and so on."""
    searched: set[tuple[IntEnum, ...]] = set()
    while judge.left > 0:
        leader = next((s for s in judge.ranking() if choices_of(s) not in searched), None)
        if leader is None:
            return
        searched.add(choices_of(leader))
        judge.screen([setting for setting in other_choices(leader) if not judge.knows(setting)])
        _condense(judge, leader, rng)


def _condense(judge: Judge, leader: Knobs, rng: np.random.Generator) -> None:
    """Search among the settings with the leader's choices."""
    cloud = Cloud(leader)
    for _ in range(GENERATIONS):
        settings = _fresh(judge, min(GENERATION, judge.left), lambda: cloud.draw(rng))
        if not settings or cloud.settled:
            return
        judge.screen(settings)
        alike = (s for s in judge.ranking() if choices_of(s) == choices_of(leader))
        cloud.learn(list(islice(alike, ELITES)))
