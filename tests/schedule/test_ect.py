"""When `ect` collapses, as its page says: long jobs all hold out for the fastest pool."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from flyball.app import build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.metrics import summarise
from flyball.core.workload import Workload

JOBS = 300
CLUSTER = Cluster(
    "three",
    (
        NodeGroup("a", 1, "A100", 8),
        NodeGroup("h", 1, "H100", 8),
        NodeGroup("v", 1, "V100", 8),
    ),
)


def long_jobs(median_h: float, load: float, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    duration_s = rng.lognormal(np.log(median_h * 3600), 0.5, JOBS)
    devices = rng.choice([1, 2, 4], JOBS)
    span_s = (duration_s * devices).sum() / (CLUSTER.device_count * load)
    submit_s = np.sort(rng.random(JOBS)) * span_s
    return Workload.of("long", submit_s, duration_s, devices=devices)


def completion_h(policy: str, median_h: float, *settings: str) -> float:
    """Mean completion time over three seeds at load 1.2."""
    (setting,) = policy_settings(policy, list(settings))
    means = []
    for seed in range(3):
        workload = long_jobs(median_h, 1.2, seed)
        results = build_twin(CLUSTER, workload, setting, Effects()).replay()
        means.append(summarise(results).completion_s.mean / 3600)
    return fmean(means)


@pytest.mark.parametrize(("median_h", "ect_h", "easy_h"), [(24, 14.5, 15.2), (48, 127, 30)])
def test_figures_of_the_page(median_h: float, ect_h: float, easy_h: float) -> None:
    assert completion_h("ect", median_h) == pytest.approx(ect_h, rel=0.02)
    assert completion_h("easy", median_h) == pytest.approx(easy_h, rel=0.02)


def test_longer_hold_prevents_the_collapse() -> None:
    assert completion_h("ect", 48, "hold_s=172800") < completion_h("easy", 48)
