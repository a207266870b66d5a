"""Price and carbon: what following them saves, against the blind rule and the best static one.

Jobs are generated at half load on 64 V100 and run for a week of a region's recorded series; a
seed draws the jobs and the week. All arms run the same jobs in the same weeks:

* `blind`: caps and sleep as they are without a signal;
* `static`: caps and sleep at one of a few fixed settings, the best of them for each region in
  hindsight, over all its seeds;
* `follow`: caps and sleep follow the signal, and jobs are deferred by up to the slack.

The settings of `follow` were chosen among `CANDIDATES` on the first year of three carbon regions
and two markets (`TUNED_ON`), with a seed that nothing here is judged on. Judged is the second year
of the ten other regions, and of all markets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from flyball.app import PolicySetting, build_twin, tuned, tuning_setting
from flyball.core.effects import Effects
from flyball.core.errors import UnknownName
from flyball.core.metrics import summarise
from flyball.core.results import Floats, Ints, Results
from flyball.core.shared_data import shared_data
from flyball.core.signals import DAY_US, HOUR_US, WEEK_US, Signal
from flyball.core.units import J_PER_KWH, S_PER_HOUR, to_s
from flyball.core.workload import Workload
from flyball.experiments.kept_runs import run_kept
from flyball.experiments.run_file import RunFile, key_of, source_version
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
LOAD, DAYS, LONGEST_S = 0.5, 7.0, 24 * S_PER_HOUR
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
FOLLOW = (
    *("power.slowdown=0.25", "power.spare=0", "power.follow=1", "power.deepest=0.5"),
    *("defer.pause=0.2", "defer.stretch=1.4"),
)
"""Settings of the rule: of `CANDIDATES` with a stretch, least cost in BE's first year at 24 h."""
CANDIDATES = tuple(
    (
        *(f"power.slowdown={slowdown}", "power.spare=0", f"power.follow={follow}"),
        *("power.deepest=0.5", f"defer.pause={pause}", f"defer.stretch={stretch}"),
    )
    for slowdown, follow, pause, stretch in (
        *((0.06, 2, 0.1, 1.0), (0.2, 1, 0.0, 1.0), (0.2, 1, 0.1, 1.0), (0.25, 0, 0.1, 1.0)),
        *((0.25, 1, 0.2, 1.4), (0.25, 0, 0.2, 1.4), (0.25, 1, 0.0, 1.4)),
    )
)
"""Settings of the rule that `search` compares."""
RUN_STRETCH = 1.25
"""Part of its run time that a job's deadline allows for the run itself, as in `twin/build.py`."""
CODES = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "tune/**/*.py", "twin/**/*.py"),
    *("predict/signals.py", "experiments/tuning/signals.py"),
)


class Place(NamedTuple):
    """Names where a run takes place: a carbon region or a price market, in one of its two years."""

    kind: str
    name: str
    second_year: bool

    @property
    def signal(self) -> Signal:
        return signal_of(self.kind, self.name)


Task = tuple[Any, ...]
"""Arguments of `Runner.run`."""
FIXED = "fixed"
"""Name in place of a region: the run does not depend on the signal."""


@dataclass(frozen=True)
class SignalPlan:
    """Says what to run.

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
        for kind, chosen, names in (
            ("carbon region", self.regions, REGIONS),
            ("price market", self.markets, MARKETS),
        ):
            for name in chosen:
                if name not in names:
                    raise UnknownName(kind, name, list(names))

    def places(self) -> list[Place]:
        """Return every region and market, in its second year."""
        carbon = [Place("carbon", name, True) for name in self.regions]
        return carbon + [Place("price", name, True) for name in self.markets]

    def tasks(self) -> list[Task]:
        """Return every run: the fixed settings once, the rule in every place at every slack."""
        seeds = range(self.seeds)
        fixed: list[Task] = [(FIXED, "", False, seed, s, 0.0) for seed in seeds for s in STATIC]
        return fixed + [
            (*place, seed, FOLLOW, slack_h)
            for place in self.places()
            for seed in seeds
            for slack_h in self.slacks_h
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


def begin_us(place: Place, seed: int) -> int:
    """Return the Monday, midnight UTC, on which a run begins: weeks in an order drawn once."""
    midnight_us = place.signal.origin_us // DAY_US * DAY_US
    weeks = np.random.default_rng(11).permutation(WEEKS)
    year = 52 if place.second_year else 1
    return midnight_us + (year + int(weeks[seed % WEEKS])) * WEEK_US


@cache
def jobs_of(seed: int) -> Workload:
    """Return a week of jobs at half load."""
    settings = replace(preset(GENERATOR), max_duration_s=LONGEST_S)
    devices = load_cluster(CLUSTER).device_count
    return generate(settings, seed, days=DAYS, load=LOAD, devices=devices)


def policy_of(settings: Sequence[str]) -> PolicySetting:
    """Return the policy with the tuners that the settings are of."""
    tuners = ",".join(dict.fromkeys(text.partition(".")[0] for text in settings))
    base = PolicySetting(POLICY, get_policy(POLICY).knobs)
    return tuned(base, tuning_setting(tuners, list(settings), EVERY_S))


class Ends(NamedTuple):
    """Holds when the jobs of a run ended, and how often they were preempted."""

    end_us: Ints
    preemptions: int


@cache
def fixed_run(seed: int, settings: tuple[str, ...]) -> tuple[Floats, Ends]:
    """Run fixed settings; return the energy of each hour from the clock's 0, and the ends."""
    effects = Effects(elastic=False, seed=seed)
    twin = build_twin(load_cluster(CLUSTER), jobs_of(seed), policy_of(settings), effects)
    totals_j = [0.0]
    while not twin.finished:
        hour_us = len(totals_j) * HOUR_US
        twin.run(hour_us)
        totals_j.append(twin.mark(twin.now_us if twin.finished else hour_us).energy_j)
    runs: Any = twin.state.runs
    return np.diff(totals_j) / J_PER_KWH, Ends(runs.end_us.copy(), int(runs.preemptions.sum()))


def billed(energy_kwh: Sequence[float], place: Place, seed: int) -> float:
    """Return the bill of a run whose energy by hour is known."""
    hours_us = begin_us(place, seed) + HOUR_US * np.arange(len(energy_kwh), dtype=np.int64)
    return float(np.asarray(energy_kwh) @ place.signal.values_at(hours_us))


def follow_run(place: Place, seed: int, settings: Sequence[str], slack_h: float) -> Results:
    """Run the rule in a region."""
    jobs = replace(jobs_of(seed), origin_us=begin_us(place, seed))
    cluster = load_cluster(CLUSTER)
    if place.kind == "carbon":
        cluster = replace(cluster, carbon=place.signal)
    else:
        cluster = replace(cluster, price=place.signal)
    effects = Effects(slack_s=slack_h * S_PER_HOUR, elastic=False, seed=seed)
    named = (*settings, "defer.margin=0.02")
    return build_twin(cluster, jobs, policy_of(named), effects).replay()


class Runner:
    """Runs tasks in worker processes."""

    def run(
        self,
        kind: str,
        name: str,
        second_year: bool,
        seed: int,
        settings: Sequence[str],
        slack_h: float,
    ) -> Row:
        """Run one setting; see `SignalPlan.tasks`."""
        if kind == FIXED:
            energy_kwh, ends = fixed_run(seed, tuple(settings))
            return {"energy_kwh": energy_kwh.tolist(), **_figures(ends, seed, slack_h)}
        place = Place(kind, name, second_year)
        results = follow_run(place, seed, settings, slack_h)
        summary = summarise(results)
        bill = summary.carbon_g if kind == "carbon" else summary.money
        return {
            "bill": bill,
            "energy_kwh": [summary.energy_kwh],
            **_figures(Ends(results.end_us, int(results.preemptions.sum())), seed, slack_h),
        }


def _figures(ends: Ends, seed: int, slack_h: float) -> Row:
    """Return completion, how many jobs ended later than the slack after blind ones, and misses."""
    blind = fixed_run(seed, BLIND)[1]
    jobs, slack_us = jobs_of(seed), slack_h * HOUR_US
    late = ends.end_us - blind.end_us > slack_us
    deadline_us = jobs.submit_us + RUN_STRETCH * jobs.duration_us + slack_us
    missed, by_blind = (run.end_us > deadline_us for run in (ends, blind))
    return {
        "completion_s": to_s(int((ends.end_us - jobs.submit_us).sum())) / len(jobs),
        "jobs": len(jobs),
        "late": int(late.sum()),
        "missed": int((missed & ~by_blind).sum()),
        "missed_by_blind": int(by_blind.sum()),
        "preemptions": ends.preemptions,
    }


def measure(
    plan: SignalPlan, runs: RunFile, done: Note, workers: int | None = None
) -> dict[Task, Row]:
    """Return every run of the plan, from the file or run now."""
    return run_tasks(plan.tasks(), runs, done, workers)


def run_tasks(
    tasks: Sequence[Task], runs: RunFile, done: Note, workers: int | None = None
) -> dict[Task, Row]:
    """Return the result of every task, from the file or run now."""
    keys = {task: key_of("signals", source_version(CODES), task) for task in tasks}
    return run_kept(Runner(), keys, runs, lambda task: done(label(task)), workers)


def label(task: Task) -> str:
    """Return the task for people."""
    kind, name, _second, seed, _settings, slack_h = task
    return f"{kind} {name} slack {slack_h:g} h, seed {seed}"


def search(note: Note, runs: RunFile, slack_h: float = 24.0) -> list[tuple[float, tuple[str, ...]]]:
    """Compare the candidates where settings may be chosen; best first, by the mean change."""
    places = [Place("carbon", name, False) for name in TUNED_ON]
    places += [Place("price", name, False) for name in MARKETS_TUNED_ON]
    seed = TUNING_SEED
    tasks: list[Task] = [(FIXED, "", False, seed, BLIND, 0.0)]
    tasks += [(*place, seed, settings, slack_h) for settings in CANDIDATES for place in places]
    results = run_tasks(tasks, runs, note)
    energy_kwh = results[tasks[0]]["energy_kwh"]
    scores = []
    for settings in CANDIDATES:
        ours = [results[(*place, seed, settings, slack_h)] for place in places]
        bills = [billed(energy_kwh, place, seed) for place in places]
        change = np.mean([run["bill"] / bill - 1 for run, bill in zip(ours, bills, strict=True)])
        scores.append((100 * float(change), settings))
    return sorted(scores)
