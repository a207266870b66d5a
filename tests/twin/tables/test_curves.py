"""Curves of elastic jobs: the table of rates at their own size, and their ranges."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import BadInput
from flyball.core.workload import Workload
from flyball.physics.step_time import step_time_s
from flyball.twin.tables.curves import Curves, curve_tables, default_range
from flyball.twin.tables.rates import find_profiles, rate_table

MIXED = Cluster(
    "mixed",
    (
        NodeGroup("t4", 6, "T4", 4),
        NodeGroup("rtx", 3, "RTX2080Ti", 8),
        NodeGroup("a100", 2, "A100-40GB", 8),
    ),
)
MODELS = ("cifar10:2048", "bert:384", "yolov3:64", "ResNet-18:32")


def workload(devices: list[int], model: list[int], least: int = 1, most: int = -1) -> Workload:
    return Workload.of(
        "w", np.zeros(len(devices)), 100.0, devices, model=model, models=MODELS, device=0,
        device_names=("T4",), kind=0, least=least, most=most,
    )  # fmt: skip


def tables(jobs: Workload, adaptive: bool = False, with_network: bool = True) -> Curves:
    return curve_tables(find_profiles(jobs), MIXED, jobs.least, jobs.most, adaptive, with_network)


@pytest.mark.parametrize("with_network", [True, False])
def test_at_its_own_size_a_curve_is_the_table_of_rates(with_network: bool) -> None:
    jobs = workload([8, 6, 12, 1, 16, 3], [0, 0, 1, 1, 2, 2])
    curves = tables(jobs, with_network=with_network)
    profiles = find_profiles(jobs)
    rates = rate_table(profiles, MIXED, with_network)
    for job, curve in enumerate(curves.of_job):
        span = curves.ranges[curve]
        own = int(span.first) + (int(jobs.devices[job]) - int(span.least)) * 3
        row = int(profiles.of_job[job]) * 3
        for pool in range(3):
            assert curves.points[own + pool].packed == rates[row + pool].packed
            assert curves.points[own + pool].spread == rates[row + pool].spread


def test_other_sizes_follow_the_step_time() -> None:
    jobs = workload([8], [0])
    curves = tables(jobs)
    assert (curves.ranges.least[0], curves.ranges.most[0]) == (1, 16)
    points = curves.points.packed.reshape(16, 3)
    eight_s = step_time_s("cifar10", "T4", 8, True, 256)
    two_s = step_time_s("cifar10", "T4", 2, False, 1024)
    assert eight_s is not None and two_s is not None
    assert points[1, 0] == pytest.approx(eight_s / two_s, rel=1e-12)
    spread = curves.points.spread.reshape(16, 3)
    assert (spread[1:4, 0] < points[1:4, 0]).all(), "on one node it is faster"
    assert (spread[4:, 0] == points[4:, 0]).all(), "on several nodes anyway"
    assert (tables(jobs, with_network=False).points.spread.reshape(16, 3) == points).all()


def test_an_adaptive_batch_lifts_the_curve() -> None:
    jobs = workload([12, 12], [0, 1])
    fixed, adaptive = tables(jobs).points.packed, tables(jobs, adaptive=True).points.packed
    assert (adaptive >= fixed * (1 - 1e-12)).all()
    assert (adaptive > 1.05 * fixed).any()


def test_jobs_alike_share_a_curve() -> None:
    jobs = workload([8, 8, 4, 8], [0, 0, 0, 1])
    assert tables(jobs).of_job.tolist() == [1, 1, 0, 2]


def test_what_is_not_known_elsewhere_is_rigid() -> None:
    jobs = workload([2, 4, 8], [3, 0, 0])
    jobs.most[2] = 0
    curves = tables(jobs)
    assert curves.of_job.tolist() == [-1, 0, -1]
    rigid_only = workload([2], [3])
    assert len(tables(rigid_only).ranges) == len(tables(rigid_only).points) == 0


def test_a_stated_range_holds_and_pools_bound_it() -> None:
    jobs = workload([8], [0], least=4, most=32)
    curves = tables(jobs)
    assert (curves.ranges.least[0], curves.ranges.most[0]) == (4, 32)
    points = curves.points.packed.reshape(29, 3)
    assert (points[24 - 4] > 0).tolist() == [True, True, False], "sixteen A100 at most"
    assert not points[25 - 4 :].any(), "no pool has more than 24"


@pytest.mark.parametrize(("least", "most"), [(9, 16), (1, 7), (0, 8), (1, 65)])
def test_a_range_without_the_job_itself_is_refused(least: int, most: int) -> None:
    with pytest.raises(BadInput, match="8 devices"):
        tables(workload([8], [0], least=least, most=most))


def test_the_default_range() -> None:
    assert default_range(1, MIXED) == (1, 4)
    assert default_range(3, MIXED) == (1, 12)
    assert default_range(12, MIXED) == (1, 16)
    assert default_range(20, MIXED) == (1, 20)
    small = Cluster("small", (NodeGroup("a", 1, "T4", 4),))
    assert default_range(2, small) == (1, 4)
