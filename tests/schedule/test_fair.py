"""Order = fair on small clusters, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.twin.twin_cases import ends, group, starts

from flyball.core.accounts import NO_LIMIT_MILLI, own_rows
from flyball.core.cluster import Cluster, NodeGroup, Tenant
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt
from flyball.core.workload import Workload
from flyball.schedule.explain import reason_text, reason_token
from flyball.twin.twin import Twin

FREE = Effects(restart_s=(0.0, 0.0, 0.0))
FAIR = Knobs(order=Order.FAIR)
ROUNDS = Knobs(order=Order.FAIR, preempt=Preempt.ROUNDS, round_s=10.0)
A, B = 0, 1
NAMES = ("a", "b")


def fair_twin(
    groups: list[NodeGroup],
    tenants: tuple[Tenant, ...],
    jobs: Sequence[tuple[float, float, int, int]],
    knobs: Knobs = FAIR,
    **columns: Any,
) -> Twin:
    """Jobs are (submission, duration, devices, tenant)."""
    submit, duration, devices, tenant = zip(*jobs, strict=True)
    workload = Workload.of(
        "case", submit, duration, devices, tenant=tenant, tenants=NAMES, kind=0, **columns
    )
    return Twin(Cluster("case", tuple(groups), tenants=tenants), workload, knobs, FREE)


def used(twin: Twin) -> list[int]:
    return own_rows(twin.state.tenants, len(twin.state.pools)).used_milli.tolist()  # type: ignore[no-any-return]


def tokens(twin: Twin) -> list[str]:
    return [reason_token(action) for action in twin.state.plan[: twin.state.clock[0].actions]]


# Order --------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_the_tenant_with_the_lowest_level_is_next() -> None:
    # Three devices. Levels go 0/0, 1/3 / 0, 1/3 / 1/3: a tie, and the first submitted goes.
    jobs = [(0, 100, 1, A)] * 3 + [(0, 100, 1, B)] * 3
    quotas = (Tenant("a", 1), Tenant("b", 1))
    twin = fair_twin([group(1, 3)], quotas, jobs)
    twin.run(0)
    assert np.flatnonzero(twin.state.runs.status == Status.RUNNING).tolist() == [0, 1, 3]
    assert tokens(twin) == ["in-order", "in-order", "borrowed"]
    # With twice the weight b is at 1/6 when it has one, and gets the third as well.
    heavy = (Tenant("a", 1), Tenant("b", 1, weight=2.0))
    twin = fair_twin([group(1, 3)], heavy, jobs)
    twin.run(0)
    assert np.flatnonzero(twin.state.runs.status == Status.RUNNING).tolist() == [0, 3, 4]


@pytest.mark.nojit
def test_within_the_quota_comes_before_borrowing_whatever_the_level() -> None:
    # a has had the cluster for a while, b nothing; but a's job is within its quota.
    quotas = (Tenant("a", 3), Tenant("b", 0))
    jobs = [(0, 50, 2, A), (0, 50, 1, A), (10, 100, 3, B), (20, 100, 3, A)]
    twin = fair_twin([group(1, 3)], quotas, jobs)
    twin.run()
    assert starts(twin) == [0, 0, 150, 50]


@pytest.mark.nojit
def test_usage_decays_by_its_half_life() -> None:
    # Half the pool for 100 s with a half-life of 100 s: a quarter; 100 s later an eighth.
    knobs = replace(FAIR, half_life_s=100.0)
    jobs = [(0, 100, 2, A), (200, 100, 2, A), (200, 10, 4, B)]
    twin = fair_twin([group(1, 4)], (Tenant("a", 2), Tenant("b", 2)), jobs, knobs)
    twin.run(100_000_000)
    account = own_rows(twin.state.tenants, 1)[A]
    assert account.usage == pytest.approx(0.25)
    assert (account.share, account.since_us) == (0.0, 100_000_000)
    twin.run(200_000_000)
    # a's job is within its quota and goes first; b's gang of 4 borrows and waits.
    assert account.usage == pytest.approx(0.125)
    assert account.share == 0.5
    assert account.usage == 0.25 * math.exp(-100e6 * (math.log(2) / 100e6))


@pytest.mark.nojit
def test_the_dominant_share_is_that_of_the_scarcer_pool() -> None:
    # One device of each of two pools: a quarter of one, half of the other.
    groups = [NodeGroup("v", 1, "V100", 4), NodeGroup("k", 1, "K80", 2)]
    jobs = [(0, 100, 4, A), (0, 100, 1, A), (0, 100, 1, B)]
    twin = fair_twin(groups, (Tenant("a", 6),), jobs, replace(FAIR, place=Place.PACK))
    twin.run(0)
    accounts = own_rows(twin.state.tenants, 2)
    assert accounts.share.tolist() == [1.0, 0.5, 0.0]
    assert twin.state.tenants.used_milli.tolist() == [5000, 4000, 1000, 1000, 0, 1000, 0, 0, 0]


# Quotas, borrowing, reclaim ------------------------------------------------------------------


@pytest.mark.nojit
def test_borrowed_devices_come_back_from_the_job_started_last() -> None:
    # a fills four devices, two of them borrowed; b wants two at 5 s and gets them at the round.
    quotas = (Tenant("a", 2), Tenant("b", 2))
    jobs = [(0, 100, 1, A)] * 4 + [(5, 10, 1, B)] * 2
    twin = fair_twin([group(1, 4)], quotas, jobs, ROUNDS)
    twin.run(0)
    assert used(twin) == [4000, 0, 0]
    assert tokens(twin) == ["in-order", "in-order", "borrowed", "borrowed"]
    twin.run(10_000_000)
    assert used(twin) == [2000, 2000, 0]
    assert tokens(twin) == ["gave-back", "reclaimed"] * 2
    plan = twin.state.plan
    assert [int(action.job) for action in plan[:4]] == [3, 4, 2, 5]
    assert reason_text(plan[0]) == (
        "#3 ran on borrowed devices: its tenant used 2 more than its quota."
    )
    assert reason_text(plan[1]) == (
        "#4 is within its tenant's quota and took back devices that others borrowed."
    )
    twin.run()
    assert ends(twin) == [100, 100, 110, 110, 20, 20]


@pytest.mark.nojit
def test_a_job_that_started_within_the_quota_stays() -> None:
    # a's gang of 2 starts within the quota, then a single one borrows. b's gang would need the
    # first's devices and does not get them: it waits for the borrower's alone, in vain.
    quotas = (Tenant("a", 2), Tenant("b", 2))
    jobs = [(0, 100, 2, A), (1, 100, 1, A), (5, 10, 2, B)]
    twin = fair_twin([group(2, 2)], quotas, jobs, ROUNDS)
    twin.run(10_000_000)
    assert tokens(twin) == ["gave-back", "reclaimed"]
    assert twin.state.runs.preemptions.tolist() == [0, 1, 0]
    three = fair_twin([group(1, 3)], quotas[:1], [(0, 100, 2, A), (1, 100, 1, A), (5, 10, 1, B)])
    three.set_knobs(ROUNDS)
    three.run()
    assert three.state.runs.preemptions.sum() == 0  # b has no quota here


@pytest.mark.nojit
def test_a_large_gang_clears_whole_nodes() -> None:
    quotas = (Tenant("a", 2), Tenant("b", 4))
    jobs = [(0, 100, 1, A)] * 6 + [(5, 10, 4, B)]
    twin = fair_twin([group(3, 2)], quotas, jobs, ROUNDS)
    twin.run(10_000_000)
    # The last four starts are borrowed; they hold nodes 1 and 2.
    assert twin.state.runs.preemptions.tolist() == [0, 0, 1, 1, 1, 1, 0]
    assert twin.state.runs[6].nodes == 2


@pytest.mark.nojit
def test_no_job_is_preempted_in_vain_or_for_a_borrower() -> None:
    quotas = (Tenant("a", 2), Tenant("b", 1))
    jobs = [(0, 100, 1, A)] * 4 + [(5, 10, 2, B)]
    twin = fair_twin([group(1, 4)], quotas, jobs, ROUNDS)
    twin.run()
    assert twin.state.runs.preemptions.sum() == 0
    assert starts(twin)[4] == 100


@pytest.mark.nojit
def test_a_limit_holds_even_if_devices_idle() -> None:
    quotas = (Tenant("a", 1, borrow=1),)
    twin = fair_twin([group(1, 4)], quotas, [(0, 50, 1, A)] * 3)
    twin.run()
    assert starts(twin) == [0, 0, 50]


@pytest.mark.nojit
def test_fractions_count_by_their_share() -> None:
    quotas = (Tenant("a", 1, borrow=0),)
    twin = fair_twin([group(1, 2)], quotas, [(0, 50, 1, A)] * 5, milli=[400, 400, 400, 200, 100])
    twin.run()
    assert starts(twin) == [0, 0, 50, 0, 50]


@pytest.mark.nojit
def test_running_jobs_are_counted_when_fairness_is_turned_on() -> None:
    quotas = (Tenant("a", 1), Tenant("b", 3))
    jobs = [(0, 100, 1, A)] * 4 + [(5, 10, 1, B)]
    twin = fair_twin([group(1, 4)], quotas, jobs, Knobs())
    twin.run(5_000_000)
    assert len(twin.state.shapes) == 1
    assert used(twin) == [0, 0, 0]
    twin.set_knobs(ROUNDS)
    assert used(twin) == [4000, 0, 0]
    assert len(twin.state.shapes) == 2
    twin.run(10_000_000)
    assert twin.state.runs.preemptions.tolist() == [0, 0, 0, 1, 0]


# What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"backfill": Backfill.EASY}, {"backfill": Backfill.STRICT}, {"place": Place.HOLD}]
)
def test_fair_goes_with_skip_only(change: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"order=fair does not go with"):
        Knobs(order=Order.FAIR, **change)


def test_a_second_threshold_is_above_the_first() -> None:
    with pytest.raises(BadInput, match=r"attained2_s = 10 is not above attained_s = 3600"):
        Knobs(attained2_s=10.0)


def test_a_job_beyond_its_tenants_limit() -> None:
    quotas = (Tenant("a", 1, borrow=1),)
    jobs = [(0.0, 50.0, 1, A), (0.0, 50.0, 3, A), (0.0, 50.0, 3, B)]
    why = r"case: job j1 asks for 3 GPUs and tenant a may use 2 at most; raise its quota"
    with pytest.raises(BadInput, match=why):
        fair_twin([group(1, 4)], quotas, jobs)
    plain = fair_twin([group(1, 4)], quotas, jobs, Knobs())  # other orders ignore quotas
    with pytest.raises(BadInput, match=r"job #1 asks for 3 devices and tenant #0 may use 2"):
        plain.set_knobs(FAIR)


# What tenants get ----------------------------------------------------------------------------


def test_equal_quotas_if_none_are_listed() -> None:
    # Jobs belong to a, to b and to no tenant. 4 devices: 1,333 thousandths each.
    jobs = [(0.0, 50.0, 1, A), (0.0, 50.0, 1, B), (0.0, 50.0, 1, -1)]
    accounts = own_rows(fair_twin([group(1, 4)], (), jobs).state.tenants, 1)
    assert accounts.quota_milli.tolist() == [1333] * 3
    assert accounts.limit_milli.tolist() == [NO_LIMIT_MILLI] * 3
    two = own_rows(fair_twin([group(1, 4)], (), jobs[:2]).state.tenants, 1)
    assert two.quota_milli.tolist() == [2000, 2000, 0]


def test_listed_quotas_go_by_name() -> None:
    jobs = [(0.0, 50.0, 1, A), (0.0, 50.0, 1, B)]
    listed = (Tenant("b", 2, 1, 3.0), Tenant("elsewhere", 1), Tenant("others", 1, 0))
    accounts = own_rows(fair_twin([group(1, 4)], listed, jobs).state.tenants, 1)
    assert accounts.quota_milli.tolist() == [0, 2000, 1000]
    assert accounts.limit_milli.tolist() == [NO_LIMIT_MILLI, 3000, 1000]
    assert accounts.weight.tolist() == [1.0, 3.0, 1.0]


def test_quotas_beyond_the_cluster() -> None:
    with pytest.raises(BadInput, match=r"quotas sum to 5 GPUs and the cluster has 4"):
        fair_twin([group(1, 4)], (Tenant("a", 2), Tenant("b", 3)), [(0.0, 50.0, 1, A)])
