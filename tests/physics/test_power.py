from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.errors import BadInput, DataAbsent
from flyball.core.shared_data import shared_data
from flyball.core.workload import JobClass
from flyball.physics import catalogue
from flyball.physics.catalogue import DeviceType
from flyball.physics.power import (
    DRAW_SHARE,
    IDLE_SHARE,
    cap_curve,
    cap_factors,
    draw_w,
    host_w,
    utilisation,
)

devices = st.sampled_from(list(catalogue.load().values()))
fractions = st.floats(0.05, 1.0)


@given(devices)
def test_no_cap_changes_nothing(device: DeviceType) -> None:
    assert cap_factors(device, 1.0) == (1.0, 1.0)


@given(devices, fractions, fractions)
def test_a_lower_cap_is_slower_and_draws_less(device: DeviceType, one: float, other: float) -> None:
    low, high = sorted((one, other))
    (slow, little), (quick, much) = cap_factors(device, low), cap_factors(device, high)
    assert slow >= quick >= 1.0
    assert 0.0 < little <= much <= 1.0
    assert little <= low * (1 + 1e-12)


@given(devices, st.floats(0.1, 0.999))
def test_factors_are_continuous(device: DeviceType, fraction: float) -> None:
    for a, b in zip(
        cap_factors(device, fraction), cap_factors(device, fraction + 1e-9), strict=True
    ):
        assert a == pytest.approx(b, abs=1e-5)


def test_factors_by_hand() -> None:
    slowdown, power = cap_factors(catalogue.get("V100"), 0.75)
    assert slowdown == pytest.approx(1.116)
    assert power == pytest.approx(0.94 * 0.75)
    assert cap_factors(catalogue.get("P100"), 0.85)[1] == pytest.approx(0.90 * 0.85)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, math.nan])
def test_impossible_caps(fraction: float) -> None:
    with pytest.raises(BadInput, match="at most 1"):
        cap_factors(catalogue.get("V100"), fraction)


@given(devices, st.sampled_from(list(JobClass)))
def test_draw_is_between_idle_and_peak(device: DeviceType, kind: JobClass) -> None:
    assert device.idle_w < draw_w(device, kind) < device.peak_w


def test_draw_by_hand() -> None:
    # The V100's idle draw is the share the utilisation is reckoned from.
    assert draw_w(catalogue.get("V100"), JobClass.COMPUTE_INTENSIVE) == pytest.approx(0.87 * 300)
    assert utilisation(JobClass.MIXED) == pytest.approx((0.64 - 0.15) / 0.85)


def test_host_draw_follows_the_number_of_devices() -> None:
    a100 = catalogue.get("A100")
    assert host_w(a100, 8) == 1000.0
    assert host_w(a100, 4) == 500.0


# Against the measurements -------------------------------------------------------


def zeus_sweeps() -> dict[tuple[str, str], list[list[tuple[float, float, float]]]]:
    """(GPU, network) -> sweeps of (limit, time, draw), rising in the limit."""
    try:
        path = shared_data("zeus", "power_vs_limit.csv.gz")
    except DataAbsent as absent:
        pytest.skip(str(absent))
    sweeps = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = tuple(
                row[column]
                for column in ("gpu_type", "network", "dataset", "batch_size", "optimizer")
            )
            numbers = ("power_limit_w", "time_per_epoch_s", "average_power_w")
            sweeps[key].append(tuple(float(row[column]) for column in numbers))
    sorted_sweeps: dict[tuple[str, str], list[list[tuple[float, float, float]]]] = defaultdict(list)
    for key, sweep in sweeps.items():
        sorted_sweeps[key[0], key[1]].append(sorted(sweep))  # type: ignore[arg-type]
    return sorted_sweeps


@pytest.mark.parametrize("gpu", ["v100", "a40", "rtx6000", "p100"])
def test_cap_curves_are_the_measured_medians(gpu: str) -> None:
    times = defaultdict(list)
    for (name, _), sweeps in zeus_sweeps().items():
        for sweep in sweeps if name == gpu else ():
            _, full_time, draw = sweep[-1]
            for limit, time, _ in sweep[:-1]:
                times[math.floor(limit / draw * 10)].append(time / full_time)
    for log_ratio, log_time in cap_curve(gpu).points[1:]:
        cases = times[math.floor(math.exp(-log_ratio) * 10)]
        if len(cases) > 5:
            assert math.exp(log_time) == pytest.approx(median(cases), abs=0.002)


def test_draw_shares_are_the_measured_medians() -> None:
    shares = defaultdict(list)
    for (_, network), sweeps in zeus_sweeps().items():
        shares[network].append(median(sweep[-1][2] / sweep[-1][0] for sweep in sweeps))
    typical = {network: median(values) for network, values in shares.items()}
    compute = (typical["resnet50"] + typical["bert_base_uncased"]) / 2
    memory = (typical["shufflenetv2"] + typical["ncf"]) / 2
    assert DRAW_SHARE[JobClass.COMPUTE_INTENSIVE] == pytest.approx(compute, abs=0.01)
    assert DRAW_SHARE[JobClass.MEMORY_BOUND] == pytest.approx(memory, abs=0.01)
    assert DRAW_SHARE[JobClass.MIXED] == pytest.approx(typical["deepspeech2"], abs=0.01)


def test_the_idle_share_is_acmes() -> None:
    a100 = catalogue.get("A100")
    assert pytest.approx(a100.idle_w / a100.peak_w) == IDLE_SHARE
