"""What the load forecast is worth on daily load: nodes that sleep and wake, jobs that grow.

The workload is `helios-like` of the generator, four days with their nights, under EASY. The
runs of a seed have the same jobs; arms differ in the outlook that the tuners are given. The *true
future* is the load of the same days as it was without a forecast: an upper bound on what a better
forecast could add with the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from flyball.app import build_twin, policy_settings, tuning_setting
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.effects import Effects
from flyball.core.forecast import NO_OUTLOOK, Forecast, Outlook
from flyball.core.metrics import Summary, summarise
from flyball.core.records import Records
from flyball.core.results import Ints, Results
from flyball.core.state import State
from flyball.core.units import S_PER_DAY, US_PER_S, to_us
from flyball.core.workload import Workload
from flyball.experiments.forecasts.rows import Note, Row, comparison
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.predict.load.contract import LEVELS
from flyball.predict.load.live_series import LOAD, devices_at
from flyball.twin.generate import generate, preset
from flyball.twin.load_forecast import LoadForecast
from flyball.twin.tuning import OutlookSource

CLUSTER = Cluster("48 nodes of 8 V100", (NodeGroup("n", 48, "V100", 8),))
DAYS = 4.0
LONGEST_S = S_PER_DAY
"""Longest run time of a job, so that a run does not go on for weeks after the last submission."""
SEEDS = 3
"""Seeds 1, 2, ...: settings were chosen on others (docs/concept/prediction.md)."""
NO_FORECAST, THRIFTY = "no forecast", "no forecast, same settings"
FORECAST, TRUE_FUTURE = "forecast", "true future"
SCALES = "amdahl:0.9"
"""Model of jobs that may be resized: their devices share 90 % of a step."""
WOKEN = "nodes woken ahead"
STEP_US = to_us(LOAD.step_s)
STEPS = round(LOAD.ahead_s / LOAD.step_s)


class TrueFuture:
    """Gives the load of a finished run as if it had been known."""

    def __init__(self, results: Results) -> None:
        milli = results.devices * results.milli
        last = int(results.end_us.max()) // STEP_US + 1
        self._edges: Ints = STEP_US * np.arange(1, last + 1)
        self._load = devices_at(results.submit_us, results.end_us, milli, self._edges)

    def fresh(self) -> TrueFuture:
        """Return the same, which has no state."""
        return self

    def __call__(self, state: State) -> Outlook:
        """Return the load of the next hour."""
        first = int(state.clock[0].now_us) // STEP_US
        ahead = self._load[first : first + STEPS]
        ahead = np.append(ahead, np.zeros(STEPS - len(ahead)))
        return Outlook(load=Forecast(LEVELS, np.tile(ahead, (len(LEVELS), 1)), ahead, LOAD.step_s))


class WithinArrivals:
    """Gives the outlook of another source until the last job is submitted.

    After that there is nothing to forecast.
    """

    def __init__(self, source: OutlookSource, last_us: int) -> None:
        self._source, self._last_us = source, last_us

    def fresh(self) -> WithinArrivals:
        """Return the same for another run."""
        return WithinArrivals(self._source.fresh(), self._last_us)

    def __call__(self, state: State) -> Outlook:
        """Return the outlook of the source, then none."""
        return NO_OUTLOOK if state.clock[0].now_us > self._last_us else self._source(state)


class DayRun(NamedTuple):
    """Holds what came of one run; `woken` counts nodes that the tuner woke ahead."""

    summary: Summary
    results: Results
    woken: int

    def values(self) -> dict[str, float]:
        """Return the metrics by name and unit."""
        waking_s = float(self.results.waking_us.mean()) / US_PER_S
        return {
            "energy per work, kWh per device-hour": self.summary.energy_per_work,
            "mean wait, s": self.summary.wait_s.mean,
            "of it, wait for a node to wake, s": waking_s,
            WOKEN: float(self.woken),
        }


@dataclass(frozen=True)
class DailyCase:
    """Describes one rule on one load.

    Attributes:
        name: of the rule.
        tuners: as `--tune` takes them.
        plain: settings without a forecast, as `--tune-set` takes them.
        ahead: settings with one.
        elastic: share of jobs that may be resized.
        load: offered to the cluster.
        every_s: time between two rounds.
    """

    name: str
    tuners: str
    plain: tuple[str, ...]
    ahead: tuple[str, ...]
    elastic: float = 0.0
    load: float = 0.5
    every_s: float = 60.0

    def workload(self, seed: int) -> Workload:
        """Return the jobs of a seed."""
        jobs = _days(self.load, seed)
        if not self.elastic:
            return jobs
        scaling = replace(jobs, models=(SCALES,), model=np.zeros(len(jobs), np.int64))
        return with_elastic_jobs(scaling, self.elastic, seed)

    def run(self, seed: int, outlook: OutlookSource | None, settings: Sequence[str]) -> DayRun:
        """Run the jobs of a seed with this outlook."""
        tuning = tuning_setting(self.tuners, list(settings), self.every_s, forecast=False)
        policy = replace(policy_settings("easy", [])[0], tuning=tuning)
        jobs = self.workload(seed)
        twin = build_twin(CLUSTER, jobs, policy, Effects(elastic=bool(self.elastic), share_limit=1))
        assert twin.tuning is not None
        source = outlook and WithinArrivals(outlook, int(jobs.submit_us[-1]))
        woken = 0

        def count(_now: int, plan: Records) -> None:
            nonlocal woken
            woken += int((plan["kind"] == ActionKind.WAKE).sum())

        twin.tuning = replace(twin.tuning, outlook=source, note=count)
        results = twin.replay()
        return DayRun(summarise(results), results, woken)


@cache
def _days(load: float, seed: int) -> Workload:
    settings = replace(preset("helios-like"), max_duration_s=LONGEST_S)
    return generate(settings, seed, days=DAYS, load=load, devices=CLUSTER.device_count)


CASES = (
    DailyCase(
        "sleep and wake",
        "power",
        ("power.slowdown=0",),
        ("power.slowdown=0", "power.spare=0", "power.level=0.9"),
    ),
    DailyCase(
        "sizes of elastic jobs",
        "elastic",
        (),
        ("elastic.ahead_s=1800", "elastic.level=0.75"),
        elastic=0.8,
        every_s=300.0,
    ),
)


def rows(
    note: Note, seeds: int | None = None, cases: Sequence[DailyCase] = CASES, first: int = 1
) -> list[Row]:
    """Return what the forecast changes, paired by seed, and what the true future would.

    Args:
        note: receives what is being run.
        seeds: number of seeds; None = `SEEDS`.
        cases: the rules.
        first: the first seed.
    """
    out: list[Row] = []
    for case in cases:
        values: dict[str, list[dict[str, float]]] = {}
        for seed in range(first, first + (seeds or SEEDS)):
            note(f"load: {case.name}, seed {seed}")
            plain = case.run(seed, None, case.plain)
            arms = {
                NO_FORECAST: plain,
                THRIFTY: case.run(seed, None, case.ahead),
                FORECAST: case.run(seed, LoadForecast(), case.ahead),
                TRUE_FUTURE: case.run(seed, TrueFuture(plain.results), case.ahead),
            }
            for arm, run in arms.items():
                values.setdefault(arm, []).append(run.values())
        out += _compared(f"load: {case.name}", values)
    return out


def _compared(case: str, values: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Row]:
    """Return each arm against the rule without a forecast, metric by metric."""
    base, *arms = values
    out = []
    for arm in arms:
        for metric in values[base][0]:
            ours = [run[metric] for run in values[arm]]
            theirs = [run[metric] for run in values[base]]
            if any(ours) or any(theirs):
                relative, better = metric.startswith("energy"), None if metric == WOKEN else True
                out.append(comparison(case, arm, base, metric, ours, theirs, relative, better))
    return out
