"""The problems that policies are compared on; no training or tuning saw any part of them.

Seeds 0 to 999 are held out (`data/held_out.yaml`), so are two whole scenarios, the shape of the
cluster of one of them, and 20 days of Philly. Training draws its own clusters and series; here the
signals are recorded: the second year of ten carbon regions and of five day-ahead markets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.shared_data import shared_data
from flyball.core.workload import Workload
from flyball.experiments.held_out import held_out
from flyball.experiments.scenarios import find_scenarios
from flyball.experiments.tuning.signals import (
    CARBON_FILE,
    MARKETS,
    PRICE_FILE,
    REGIONS,
    Place,
    begin_us,
)
from flyball.learn.env.problems import Problem
from flyball.learn.env.spaces import PRIORITIES
from flyball.learn.training.sources import History, begun_at_0

HALF = ("half-loaded", "unequal-speeds")
"""Scenarios at half load."""
OTHERS = ("uniform", "short-noisy", "bursts", "wide-gangs", "saturated", "poor-estimates")
GROUPS = {"half load": 6, "held out": 7, "philly": 3, "other": 3}
"""Groups, and instances of each of their scenarios."""
HISTORY_PARTS = 12
PART_JOBS = 400


@dataclass(frozen=True)
class Instance:
    """One problem, made again from these few words.

    Attributes:
        group: of `GROUPS`.
        scenario: its name; "history" = a part of the user's own.
        seed: of workload, effects and the week of the signal.
        kind, place: the signal, see `experiments.tuning.signals`; "" = none.
    """

    group: str
    scenario: str
    seed: int
    kind: str = ""
    place: str = ""

    @property
    def name(self) -> str:
        """What people are shown."""
        signal = f", {self.kind} {self.place}" if self.kind else ""
        return f"{self.scenario} seed {self.seed}{signal}"

    def problem(self, energy: float = 1.0) -> Problem:
        """Return the problem.

        Args:
            energy: weight of the cost of energy beside 1 for completion time.
        """
        scenario = find_scenarios(self.scenario)[0]
        cluster, workload = scenario.make_cluster(), scenario.make_workload(self.seed)
        effects = replace(scenario.make_effects(self.seed), elastic=False)
        if self.kind:
            where = Place(self.kind, self.place, True)
            workload = replace(workload, origin_us=begin_us(where, self.seed))
            if self.kind == "price":
                cluster = replace(cluster, price=where.signal)
            else:
                cluster = replace(cluster, carbon=where.signal)
        return Problem(cluster, workload, effects, goals(self.kind, energy), self.seed)


def goals(kind: str, energy: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return priorities: completion time, and energy by the signal's cost."""
    values = dict.fromkeys(PRIORITIES, 0.0)
    values |= {"alpha": 1.0, "beta": energy}
    if kind:
        values["money" if kind == "price" else "carbon"] = 1.0
    return np.array([values[name] for name in PRIORITIES])


def all_instances(share: float = 1.0, groups: Sequence[str] = tuple(GROUPS)) -> list[Instance]:
    """Return the whole held-out set, or the first part of some groups.

    Args:
        share: of the instances of each scenario, at least one.
        groups: of `GROUPS`.

    Raises:
        UnknownName: there is no such group.
    """
    for group in groups:
        if group not in GROUPS:
            raise UnknownName("group of instances", group, GROUPS)
    _check_data()
    kept_out = [name for name in held_out().scenarios if not name.startswith("philly")]
    philly = [name for name in held_out().scenarios if name.startswith("philly")]
    scenarios = {"half load": HALF, "held out": kept_out, "philly": philly, "other": OTHERS}
    out: list[Instance] = []
    for group, names in scenarios.items():
        for name in names:
            for seed in range(max(1, round(share * GROUPS[group]))):
                out.append(_with_signal(Instance(group, name, seed), len(out)))
    return [instance for instance in out if instance.group in groups]


def _with_signal(instance: Instance, number: int) -> Instance:
    """Give an instance a market or a carbon region, each in its turn."""
    markets = list(MARKETS)
    if number % 2:
        return replace(instance, kind="carbon", place=REGIONS[number // 2 % len(REGIONS)])
    return replace(instance, kind="price", place=markets[number // 2 % len(markets)])


def _check_data() -> None:
    """Refuse to begin if recorded data are absent, before anything long has run."""
    for path in (CARBON_FILE, PRICE_FILE, ("philly", "jobs.csv.gz")):
        shared_data(*path)


# A user's own history -----------------------------------------------------------------------


def history_problems(history: History, energy: float = 1.0) -> list[Problem]:
    """Return parts of the jobs that neither training nor choosing saw, in order of time."""
    jobs = history.parts()[2]
    cluster = history.cluster
    kind = "price" if cluster.price else "carbon" if cluster.carbon else ""
    size = max(20, min(PART_JOBS, len(jobs) // HISTORY_PARTS))
    parts = [
        begun_at_0(jobs.take(np.arange(first, first + size)))
        for first in range(0, len(jobs) - size + 1, size)
    ][:HISTORY_PARTS]
    if len(parts) < 2:
        raise BadInput(
            f"only {len(jobs)} jobs of the history are left to judge on",
            "collect more; the last 20 % of a history is kept from training",
        )
    return [_history_problem(cluster, part, kind, energy, at, history.sigma)
            for at, part in enumerate(parts)]  # fmt: skip


def _history_problem(
    cluster: object, part: Workload, kind: str, energy: float, at: int, sigma: float
) -> Problem:
    effects = Effects(estimate_sigma=sigma, elastic=False, seed=at)
    return Problem(cluster, part, effects, goals(kind, energy), at)  # type: ignore[arg-type]


@lru_cache(maxsize=4)
def problem_of(instance: Instance, energy: float) -> Problem:
    """Return an instance's problem; the last few are kept."""
    return instance.problem(energy)
