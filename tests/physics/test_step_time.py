"""Step times: the formula by hand, and the fits against the profiles they were made from."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from functools import cache
from statistics import median

import pytest

from flyball.core.errors import DataAbsent, UnknownName
from flyball.core.shared_data import shared_data
from flyball.physics import catalogue, measured
from flyball.physics.step_time import GOOD_FIT, StepTimes, applications, find, step_time_s

PROFILES = {
    "aws": "T4",
    "rtx": "RTX2080Ti",
    "dgx-ext": "A100-40GB",
    "quad": "RTX6000",
    "azure": "V100-32GB",
}
FITS = [(name, device) for name, app in applications().items() for device in app.fits]
Point = tuple[int, int, float, float]  # nodes, devices, local batch, seconds


def rows_of(name: str) -> list[dict[str, str]]:
    try:
        path = shared_data("sia_pollux", name)
    except DataAbsent as absent:
        pytest.skip(f"the profiles are not on this machine: {absent}")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def profiled() -> dict[tuple[str, str, str], list[Point]]:
    """Measured points by file, application and device type."""
    points: dict[tuple[str, str, str], list[Point]] = defaultdict(list)
    for name in ("placements", "scalability"):
        for row in rows_of(f"{name}.csv.gz"):
            if row["cluster"] not in PROFILES:
                continue
            digits = row.get("placement", "")
            nodes = len(digits) if digits else int(row["num_nodes"])
            devices = sum(map(int, digits)) if digits else int(row["num_replicas"])
            point = nodes, devices, float(row["local_bsz"]), float(row["step_time_s"])
            points[name, row["application"], PROFILES[row["cluster"]]].append(point)
    return points


def errors(application: str, device: str, *files: str) -> list[float]:
    """|fit / measured - 1| of every point that the fit is for."""
    errors_of_fit = []
    for file in files:
        for nodes, devices, local, measured_s in profiled()[file, application, device]:
            fitted_s = step_time_s(application, device, devices, nodes > 1, local)
            if fitted_s is not None:
                errors_of_fit.append(abs(fitted_s / measured_s - 1))
    return errors_of_fit


def test_one_device_takes_its_compute_time_for_every_piece() -> None:
    # 320 samples on a T4 that takes 80 at once: four pieces of 80 x 0.0335 s.
    assert step_time_s("deepspeech2", "T4", 1, False, 320) == pytest.approx(4 * 2.68)
    assert step_time_s("deepspeech2", "T4", 1, False, 81) == pytest.approx(81 * 0.0335)
    assert step_time_s("cifar10", "T4", 1, False, 1024) == pytest.approx(0.0081 + 1024 * 0.000788)


def test_compute_and_exchange_follow_each_other_where_nothing_overlaps() -> None:
    # overlap 1: 0.269 + 12 x 0.0111 to compute, 0.134 + 0.0583 a device above two.
    assert step_time_s("bert", "RTX2080Ti", 2, False, 12) == pytest.approx(0.4022 + 0.134)
    assert step_time_s("bert", "RTX2080Ti", 4, False, 12) == pytest.approx(0.4022 + 0.2506)
    assert step_time_s("bert", "RTX2080Ti", 4, True, 12) == pytest.approx(0.4022 + 0.3828)


def test_only_the_last_piece_waits_for_the_exchange() -> None:
    # Three pieces of 0.9214 s; the fourth with 1.4336 s: (0.84205 + 2.13063)^(1 / 2.1) = 1.6800.
    assert step_time_s("bert", "T4", 8, True, 48) == pytest.approx(2.7642 + 1.6800, rel=1e-4)


def test_what_was_not_measured_has_no_step_time() -> None:
    assert step_time_s("ncf", "T4", 1, False, 32768) == pytest.approx(0.00753 + 0.01507328)
    assert step_time_s("ncf", "T4", 2, False, 256) is None  # one device only
    assert step_time_s("bert", "RTX6000", 2, True, 12) is None  # one node only
    assert step_time_s("imagenet", "V100", 1, False, 20) is None  # fits too poorly
    assert step_time_s("bert", "P100", 1, False, 12) is None
    with pytest.raises(UnknownName, match="did you mean 'bert'"):
        step_time_s("berd", "T4", 1, False, 12)


def test_a_like_type_serves() -> None:
    for name, like in (("A100", "A100-40GB"), ("V100", "V100-32GB")):
        one, other = (step_time_s("bert", device, 4, False, 12) for device in (name, like))
        assert one == other is not None


def test_progress_by_hand() -> None:
    cifar10 = applications()["cifar10"]
    assert cifar10.gain(128) == 1.0
    assert cifar10.gain(256) == pytest.approx(47.4 / 24.2)
    assert cifar10.efficiency(256) == pytest.approx(23.7 / 24.2)
    assert cifar10.steps_to_target(256) == pytest.approx(39062 * 24.2 / 47.4)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("bert (batch size 384)", ("bert", 384)),
        ("BERT:12", ("bert", 12)),
        ("bert", ("bert", 68)),  # the root of 12 x 384
        ("bert:0", None),
        ("elasticflow-bert:64", None),
        ("ResNet-18", None),
        (None, None),
    ],
)
def test_model_names(written: str | None, expected: tuple[str, int] | None) -> None:
    got = find(written)
    assert (got and (got.application.name, got.batch)) == expected


def test_every_type_is_in_the_catalogue_and_every_application_on_the_anchor() -> None:
    for _, device in FITS:
        assert catalogue.get(device).name == device
    assert all(StepTimes.anchor in application.fits for application in applications().values())
    assert not {key.model.lower() for key in measured.models()} & set(applications())


def test_poor_fits_are_few() -> None:
    poor = [pair for pair in FITS if applications()[pair[0]].fits[pair[1]].error > GOOD_FIT]
    assert poor == [("yolov3", "A100-40GB")]


@pytest.mark.parametrize(("application", "device"), FITS)
def test_a_fit_is_as_far_off_as_it_says(application: str, device: str) -> None:
    both = errors(application, device, "placements", "scalability")
    stated = applications()[application].fits[device].error
    assert len(both) >= 20
    assert median(both) == pytest.approx(stated, abs=0.002)
    # On placements alone at most 8 % off, the poor one 25; V100 and one-device fits 15.
    lenient = device == "V100-32GB" or application == "ncf"
    limit = 0.25 if stated > GOOD_FIT else 0.15 if lenient else 0.085
    assert median(errors(application, device, "placements")) <= limit


@pytest.mark.parametrize(("application", "device"), FITS)
def test_figures_of_range_are_those_of_the_profiles(application: str, device: str) -> None:
    fit = applications()[application].fits[device]
    points = [
        point
        for file in ("placements", "scalability")
        for point in profiled()[file, application, device]
    ]
    assert max(local for _, _, local, _ in points) == fit.largest
    assert fit.most_devices == (max(devices for _, devices, _, _ in points))


def test_steps_to_the_target_are_those_of_real_trainings() -> None:
    last: dict[tuple[str, int], int] = {}
    for row in rows_of("validation.csv.gz"):
        last[row["application"], int(row["batch_size"])] = int(row["iteration"])
    for name, application in applications().items():
        batches = sorted(batch for application, batch in last if application == name)
        assert (batches[0], batches[-1]) == (application.first_batch, application.largest_batch)
        assert last[name, batches[0]] == application.steps
        for batch in batches:
            assert application.steps_to_target(batch) == pytest.approx(last[name, batch], rel=0.03)


def test_elasticflow_measured_much_the_same_on_t4s() -> None:
    # Another project's measurements of the same applications, four GPUs to a node.
    off = []
    for (name, batch), iterations in measured.elasticflow().items():
        if iterations.device != "T4":
            continue
        for count, per_s in iterations.per_s.items():
            ours_s = step_time_s(name, "T4", count, count > 4, batch / count)
            if ours_s is not None:
                off.append(abs(ours_s * per_s - 1))
    assert len(off) == 54
    assert median(off) < 0.05
    assert max(off) < 0.35


def test_the_elasticflow_table() -> None:
    table = measured.elasticflow()
    assert sum(len(iterations.per_s) for iterations in table.values()) == 178
    assert table["vgg16", 256].device == "A100-40GB"
    assert table["vgg16", 256].per_s[1] == 1.313656
    assert all(
        math.isfinite(per_s) for iterations in table.values() for per_s in iterations.per_s.values()
    )
