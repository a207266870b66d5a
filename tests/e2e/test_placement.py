"""The published placement experiment: Alibaba's trace of 2023, pods to 130 % of 6,212 GPUs.

Weng et al. (USENIX ATC 2023) report 12.5 % of the GPUs unallocated for random placement, 6.9 %
for best-fit and 4.6 % for fragmentation gradient descent.
"""

from __future__ import annotations

import pytest

from flyball.core.errors import DataAbsent
from flyball.experiments import placement
from flyball.twin.twin import warm

LEAST_PODS_PER_CPU_S = 20_000


@pytest.fixture(scope="module")
def setting() -> placement.PlacementSetting:
    try:
        loaded = placement.load(None, None, lambda _note: None)
    except DataAbsent as absent:
        pytest.skip(f"the trace is not on this machine: {absent}")
    warm()
    return loaded


def test_the_cluster_is_the_published_one(setting: placement.PlacementSetting) -> None:
    assert (setting.cluster.node_count, setting.cluster.device_count) == (1213, 6212)
    assert len(setting.cluster.groups) == 15
    assert len(setting.trace) == 8152
    assert int((setting.trace.devices == 0).sum()) == 1088


@pytest.mark.parametrize(
    ("rule", "low", "high"),
    [("random", 0.105, 0.145), ("best-fit", 0.059, 0.079), ("fgd", 0.0, 0.05)],
)
def test_unallocated_is_as_published(
    setting: placement.PlacementSetting, rule: str, low: float, high: float
) -> None:
    result = placement.compare(setting, [rule], 1.3, 2, lambda _done: None)["rules"][0]
    assert low <= result["unallocated_mean"] <= high
    assert result["published"] == placement.PUBLISHED[rule]
    # The best of a few: other work on the machine can only slow one down.
    workload = placement.draw(setting, 1.3, 0)
    least_s = min(placement.fill(setting, workload, rule)["run_cpu_s"] for _ in range(3))
    assert len(workload) / least_s >= LEAST_PODS_PER_CPU_S
