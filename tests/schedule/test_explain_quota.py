"""Why a job waits with order = fair: limits, quotas, and what cannot be taken back."""

from __future__ import annotations

from tests.schedule.test_fair import FAIR, NAMES, ROUNDS, A, B, fair_twin
from tests.twin.twin_cases import group

from flyball.core.cluster import NodeGroup, Tenant
from flyball.core.codes import Status
from flyball.schedule.explain import Explanation, Names, explain, explain_pending
from flyball.twin.twin import Twin

TWO_EACH = (Tenant("a", 2), Tenant("b", 2))


def why(twin: Twin, job: int, *groups: NodeGroup) -> Explanation:
    ids = [f"j{i}" for i in range(len(twin.state.jobs))]
    names = Names.of(ids, groups or [group(1, 4)], NAMES)
    return explain(twin.state, twin.knobs, job, names)


def test_a_tenant_at_its_limit() -> None:
    jobs = [(0, 50, 1, A), (0, 50, 2, A)]
    twin = fair_twin([group(1, 4)], (Tenant("a", 2, borrow=0),), jobs)
    twin.run(0)
    answer = why(twin, 1)
    assert answer.token == "tenant-limit"
    assert answer.sentence == (
        "Needs 2 GPUs; tenant a uses 1 of its quota of 2 GPUs, and may not borrow more."
    )
    assert answer.remedy == (
        "Wait for jobs of a to end; or let it borrow 1 GPU, or raise its quota by 1: it would "
        "fit now on n0; or ask for 1 GPU: with the same estimate it would start now on n0."
    )
    assert answer.numbers["tenant_used"] == 1.0
    assert answer.numbers["tenant_limit"] == 2.0
    assert answer.numbers["borrow_at_least"] == answer.numbers["devices_at_most"] == 1
    # Both remedies come true.
    for tenants, devices in (((Tenant("a", 2, borrow=1),), 2), ((Tenant("a", 2, borrow=0),), 1)):
        helped = fair_twin([group(1, 4)], tenants, [jobs[0], (0, 50, devices, A)])
        helped.run(0)
        assert helped.state.runs[1].status == Status.RUNNING


def test_a_tenant_that_has_borrowed_all_it_may() -> None:
    twin = fair_twin([group(1, 4)], (Tenant("a", 1, borrow=2),), [(0, 50, 1, A)] * 4)
    twin.run(0)
    answer = why(twin, 3)
    assert answer.sentence == (
        "Needs 1 GPU; tenant a uses 3 GPUs, 2 beyond its quota of 1, and may not borrow "
        "more than 2."
    )
    assert answer.numbers["borrow_at_least"] == 3
    assert "devices_at_most" not in answer.numbers


def test_a_borrower_takes_nothing_back() -> None:
    jobs = [(0.0, 100.0, 1, A)] * 4 + [(5.0, 10.0, 2, B)]
    twin = fair_twin([group(1, 4)], (Tenant("a", 2), Tenant("b", 1)), jobs, ROUNDS)
    twin.run(10_000_000)
    answer = why(twin, 4)
    assert answer.token == "beyond-quota"
    assert answer.sentence == (
        "Needs 2 of the 4 GPUs; none is free; tenant b uses 0 of its quota of 1 GPUs, and "
        "with the 2 of this job it would be beyond it: it may have idle GPUs, but none are "
        "taken back for it."
    )
    assert "give b a quota of 2 or more" in answer.remedy
    jobs = [(0.0, 100.0, 1, B)] * 2 + [(0.0, 100.0, 1, A)] * 2 + [(5.0, 10.0, 1, B)]
    full = fair_twin([group(1, 4)], TWO_EACH, jobs, ROUNDS)
    full.run(10_000_000)
    answer = why(full, 4)
    assert "wait until b uses 1 or less" in answer.remedy
    assert answer.numbers["tenant_used_at_most"] == 1.0


def test_within_the_quota_with_nothing_to_take_back() -> None:
    # Only the V100s have the memory b wants, and a holds them within its quota.
    groups = [NodeGroup("v", 1, "V100", 2), NodeGroup("k", 1, "K80", 2)]
    jobs = [(0, 100, 1, A), (0, 100, 1, A), (1, 100, 1, A), (5, 10, 1, B)]
    memory = [14 * 1024, 14 * 1024, 0, 14 * 1024]
    twin = fair_twin(groups, TWO_EACH, jobs, ROUNDS, memory_mib=memory)
    twin.run(10_000_000)
    answer = why(twin, 3, *groups)
    assert answer.token == "nothing-to-take-back"
    assert "tenant b uses 0 of its quota of 2 GPUs, but no job holds borrowed" in answer.sentence
    assert answer.numbers["borrowed"] == 0


def test_borrowed_devices_that_are_not_enough() -> None:
    # b wants both devices of a node; on each node one is a's within its quota.
    jobs = [(0, 100, 1, A), (0, 1, 1, A), (0, 100, 1, A), (2, 100, 2, A), (5, 10, 2, B)]
    twin = fair_twin([group(2, 2)], TWO_EACH, jobs, ROUNDS)
    twin.run(10_000_000)
    # j0 and j2 are a's own, one on each node; j3 never found a node.
    answer = why(twin, 4, group(2, 2))
    assert answer.token == "nothing-to-take-back"
    assert answer.numbers["free"] == 2
    assert "2 are free, but at most 1 on one node" in answer.sentence


def test_the_next_round_takes_back() -> None:
    jobs = [(0, 100, 1, A)] * 4 + [(5, 10, 1, B)]
    twin = fair_twin([group(1, 4)], TWO_EACH, jobs, ROUNDS)
    twin.run(5_000_000)
    answer = why(twin, 4)
    assert answer.token == "waits-for-round"
    assert answer.numbers["set_aside"] == ["j3"]


def test_room_left_over_goes_to_the_fairest() -> None:
    # a's gang of four gives way to one job of b; two others want the three devices left.
    jobs = [(0, 100, 4, A), (5, 50, 1, B), (6, 10, 2, A), (6, 10, 2, -1)]
    twin = fair_twin([group(1, 4)], (Tenant("a", 0), Tenant("b", 2)), jobs, ROUNDS)
    twin.run(10_000_000)
    assert why(twin, 3).token == "next-decision"
    answer = why(twin, 2)
    assert answer.token == "after-others"
    assert "it is number 3 in the queue, and tenant a uses 0 of its quota of 0" in answer.sentence
    twin.run(20_000_000)
    assert twin.state.runs.status[2:].tolist() == [Status.PENDING, Status.RUNNING]


def test_the_queue_is_explained_in_its_order() -> None:
    # Within the quota first, then the lower level, then the submission.
    jobs = [(0, 100, 4, A), (1, 10, 3, A), (2, 10, 3, B), (3, 10, 1, B), (4, 10, 1, A)]
    twin = fair_twin([group(1, 4)], TWO_EACH, jobs, FAIR)
    twin.run(5_000_000)
    answers = explain_pending(twin.state, twin.knobs)
    assert [answer.job for answer in answers] == [3, 2, 1, 4]
    assert {answer.token for answer in answers} == {"no-free-devices"}
    assert Names().tenant(-1) == "others"
    assert Names().tenant(3) == "#3"
