"""Price and carbon: what following them saves, against the blind rule and the best static one.

Jobs are generated at half load on 64 V100 and run for two weeks of a region's recorded series; a
seed draws the jobs and the weeks. All arms run the same jobs in the same weeks:

* `blind`: caps and sleep as they are without a signal;
* `static`: caps and sleep at any of a few fixed settings, the best of them for each region in
  hindsight, over all its seeds;
* `follow`: caps and sleep follow the signal, and jobs are deferred by up to the slack.

The settings of `follow` were chosen by `search` on the first year of three carbon regions and two
markets (`TUNED_ON`), with seeds that nothing here is judged on. Judged is the second year of the
ten other regions, and of all markets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from flyball.app import PolicySetting, build_twin, tuned, tuning_setting
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import UnknownName
from flyball.core.metrics import summarise
from flyball.core.results import Results
from flyball.core.shared_data import shared_data
from flyball.core.signals import WEEK_US, Signal
from flyball.core.units import S_PER_HOUR
from flyball.core.workload import Workload
from flyball.experiments.tuning.rows import Row
from flyball.schedule.policies.registry import get_policy
from flyball.twin.generate import generate, preset
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.signals import read_signal

Note = Callable[[str], None]

CARBON_FILE = ("carbon_intensity", "carboncast_2020_2021.csv.gz")
PRICE_FILE = ("electricity_price", "day_ahead_hourly.csv.gz")
REGIONS = ("AUS_QLD", "BPAT", "ERCO", "ES", "FPL", "ISNE", "NL", "NYISO", "PL", "SE")
"""Carbon regions that are judged."""
TUNED_ON = ("CISO", "DE", "PJM")
"""Carbon regions whose first year the settings were chosen on."""
MARKETS = {
    "BE": "Europe/Brussels",
    "FR": "Europe/Paris",
    "DE": "Europe/Berlin",
    "NP": "Europe/Oslo",
    "PJM": "America/New_York",
}
"""Price markets, with the zone of their times."""
MARKETS_TUNED_ON = ("BE", "NP")
"""Markets whose first year the settings were chosen on."""
SLACKS_H = (0.0, 4.0, 24.0)
SEEDS = 3
TUNING_SEED = 1000
LOAD, DAYS, LONGEST_S = 0.5, 14.0, 24 * S_PER_HOUR
CLUSTER, GENERATOR, POLICY = "philly-8x8", "mixed", "easy"
EVERY_S = 600.0
WEEKS = 48
"""Weeks of a year that a run may begin in."""

STATIC = tuple(
    (f"power.slowdown={slowdown}", f"power.spare={spare}")
    for slowdown, spare in product((0.0, 0.06, 0.12, 0.25), (0, 1))
)
"""Fixed settings of caps and sleep, of which the best is chosen for each region in hindsight."""
BLIND = ("power.slowdown=0.06", "power.spare=1")
FOLLOW = ("power.spare=0", "power.follow=2", "defer.margin=0.02")
"""Settings of the rule, as `search` chose them."""
CODES = ("core/*.py", "physics/*.py", "schedule/*.py", "tune/*.py", "twin/*.py", "predict/signals.py",
         "experiments/tuning/signals.py")  # fmt: skip


class Place(NamedTuple):
    """Where a run takes place: a carbon region or a price market, in one of its two years."""

    kind: str
    name: str
    second_year: bool

    @property
    def metric(self) -> str:
        """Return the bill that counts."""
        return "carbon_g" if self.kind == "carbon" else "money"


class Arm(NamedTuple):
    """A setting of the tuners, and how long jobs may be deferred."""

    tuners: str
    settings: tuple[str, ...]
    slack_h: float


BLIND_ARM = Arm("power", BLIND, 0.0)
STATIC_ARMS = tuple(Arm("power", settings, 0.0) for settings in STATIC)
Task = tuple[str, str, bool, int, str, tuple[str, ...], float]


@dataclass(frozen=True)
class SignalPlan:
    """What to run.

    Attributes:
        regions, markets: judged carbon regions and price markets.
        slacks_h: how long jobs may be deferred.
        seeds: draws of jobs and weeks, seeds 0, 1, ...
    """

    regions: tuple[str, ...] = REGIONS
    markets: tuple[str, ...] = tuple(MARKETS)
    slacks_h: tuple[float, ...] = SLACKS_H
    seeds: int = SEEDS

    def check(self) -> None:
        """
        Raises:
            UnknownName: no such region or market.
        """
        for kind, chosen, known in (
            ("carbon region", self.regions, REGIONS),
            ("price market", self.markets, MARKETS),
        ):
            for name in chosen:
                if name not in known:
                    raise UnknownName(kind, name, list(known))

    def places(self) -> list[Place]:
        """Return every region and market, in its second year."""
        carbon = [Place("carbon", name, True) for name in self.regions]
        return carbon + [Place("price", name, True) for name in self.markets]

    def arms(self) -> list[Arm]:
        """Return the blind rule, the static ones and the rule at each slack."""
        follow = [Arm("defer,power", FOLLOW, slack_h) for slack_h in self.slacks_h]
        return list(dict.fromkeys((BLIND_ARM, *STATIC_ARMS, *follow)))

    def tasks(self) -> list[Task]:
        """Return every run."""
        return [
            (*place, seed, *arm)
            for place in self.places()
            for seed in range(self.seeds)
            for arm in self.arms()
        ]


# One run ---------------------------------------------------------------------------------


@cache
def signal_of(kind: str, name: str) -> Signal:
    """Return a recorded series."""
    if kind == "carbon":
        fields: dict[str, Any] = {"region": name, "column": "carbon_gco2_per_kwh"}
        return read_signal(shared_data(*CARBON_FILE), {**fields, "time": "time_utc"}, name)
    fields = {"region": name, "column": "price", "time": "time_local", "per": "MWh"}
    fields |= {"zone": MARKETS[name], "known_ahead_h": "day-ahead"}
    return read_signal(shared_data(*PRICE_FILE), fields, name)


def begin_us(signal: Signal, second_year: bool, seed: int) -> int:
    """Return the Monday on which a run begins: weeks of a year in an order drawn once."""
    first_us = signal.origin_us + (52 * WEEK_US if second_year else WEEK_US)
    weeks = np.random.default_rng(11).permutation(WEEKS)
    return first_us + int(weeks[seed % WEEKS]) * WEEK_US


@cache
def jobs_of(seed: int) -> Workload:
    """Return two weeks of jobs at half load."""
    settings = replace(preset(GENERATOR), max_duration_s=LONGEST_S)
    devices = load_cluster(CLUSTER).device_count
    return generate(settings, seed, days=DAYS, load=LOAD, devices=devices)


def policy_of(arm: Arm) -> PolicySetting:
    """Return the policy with an arm's tuners."""
    base = PolicySetting(POLICY, get_policy(POLICY).knobs)
    settings = [text for text in arm.settings if text.split(".")[0] in arm.tuners.split(",")]
    return tuned(base, tuning_setting(arm.tuners, settings, EVERY_S))


def run_arm(place: Place, seed: int, arm: Arm) -> tuple[Results, Row]:
    """Run one arm; return its results and the figures that are kept."""
    signal = signal_of(place.kind, place.name)
    jobs = replace(jobs_of(seed), origin_us=begin_us(signal, place.second_year, seed))
    cluster: Cluster = load_cluster(CLUSTER)
    cluster = replace(cluster, **{"carbon" if place.kind == "carbon" else "price": signal})
    effects = Effects(slack_s=arm.slack_h * S_PER_HOUR, elastic=False, seed=seed)
    results = build_twin(cluster, jobs, policy_of(arm), effects).replay()
    summary = summarise(results)
    bill = getattr(summary, place.metric)
    return results, {
        "bill": bill,
        "energy_kwh": summary.energy_kwh,
        "completion_s": summary.completion_s.mean,
        "ends_us": np.asarray(results.end_us).tolist(),
    }


class Runner:
    """Runs tasks in worker processes."""

    def run(
        self, kind: str, name: str, second_year: bool, seed: int,
        tuners: str, settings: Sequence[str], slack_h: float,
    ) -> Row:  # fmt: skip
        """Run one arm in one place; see `SignalPlan.tasks`."""
        place, arm = Place(kind, name, second_year), Arm(tuners, tuple(settings), slack_h)
        return run_arm(place, seed, arm)[1]
