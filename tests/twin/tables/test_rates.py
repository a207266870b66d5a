"""The table of speeds: what is measured, what is estimated, and relative to what."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flyball.core.cluster import Cluster, Network, NodeGroup
from flyball.core.errors import UnknownName
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.workload import JobClass, Workload
from flyball.twin.tables.rates import Profiles, cap_table, find_profiles, rate_table

LM = "LM (batch size 20)"
MIXED = Cluster(
    "mixed",
    (NodeGroup("v", 1, "V100", 8), NodeGroup("k", 1, "K80", 8), NodeGroup("a", 1, "A100", 8)),
)


def profiles_of(size: int = 1, **columns: Any) -> Profiles:
    workload = Workload.of(
        "case", [0.0] * size, [10.0] * size, **{"models": (LM,), "kind": 0, **columns}
    )
    return find_profiles(workload)


def rows(profiles: Profiles, cluster: Cluster = MIXED, with_network: bool = True) -> Records:
    return rate_table(profiles, cluster, with_network)


def test_the_reference_runs_at_exactly_one() -> None:
    for kind in JobClass:
        table = rows(profiles_of(kind=int(kind)))
        assert table[0].packed == 1.0
        assert not table[0].estimated
        assert table[2].estimated  # nothing was measured for it on an A100


def test_a_duration_on_its_own_device_is_taken_as_it_is() -> None:
    profiles = profiles_of(device=0, device_names=("K80",), model=0)
    table = rows(profiles)
    assert table[1].packed == 1.0
    assert table[0].packed == pytest.approx(64.74245 / 17.14229)
    # Ten seconds there are fewer on the reference device.
    assert profiles.to_reference[0] == pytest.approx(17.14229 / 64.74245)


def test_measured_where_gavel_measured() -> None:
    table = rows(profiles_of(model=0, devices=2))
    assert [bool(row.estimated) for row in table] == [False, False, True]
    assert table[1].packed == pytest.approx(23.77329 / 132.17413)
    assert table[0].spread == pytest.approx(30.43655 / 132.17413)


def test_without_a_network_nothing_is_lost_by_spreading() -> None:
    profiles = profiles_of(devices=4, kind=int(JobClass.BANDWIDTH_LIMITED))
    apart = rows(profiles)
    assert (apart.spread < apart.packed).all()
    near = rows(profiles, with_network=False)
    assert (near.spread == near.packed).all()
    wide = Cluster("wide", MIXED.groups, network=Network(2000.0, 1200.0))
    assert (rows(profiles, wide).spread == near.packed).all()


def test_jobs_that_run_alike_share_a_profile() -> None:
    profiles = profiles_of(
        5, devices=[1, 2, 1, 1, 1], kind=[0, 0, 0, 1, 0], model=[-1, -1, -1, -1, 0]
    )
    of_job = profiles.of_job
    assert len(profiles.profiles) == 4
    assert of_job[0] == of_job[2]
    assert len(set(of_job.tolist())) == 4
    assert len(rows(profiles)) == 4 * 3


def test_a_job_without_a_class_is_classified() -> None:
    profiles = profiles_of(2, kind=[-1, 4], memory_mib=20 * 1024)
    assert profiles.kinds.tolist() == [JobClass.MEMORY_BOUND, JobClass.MIXED]


def test_unknown_device() -> None:
    with pytest.raises(UnknownName, match="did you mean 'V100'"):
        profiles_of(device=0, device_names=("V10",))


def test_draw_by_class() -> None:
    assert rows(profiles_of())[0].watts == pytest.approx(261.0)
    assert rows(profiles_of(kind=int(JobClass.MEMORY_BOUND)))[0].watts == pytest.approx(
        45 + 255 * 0.26 / 0.85
    )


def test_caps_slow_more_and_draw_less_step_by_step() -> None:
    table = cap_table(MIXED).reshape(3, CAP_LEVELS)
    for row in table:
        assert (row[0].slowdown, row[0].power) == (1.0, 1.0)
        assert all(a.slowdown < b.slowdown for a, b in pairwise(row))
        assert all(a.power > b.power for a, b in pairwise(row))
    assert (table[0][5].slowdown, table[0][5].power) == pytest.approx((1.116, 0.94 * 0.75))
