"""Relative speeds from step times: the same global batch on another type of device."""

from __future__ import annotations

import pytest

from flyball.core.cluster import Network
from flyball.core.workload import JobClass
from flyball.physics import catalogue
from flyball.physics.network import spread_factor
from flyball.physics.roofline import relative_speed
from flyball.physics.speed import Speed, speed
from flyball.physics.step_time import step_time_s

NETWORK = Network()
KIND = JobClass.COMPUTE_INTENSIVE
BERT = "bert (batch size 384)"


def ratio(
    model: str, device: str, base: str, count: int, spread: bool = False, devices_per_node: int = 0
) -> Speed:
    types = catalogue.get(device), catalogue.get(base)
    return speed(model, KIND, *types, count, spread, NETWORK, devices_per_node)


def step_s(device: str, count: int, across: bool, batch: int = 384) -> float:
    seconds = step_time_s("bert", device, count, across, batch / count)
    assert seconds is not None
    return seconds


def test_one_device_by_hand() -> None:
    # T4: 32 pieces of 0.223 + 12 x 0.0582; A100: 8 pieces of 0.100 + 48 x 0.00506.
    result = ratio(BERT, "A100-40GB", "T4", 1)
    assert result.value == pytest.approx(32 * 0.9214 / (8 * 0.34288))
    assert not result.estimated
    assert result.basis == "measured: step times, bert (batch size 384), 1 devices"
    assert ratio(BERT, "T4", "A100-40GB", 1).value == pytest.approx(1 / result.value)


def test_a_gang_crosses_nodes_where_they_are_too_small() -> None:
    # Eight on T4 nodes of four, on A100 nodes of eight.
    expected = step_s("T4", 8, True) / step_s("A100-40GB", 8, False)
    assert ratio(BERT, "A100-40GB", "T4", 8).value == pytest.approx(expected)
    small = ratio(BERT, "A100-40GB", "T4", 8, devices_per_node=4)
    assert small.value == pytest.approx(step_s("T4", 8, True) / step_s("A100-40GB", 8, True))


def test_spread_is_measured_too() -> None:
    result = ratio(BERT, "RTX2080Ti", "T4", 4, spread=True)
    assert result.value == pytest.approx(step_s("T4", 4, False) / step_s("RTX2080Ti", 4, True))
    assert not result.estimated
    at_home = ratio(BERT, "T4", "T4", 4, spread=True)
    assert at_home.value == pytest.approx(step_s("T4", 4, False) / step_s("T4", 4, True))
    assert at_home.value < 1.0
    assert ratio(BERT, "T4", "T4", 8, spread=True).value == 1.0  # crosses nodes anyway


def test_spread_that_was_not_measured_goes_by_the_network() -> None:
    packed, apart = (ratio(BERT, "RTX6000", "T4", 4, spread) for spread in (False, True))
    factor = spread_factor(catalogue.get("RTX6000"), KIND, 4, NETWORK)
    assert apart.value == pytest.approx(packed.value * factor)
    assert not packed.estimated
    assert apart.estimated


@pytest.mark.parametrize(
    ("model", "device", "count", "says"),
    [
        (BERT, "RTX2080Ti", 32, "32 devices by a fit to 24 at most"),
        ("yolov3:64", "A100-40GB", 4, "4 devices by a fit 24 % off"),
        (BERT, "A100", 4, "4 devices as on A100-40GB"),
    ],
)
def test_what_is_not_quite_measured_is_marked(
    model: str, device: str, count: int, says: str
) -> None:
    result = ratio(model, device, "T4", count)
    assert result.estimated
    assert result.basis.endswith(says)
    assert ratio(model, device, "T4", count, spread=True).value <= result.value


def test_an_unmeasured_type_goes_by_way_of_the_anchor() -> None:
    result = ratio(BERT, "H100", "T4", 1)
    h100, a100 = (relative_speed(catalogue.get(name), KIND) for name in ("H100", "A100-40GB"))
    assert result.value == pytest.approx(ratio(BERT, "A100-40GB", "T4", 1).value * h100 / a100)
    assert result.estimated
    assert result.basis.startswith("roofline against A100-40GB")


def test_a_gang_nobody_measured_goes_by_the_roofline() -> None:
    result = ratio("ncf:32768", "A100-40GB", "T4", 2)
    a100, t4 = (relative_speed(catalogue.get(name), KIND) for name in ("A100-40GB", "T4"))
    assert result == Speed(a100 / t4, True, "roofline, compute-intensive")


def test_heterogeneity_depends_on_the_job() -> None:
    # The reason to measure: one T4 against one A100 is 1.8 to 11 times, by application.
    ratios = [
        ratio(model, "A100-40GB", "T4", 1).value
        for model in (BERT, "cifar10:2048", "deepspeech2:320", "imagenet:3200", "ncf:32768")
    ]
    assert min(ratios) < 2.0
    assert max(ratios) > 8.0
