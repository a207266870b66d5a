"""The published fragmentation experiment on openb: GPUs left when nothing more fits."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.errors import DataAbsent
from flyball.experiments import placement

SEEDS = 2


@pytest.fixture(scope="module")
def setting() -> placement.PlacementSetting:
    try:
        return placement.load(None, None, lambda text: None)
    except DataAbsent as absent:
        pytest.skip(f"openb is not on this machine: {absent}")


@pytest.fixture(scope="module")
def left(setting: placement.PlacementSetting) -> dict[str, float]:
    """Return the unallocated share by rule, as the mean of the draws."""
    rules = list(placement.PUBLISHED)
    figures = placement.compare(setting, rules, placement.PUBLISHED_OVER, SEEDS, lambda text: None)
    return {row["rule"]: row["unallocated_mean"] for row in figures["rules"]}


def test_the_cluster_and_the_pods_are_those_published(setting: placement.PlacementSetting) -> None:
    assert setting.published
    assert setting.cluster.node_count == 1_213
    assert setting.cluster.device_count == 6_212
    assert len(setting.trace) == 8_152


def test_a_draw_asks_for_as_much_as_wanted_and_is_the_same_twice(
    setting: placement.PlacementSetting,
) -> None:
    one, again, other = (placement.draw(setting, 1.3, seed) for seed in (0, 0, 1))
    asked = np.cumsum(one.devices * one.milli)
    wanted = 1.3 * 6_212 * 1000
    assert asked[-2] < wanted <= asked[-1]
    assert one.devices.tolist() == again.devices.tolist()
    assert one.devices.tolist()[:100] != other.devices.tolist()[:100]


def test_stranded_gpus_are_near_the_published_shares(left: dict[str, float]) -> None:
    assert left["random"] == pytest.approx(0.125, abs=0.02)
    assert left["best-fit"] == pytest.approx(0.069, abs=0.01)
    assert left["fgd"] <= 0.050
    assert left["fgd"] < left["best-fit"]
