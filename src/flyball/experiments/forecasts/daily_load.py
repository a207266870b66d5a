"""What the load forecast is worth on daily load: nodes that sleep and wake, jobs that grow.

The workload is `helios-like` of the generator, a week with its nights and weekends, under EASY. The
runs of a seed have the same jobs; arms differ in the outlook that the tuners are given. The *true
future* is the load of the same week as it was without a forecast: an upper bound on what a better
forecast could add with the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from flyball.app import PolicySetting, TuningSetting, build_twin, policy_settings, tuning_setting
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.effects import Effects
from flyball.core.forecast import Forecast, Outlook
from flyball.core.metrics import Summary, summarise
from flyball.core.records import Records
from flyball.core.results import Ints, Results
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.predict.load.contract import LEVELS
from flyball.predict.load.live_series import LOAD, devices_at
from flyball.twin.generate import generate
from flyball.twin.tuning import OutlookSource

CLUSTER = Cluster("16 nodes of 8 V100", (NodeGroup("n", 16, "V100", 8),))
DAYS = 7.0
SEEDS = 5
"""Seeds 1, 2, ...: settings were chosen on others (docs/concept/prediction.md)."""
NO_FORECAST, FORECAST, TRUE_FUTURE = "no forecast", "forecast", "true future"
STEP_US = to_us(LOAD.step_s)


class TrueFuture:
    """Gives the load of a finished run as if it had been known."""

    def __init__(self, results: Results) -> None:
        milli = results.devices * results.milli
        last = int(results.end_us.max()) // STEP_US + 1
        self._edges: Ints = STEP_US * np.arange(1, last + round(LOAD.ahead_s / LOAD.step_s) + 1)
        self._load = devices_at(results.submit_us, results.end_us, milli, self._edges)

    def fresh(self) -> TrueFuture:
        """Return the same, which has no state."""
        return self

    def __call__(self, state: State) -> Outlook:
        """Return the load of the next hour."""
        first = int(state.clock[0].now_us) // STEP_US
        steps = round(LOAD.ahead_s / LOAD.step_s)
        ahead = (
            np.resize(self._load[first : first + steps], steps)
            if first < len(self._load)
            else np.zeros(steps)
        )
        return Outlook(load=Forecast(LEVELS, np.tile(ahead, (len(LEVELS), 1)), ahead, LOAD.step_s))


class DayRun(NamedTuple):
    """What came of one run."""

    summary: Summary
    results: Results
    woken: int


@dataclass(frozen=True)
class DailyCase:
    """One rule on one load.

    Attributes:
        name: of the rule.
        load: offered to the cluster.
        tuners, settings: as `--tune` and `--tune-set` take them.
        elastic: share of jobs that may be resized.
    """

    name: str
    load: float
    tuners: str
    settings: tuple[str, ...] = ()
    elastic: float = 0.0

    def workload(self, seed: int) -> Workload:
        """Return the week of a seed."""
        jobs = _week(self.load, seed)
        return with_elastic_jobs(jobs, self.elastic, seed) if self.elastic else jobs

    def run(self, seed: int, outlook: OutlookSource | None, settings: Sequence[str] = ()) -> DayRun:
        """Run the week of a seed with this outlook."""
        policy = policy_settings("easy", [])[0]
        tuning: TuningSetting = tuning_setting(self.tuners, [*self.settings, *settings])
        tuned: PolicySetting = replace(policy, tuning=tuning)
        effects = Effects(elastic=bool(self.elastic), share_limit=1)
        twin = build_twin(CLUSTER, self.workload(seed), tuned, effects)
        assert twin.tuning is not None
        woken = 0

        def count(_now: int, plan: Records) -> None:
            nonlocal woken
            woken += int((plan["kind"] == ActionKind.WAKE).sum())

        twin.tuning = replace(twin.tuning, outlook=outlook, note=count)
        results = twin.replay()
        return DayRun(summarise(results), results, woken)


@cache
def _week(load: float, seed: int) -> Workload:
    return generate("helios-like", seed, days=DAYS, load=load, devices=CLUSTER.device_count)
