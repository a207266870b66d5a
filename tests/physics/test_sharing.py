"""Speeds of pairs on one device: as measured, and by the models that stand in for it."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest

from flyball.core.errors import DataAbsent
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.core.workload import JobClass
from flyball.physics import catalogue, measured
from flyball.physics.sharing import (
    Sharer,
    by_rank_one,
    by_utilisation,
    cluster_gain,
    guessed_shared_speed,
    measured_pair,
    optimistic_shared_speed,
    speed_beside,
)

V100, K80, A100 = catalogue.get("V100"), catalogue.get("K80"), catalogue.get("A100")
MODELS = [key.text for key in measured.models()]
MIXED, COMPUTE = JobClass.MIXED, JobClass.COMPUTE_INTENSIVE


def table(device: str) -> Floats:
    kind = catalogue.get(device)
    return np.array([[measured_pair(kind, a, b) for b in MODELS] for a in MODELS], float)


def test_every_measured_configuration_has_every_other_as_a_neighbour() -> None:
    for device in ("K80", "P100", "V100"):
        speeds = table(device)
        assert speeds.shape == (26, 26)
        assert ((speeds >= 0) & (speeds <= 1.001)).all()
        assert ((speeds == 0) == (speeds.T == 0)).all()  # no room for one is none for the other


@pytest.mark.parametrize(("device", "median"), [("K80", 1.05), ("P100", 1.13), ("V100", 1.37)])
def test_a_pair_does_more_than_one_job_on_newer_devices(device: str, median: float) -> None:
    speeds = table(device)
    sums = (speeds + speeds.T)[np.triu_indices(26)]
    assert np.median(sums[sums > 0]) == pytest.approx(median, abs=0.01)


def test_no_pair_on_k80_keeps_a_fifth_and_on_v100_44_do() -> None:
    counts = {}
    for device in ("K80", "V100"):
        speeds = table(device)
        fine = np.minimum(speeds, speeds.T) >= 0.8
        counts[device] = int(np.triu(fine).sum())
    assert counts == {"K80": 0, "V100": 44}


def test_the_table_is_gavels() -> None:
    try:
        path = shared_data("gavel", "gavel_colocated.csv.gz")
    except DataAbsent as absent:
        pytest.skip(str(absent))
    seen = 0
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["gpus_a"] != "1" or row["gpus_b"] != "1":
                continue
            a, b = (_key(row, side) for side in "ab")
            device = catalogue.get(row["gpu_type"].upper())
            for mine, other, side in ((a, b, "a"), (b, a, "b")):
                alone = measured.steps_per_s(row["gpu_type"], mine, 1)
                assert alone
                value = measured_pair(device, mine.text, other.text)
                assert value == pytest.approx(float(row[f"steps_per_s_{side}"]) / alone, abs=6e-5)
                seen += 1
    assert seen == 3 * 26 * 26 * 2


def _key(row: dict[str, str], side: str) -> measured.ModelKey:
    return measured.ModelKey(row[f"model_{side}"], int(float(row[f"batch_{side}"] or 0)))


def test_a_measured_pair_is_used_as_measured() -> None:
    lm, resnet = Sharer("LM (batch size 20)", MIXED), Sharer("ResNet-18 (batch size 32)", COMPUTE)
    assert speed_beside(V100, resnet, lm) == (1.0, True)
    assert speed_beside(V100, lm, resnet).value == pytest.approx(0.79, abs=0.01)


def test_what_has_no_room_together_stays_apart_in_every_guess() -> None:
    large = Sharer("ResNet-50 (batch size 128)", COMPUTE)
    assert speed_beside(V100, large, large) == (0.0, True)
    assert guessed_shared_speed(V100, large, large) == (0.0, True)
    assert optimistic_shared_speed(V100, large, large) == (0.0, True)


def test_hope_is_the_guess_and_the_error_of_its_model() -> None:
    lm, resnet = Sharer("LM (batch size 20)", MIXED), Sharer("ResNet-18 (batch size 32)", COMPUTE)
    guess = guessed_shared_speed(V100, lm, resnet).value
    assert optimistic_shared_speed(V100, lm, resnet).value == pytest.approx(guess + 0.137)
    guess = by_utilisation(COMPUTE, MIXED)
    unknown = Sharer(None, COMPUTE), Sharer(None, MIXED)
    assert optimistic_shared_speed(V100, *unknown).value == pytest.approx(guess + 0.10)
    easy = Sharer(None, JobClass.LATENCY_SENSITIVE)
    assert optimistic_shared_speed(V100, easy, easy) == (1.0, False)


def test_rank_one_is_as_far_off_as_stated() -> None:
    for device, error in (("K80", 0.043), ("P100", 0.060), ("V100", 0.137)):
        kind = catalogue.get(device)
        speeds = table(device)
        fitted = np.array([[by_rank_one(kind, a, b) for b in MODELS] for a in MODELS], float)
        off = (fitted - speeds)[speeds > 0]
        assert np.sqrt(np.mean(off**2)) == pytest.approx(error, abs=0.001)
    assert by_rank_one(A100, MODELS[0], MODELS[0]) is None
    assert by_rank_one(V100, "nobody's", MODELS[0]) is None


def test_elsewhere_the_busy_shares_decide() -> None:
    assert by_utilisation(JobClass.MEMORY_BOUND, JobClass.LATENCY_SENSITIVE) == 1.0
    assert by_utilisation(COMPUTE, MIXED) == pytest.approx(1 / (1 + 0.435 * (0.99 + 0.68 - 0.917)))
    both = Sharer("LM (batch size 20)", COMPUTE), Sharer("ResNet-18 (batch size 32)", MIXED)
    assert speed_beside(A100, *both) == (by_utilisation(COMPUTE, MIXED), False)
    assert guessed_shared_speed(A100, *both) == (by_utilisation(COMPUTE, MIXED), False)
    assert speed_beside(V100, Sharer(None, COMPUTE), both[1]).measured is False


def test_gain_of_a_cluster() -> None:
    assert cluster_gain(0.0, 1.9) == 1.0
    assert cluster_gain(1.0, 1.9) == pytest.approx(1.9)
    assert cluster_gain(0.37, 1.4075) == pytest.approx(1.12, abs=1e-3)
