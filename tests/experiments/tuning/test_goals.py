"""Each goal alone: rows against the best plain policy, on a small day of jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flyball.core.signals import DAY_US, Signal
from flyball.core.workload import Workload
from flyball.experiments.tuning import goals, mixed

DAY = Signal.profile([1.0] * 8 + [3.0] * 12 + [1.0] * 4, DAY_US)


def test_a_row_for_each_goal_against_the_best_plain_policy() -> None:
    rng = np.random.default_rng(3)
    jobs = Workload.of(
        "small", np.sort(rng.uniform(0, 40_000, 30)), rng.lognormal(8.5, 0.7, 30), 4,
        model=0, models=("cifar10:512",), device=0, device_names=("T4",),
    )  # fmt: skip
    cluster = replace(mixed.CLUSTER, price=DAY, carbon=DAY)
    result = goals.measure_on(jobs, cluster)
    rows = goals.rows_at(0.5, {("small", 1, 0.5): result})
    assert [row["case"].split()[2] for row in rows] == list(goals.GOALS)
    values = {row["metric"]: row["value"] for row in rows}
    # Price and carbon are the same series here, and nearly idle nodes sleep.
    assert values["money_pct"] == pytest.approx(values["carbon_pct"], abs=5.0)
    assert values["energy_per_work_pct"] < 0.0 and values["money_pct"] < 0.0
