"""place = fgd and random: worked by hand on the plain twin, and the compiled one agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.property.record import summary, twin_of
from tests.twin.reference.cases import job, places, pool
from tests.twin.reference.cases import run as run_plain
from tests.twin.strategies import Problem, problems

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.knobs import Knobs, Place, Preempt
from flyball.core.state import STALE
from flyball.core.workload import Mix, Workload
from flyball.twin.reference.fragmentation import draw, fragments, level
from flyball.twin.reference.run import Reference
from flyball.twin.tables.usual import EVERYWHERE
from flyball.twin.twin import Twin

FGD = Knobs(place=Place.FGD)
RANDOM = Knobs(place=Place.RANDOM)
HALF = {"count": 2, "devices": 1, "milli": 500, "cpu_milli": 1000}
PAIR = {"count": 1, "devices": 2, "milli": 1000}
KINDS = [HALF, PAIR]


def plain(jobs: list[dict[str, Any]], **rest: Any) -> Reference:
    """One node of two devices and 4 cores, at the first instant; the usual jobs are `KINDS`."""
    node = pool(1, 2, cpu_milli=4000, host_mib=1000)
    return run_plain([node], jobs, until_s=0, knobs={"place": Place.FGD}, usual=KINDS, **rest)


# Fragmentation ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "lost"),
    [
        ([job(9, 1)], 0),  # empty: both kinds can use everything
        # 500 of one device is taken: no pair fits, so all 1500 are lost to it.
        ([job(0, 9, milli=500)], 1500),
        # 700 of one: a half fits on the other, and 300 are lost to each of the two halves.
        ([job(0, 9, milli=700)], 2 * 300 + 1300),
        # One whole and 700 of the other: 300 are left, which no kind can use.
        ([job(0, 9), job(0, 9, milli=700)], 2 * 300 + 300),
        ([job(0, 9, 2)], 0),  # nothing is free
        # Half a core is left: halves cannot run, pairs (which ask for no cores) can.
        ([job(0, 9, 0, cpu_milli=3500)], 2 * 2000),
    ],
)
def test_fragments_are_what_no_usual_job_can_use(jobs: list[dict[str, Any]], lost: int) -> None:
    twin = plain(jobs)
    assert fragments(twin.cluster, twin.nodes[0]) == lost


@pytest.mark.parametrize(
    ("added", "expected"),
    # 100 / (1 + e^x) at x = 0, -1, 1, 5 and -5 devices: 50, 73.1, 26.9, 0.67 and 99.3.
    [(0, 49), (-3000, 26), (3000, 73), (15_000, 99), (-15_000, 0), (10**9, 99), (-(10**9), 0)],
)
def test_levels_are_hundredths_of_a_logistic_curve(added: int, expected: int) -> None:
    assert level(plain([job(0, 1)]).cluster, added) == expected  # three usual jobs


def compiled(
    groups: list[NodeGroup], devices: list[int], kinds: Sequence[tuple[int, ...]], **columns: Any
) -> Twin:
    """Jobs one after the other that never end; kinds are (n, milli, cpu_milli, host_mib, count)."""
    size = len(devices)
    workload = Workload.of("case", np.arange(size), np.full(size, 1e6), devices, **columns)
    mix = Mix(*(np.array(column, np.int64) for column in zip(*kinds, strict=True)))
    knobs = columns.pop("knobs", FGD)
    twin = Twin(Cluster("case", tuple(groups)), replace(workload, mix=mix), knobs)
    check = Reference(twin.state, knobs)
    twin.run(size * 1_000_000)
    check.run(size * 1_000_000)
    assert [job.pool for job in check.jobs] == twin.state.runs.pool.tolist()
    return twin


@pytest.mark.nojit
def test_a_job_goes_where_devices_are_lost_anyway() -> None:
    # Usual jobs want 8 cores. They cannot use the node with 2 cores: a job that asks for one
    # core uses it up, where best-fit would take the first pool.
    groups = [NodeGroup("a", 1, "V100", 2, cpus=16), NodeGroup("b", 1, "V100", 2, cpus=2)]
    kinds = [(1, 1000, 8000, 0, 10)]
    twin = compiled(groups, [1, 1, 1], kinds, cpu_milli=1000)
    assert twin.state.runs.pool.tolist() == [1, 1, 0]


@pytest.mark.nojit
def test_ties_go_to_the_fullest_node() -> None:
    # No kind asks for less than the whole cluster: every level is the same.
    kinds = [(8, 1000, 0, 0, 1)]
    groups = [NodeGroup("a", 1, "V100", 4), NodeGroup("b", 1, "V100", 2)]
    assert compiled(groups, [1, 1, 1], kinds).state.runs.pool.tolist() == [1, 1, 0]
    # As much is free on both: the one with fewer cores free.
    groups = [NodeGroup("a", 1, "V100", 2, cpus=8), NodeGroup("b", 1, "V100", 2, cpus=4)]
    assert compiled(groups, [1, 1, 1], kinds).state.runs.pool.tolist() == [1, 1, 0]


def test_a_fraction_goes_to_the_device_that_loses_least() -> None:
    # 300 is free of device 0 and 500 of device 1; usual jobs want 300. A job of 200 would leave 100
    # on the first, unusable, or 300 on the second. Best-fit takes the first.
    jobs = [job(0, 9, milli=700), job(0, 9, milli=500), job(0, 9, milli=200)]
    usual = [{"count": 1, "devices": 1, "milli": 300}]
    for place, mask in ((Place.FGD, 0b10), (Place.BEST_FIT, 0b01)):
        twin = run_plain([pool(1, 2)], jobs, until_s=0, knobs={"place": place}, usual=usual)
        assert places(twin) == {0: [(0, 0b01)], 1: [(0, 0b10)], 2: [(0, mask)]}


@pytest.mark.nojit
def test_gangs_over_several_nodes_count_by_all_they_add() -> None:
    # Usual jobs are pairs with 8 cores. They cannot use the two nodes of 2 cores.
    groups = [NodeGroup("a", 2, "V100", 2, cpus=16), NodeGroup("b", 2, "V100", 2, cpus=2)]
    twin = compiled(groups, [4, 3], [(2, 1000, 8000, 0, 10)])
    assert twin.state.runs.pool.tolist() == [1, 0]


# The usual jobs --------------------------------------------------------------


def kinds_of(workload: Workload, groups: list[NodeGroup] | None = None) -> list[tuple[int, ...]]:
    state = Twin(Cluster("c", tuple(groups or [NodeGroup("a", 2, "V100", 8)])), workload, FGD).state
    names = ("devices", "milli", "cpu_milli", "host_mib", "pools", "count", "covered")
    return [tuple(int(row[name]) for name in names) for row in state.usual]


def test_popular_kinds_are_kept_until_they_cover_the_jobs() -> None:
    # 15 of 20 are single devices, 4 are halves; with these 95 % are covered and the last is not.
    devices = [1] * 19 + [8]
    milli = [1000] * 15 + [500] * 4 + [1000]
    workload = Workload.of("w", np.zeros(20), np.ones(20), devices, milli=milli)
    assert kinds_of(workload) == [(1, 500, 0, 0, 1, 4, 4), (1, 1000, 0, 0, 1, 15, 19)]


def test_kinds_know_demands_and_pools_but_not_jobs_without_devices() -> None:
    workload = Workload.of(
        "w", np.zeros(3), np.ones(3), [1, 0, 1], cpu_milli=[500, 500, 0],
        memory_mib=[0, 0, 20 * 1024], host_mib=[0, 7, 9],
    )  # fmt: skip
    groups = [NodeGroup("a", 1, "V100", 2), NodeGroup("b", 1, "A100", 2)]
    assert kinds_of(workload, groups) == [
        (1, 1000, 0, 9, 0b10, 1, 1),
        (1, 1000, 500, 0, 0b11, 1, 2),
    ]


def test_a_stated_mix_replaces_the_workloads_own() -> None:
    own = Workload.of("own", [0], [1], 1)
    other = Workload.of("other", np.zeros(3), np.ones(3), [2, 2, 4], cpu_milli=[1, 1, 2])
    kinds = kinds_of(replace(own, mix=Mix.of(other)))
    everywhere = int(EVERYWHERE)
    assert kinds == [(2, 1000, 1, 0, everywhere, 2, 2), (4, 1000, 2, 0, everywhere, 1, 3)]


def test_a_workload_without_devices_has_no_usual_jobs() -> None:
    workload = Workload.of("w", [0, 1], [5, 5], 0, cpu_milli=1000)
    assert kinds_of(workload) == []
    twin = Twin(Cluster("c", (NodeGroup("a", 2, "V100", 2),)), workload, FGD)
    twin.run()
    assert twin.finished


# What is remembered ----------------------------------------------------------

QUIET: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture,
    ],
}  # fmt: skip


@settings(max_examples=40, **QUIET)
@given(problems())
def test_what_is_remembered_of_a_node_is_true(problem: Problem) -> None:
    knobs = replace(problem.knobs, place=Place.FGD)
    twin = twin_of(replace(problem, knobs=knobs))
    plain = Reference(twin.state, knobs)
    full_run = twin.clone()
    full_run.run()
    twin.run(full_run.now_us // 2)
    plain.run(full_run.now_us // 2)
    for node, cached in zip(plain.nodes, twin.state.scores[-1].tolist(), strict=True):
        assert cached in (STALE, fragments(plain.cluster, node))


@settings(max_examples=30, **QUIET)
@given(problems())
def test_copies_do_not_trust_what_others_remember(tmp_path: Path, problem: Problem) -> None:
    knobs = replace(problem.knobs, place=Place.FGD)
    full_run = twin_of(replace(problem, knobs=knobs))
    early, other = full_run.clone(), full_run.clone()
    full_run.run()
    early.run(full_run.now_us // 3)
    other.run(2 * full_run.now_us // 3)
    path = tmp_path / "twin.npz"
    early.dump(path)
    for copy in (early.clone(), early.clone(other), Twin.load(path)):
        copy.run()
        assert summary(copy.state) == summary(full_run.state)


def test_a_rule_can_be_set_on_the_way() -> None:
    cluster = Cluster("c", (NodeGroup("a", 3, "V100", 2, cpus=8),))
    workload = Workload.of("w", np.arange(9), np.full(9, 4.0), 1, milli=300, cpu_milli=2000)
    twin = Twin(cluster, workload, Knobs())
    assert twin.state.scores.size == 0
    twin.run(2_000_000)
    twin.set_knobs(FGD)
    assert twin.state.scores.shape == (2, 3)  # a shape, and the nodes' own row
    twin.run()
    assert twin.finished


# Random ----------------------------------------------------------------------


def test_draws_are_these() -> None:
    # Worked out by the page's formula: the twin must never change them.
    twin = plain([job(0, 1)])
    twin.cluster.starts = 7
    assert [draw(twin.cluster, node) for node in range(3)] == [4146382981, 1539725188, 4028135320]
    assert draw(twin.cluster, 1, 0) == 3581263885


@pytest.mark.nojit
def test_random_is_the_same_in_every_run_and_spreads_evenly() -> None:
    size = 400
    workload = Workload.of("w", np.arange(size), np.full(size, 1e6), 1)
    cluster = Cluster("c", (NodeGroup("a", 30, "V100", 8), NodeGroup("b", 30, "T4", 8)))
    free = []
    for _ in range(2):
        twin = Twin(cluster, workload, RANDOM)
        twin.run(size * 1_000_000)
        free.append(twin.state.nodes.free.tolist())
    assert free[0] == free[1]
    # 400 starts on 60 nodes of 8: 6.7 a node; both halves alike within three deviations.
    used = 8 - np.array(free[0])
    assert used.sum() == size
    assert abs(used[:30].sum() - 200) < 30
    assert 1 <= used.min() <= 4
    assert used.max() == 8


@pytest.mark.nojit
def test_random_draws_devices_for_fractions() -> None:
    workload = Workload.of("w", np.arange(60), np.full(60, 1e6), 1, milli=100)
    twin = Twin(Cluster("c", (NodeGroup("a", 1, "V100", 8),)), workload, RANDOM)
    twin.run(60_000_000)
    used = Counter(int(row.mask) for row in twin.state.rows[:60])
    assert len(used) == 8  # best-fit would fill six devices
    assert max(used.values()) <= 10


def test_rules_combine_with_rounds_but_hold_does_not() -> None:
    for place in (Place.FGD, Place.RANDOM):
        assert Knobs(place=place, preempt=Preempt.ROUNDS).place == place
    assert Knobs().with_settings(["place=fgd"]).place == Place.FGD
    assert Knobs().with_settings(["place=random"]).as_dict()["place"] == "random"
