"""The elastic tuner: types, sizes, stickiness, fairness, and a large cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.tune.plan_drafts import MIXED, NO_PLAN, EmptyPlan, jobs, lines, twin

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.effects import Effects
from flyball.core.forecast import NO_OUTLOOK, Forecast, Outlook
from flyball.core.workload import Workload
from flyball.tune.elastic import Elastic
from flyball.tune.plan_draft import PlanDraft
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

ELASTIC = Elastic(completion=0.0, gap_s=600.0, stretch=0.0)
"""Work counts alone: then equal jobs share, while for completion one comes after the other."""


def tuned(workload: Workload, until_s: float = 61.0, cluster: Cluster = MIXED, **more: Any) -> Twin:
    """A twin that ran with rounds of a minute, or of five if it ran for long."""
    every_s = 60.0 if until_s <= 1000.0 else 300.0
    tuning = Tuning((more.pop("tuner", ELASTIC),), EmptyPlan(), every_s, False)
    return twin(workload, cluster, until_s, tuning=tuning, **more)


def held(tuned_twin: Twin) -> list[tuple[int, int]]:
    """(pool, devices) of every job, (-1, 0) = none."""
    draft = PlanDraft(tuned_twin.state, NO_PLAN)
    return list(zip(draft.pool.tolist(), draft.count.tolist(), strict=True))


def test_each_gets_the_type_it_is_best_at() -> None:
    # bert is eleven times as fast on an A100 as on a T4, deepspeech2 twice.
    tuned_twin = tuned(jobs([8] * 6 + [4] * 6, model=[1] * 6 + [2] * 6))
    where = held(tuned_twin)
    assert all(pool == 1 for pool, _ in where[:6])
    assert sum(pool == 0 for pool, _ in where[6:]) >= 5


def test_alone_it_grows_and_with_others_it_shrinks() -> None:
    alone = held(tuned(jobs([4], model=0)))
    assert alone[0][1] > 1
    many = held(tuned(jobs([4] * 40, model=0)))
    assert sum(count for _, count in many) == 20 and max(count for _, count in many) <= 2


def test_a_running_job_shrinks_for_others_but_not_at_once() -> None:
    crowd = jobs([4] * 31, model=0)
    crowd.submit_us[1:] = 300_000_000
    start, before, after = (held(tuned(crowd, until))[0] for until in (200.0, 550.0, 2000.0))
    assert start == before, "within the gap it stays"
    assert after[1] < start[1]


def test_changes_carry_reason_and_gain_and_are_bounded() -> None:
    seen: list[Any] = []
    crowd = jobs([4] * 24)
    tuning = Tuning((ELASTIC,), EmptyPlan(), 300.0, False, note=lambda _, plan: seen.extend(plan))
    tuned_twin = twin(crowd, until_s=20_000.0, tuning=tuning)
    starts = [row for row in seen if row.kind == ActionKind.START]
    assert starts and all(row.gain >= 0.0 for row in starts)
    assert all(row.gain > 0.0 for row in starts if row.reason == Reason.SIZED)
    assert {int(row.reason) for row in starts} >= {Reason.SIZED}
    # The gap grows: n changes of a job take at least 600 (1 + 2 + ... + n) seconds.
    changes = int(tuned_twin.state.runs.preemptions.max())
    assert 600 * changes * (changes + 1) / 2 <= 20_000


def test_rigid_jobs_keep_their_size() -> None:
    tuned_twin = tuned(jobs([4, 2, 6], most=0))
    assert [count for _, count in held(tuned_twin)] == [4, 2, 6]


def test_a_change_that_does_not_pay_is_not_made() -> None:
    tuned_twin = tuned(jobs([4, 4], model=0), until_s=2000.0)
    plan = ELASTIC.adjust(tuned_twin.state, NO_OUTLOOK, NO_PLAN)
    assert len(plan) == 0, "it settled"
    tuned_twin.state.jobs.restart_us[:] = 10**12
    more = jobs([4] * 30, model=0)
    crowded = tuned(more, until_s=2000.0)
    crowded.state.jobs.restart_us[:] = 10**12
    costly = ELASTIC.adjust(crowded.state, NO_OUTLOOK, NO_PLAN)
    assert "PREEMPT" not in {kind for kind, *_ in lines(costly)}


def test_a_job_that_waited_long_gets_its_turn() -> None:
    # A rigid gang of all A100s never fits while small elastic jobs hold them.
    small, gang = [1] * 12, [8]
    workload = jobs(small + gang, model=1, most=np.array([-1] * 12 + [0]))
    workload.duration_us[:] *= 50
    workload.submit_us[12] = 600_000_000
    cluster = Cluster("a", (NodeGroup("a100", 1, "A100-40GB", 8),))
    costly = Effects(restart_s=(3600.0, 3600.0, 3600.0))
    patient, impatient = (
        tuned(
            workload, 3 * 3600.0, cluster, tuner=Elastic(patience_s=hours * 3600.0), effects=costly
        ).state.runs
        for hours in (4, 1)
    )
    assert patient.status[12] == Status.PENDING and patient.first_start_us[12] == -1
    assert 0 < impatient.first_start_us[12] <= 2 * 3600e6
    assert impatient.preemptions[:12].sum() >= 1


def test_jobs_that_share_a_device_are_left_alone() -> None:
    tuned_twin = tuned(jobs([1, 1], model=0), until_s=600.0, effects=Effects(share_limit=2))
    draft = PlanDraft(tuned_twin.state, NO_PLAN)
    draft.stop(1, int(Reason.SHARED), 0.0)
    draft.stop(0, int(Reason.SHARED), 0.0)
    assert draft.start(0, 0, 1, int(Reason.SHARED), 0.0)
    assert draft.join(1, 0, int(Reason.SHARED), 0.0)
    tuned_twin._carry_out(draft.plan(), tuned_twin.now_us)
    tuned_twin.state.clock.now_us = 10**11
    assert len(ELASTIC.adjust(tuned_twin.state, NO_OUTLOOK, NO_PLAN)) == 0


def test_long_jobs_get_more_where_devices_are_short() -> None:
    # Two long jobs among twenty short ones of the same kind of work, but another gang size.
    workload = jobs([4] * 2 + [2] * 20, model=0)
    workload.duration_us[2:] /= 20
    even, first = (
        held(tuned(workload, tuner=Elastic(long=long, energy=0.0))) for long in (0.0, 20.0)
    )
    assert sum(count for _, count in first[:2]) > sum(count for _, count in even[:2])
    assert [pool for pool, _ in first[:2]] == [1, 1], "the fastest devices"


def test_jobs_do_not_grow_into_load_that_is_coming() -> None:
    tuned_twin = tuned(jobs([1, 1], model=0), until_s=59.0)
    sizes = []
    for more in (0.0, 1000.0):
        load = Forecast((0.5, 0.9), np.full((2, 60), 2.0 + more), np.full(60, 2.0), 60.0)
        plan = Elastic(ahead_s=900.0).adjust(tuned_twin.state, Outlook(load=load), NO_PLAN)
        sizes.append([int(row.mask).bit_count() for row in plan if row.kind == ActionKind.START])
    assert sum(sizes[0]) > sum(sizes[1]) >= 2
    unread = Elastic().adjust(tuned_twin.state, Outlook(load=load), NO_PLAN)
    assert unread.tolist() == Elastic().adjust(tuned_twin.state, NO_OUTLOOK, NO_PLAN).tolist()


def test_same_state_same_plan() -> None:
    tuned_twin = tuned(jobs([4, 2, 8, 1, 6, 12]), until_s=700.0)
    plans = [ELASTIC.adjust(tuned_twin.state, NO_OUTLOOK, NO_PLAN).tolist() for _ in range(2)]
    assert plans[0] == plans[1]


def test_it_does_not_read_the_truth() -> None:
    tuned_twin = tuned(jobs([4] * 12), until_s=700.0, effects=Effects(speed_error=0.3))
    blank = tuned_twin.state.jobs.copy()
    blank.work_us = np.nan
    hidden = tuned_twin.state._replace(points=tuned_twin.state.guesses, jobs=blank)
    seen = ELASTIC.adjust(tuned_twin.state, NO_OUTLOOK, NO_PLAN).tolist()
    assert ELASTIC.adjust(hidden, NO_OUTLOOK, NO_PLAN).tolist() == seen


def test_nothing_is_lost_and_nothing_overbooked_to_the_end() -> None:
    workload = jobs([4, 2, 8, 1, 6, 12, 3, 9] * 2)
    workload.duration_us[:] /= 4
    tuned_twin = tuned(workload, until_s=1e7)
    assert tuned_twin.finished and (tuned_twin.state.runs.status == Status.DONE).all()
    assert (tuned_twin.state.nodes.free == [4, 4, 4, 8]).all()


def big() -> Twin:
    """A thousand nodes of eight devices and two thousand jobs, after a round."""
    groups = tuple(
        NodeGroup(device, 250, device, 8) for device in ("T4", "RTX2080Ti", "A100-40GB", "V100")
    )
    rng = np.random.default_rng(0)
    sizes = rng.choice([1, 2, 4, 8, 16], 2000)
    workload = Workload.of(
        "big", np.zeros(2000), 30_000.0, sizes, model=rng.integers(0, 4, 2000),
        models=("cifar10:2048", "bert:384", "deepspeech2:320", "imagenet:3200"), device=0,
        device_names=("T4",), least=1, most=-1,
    )  # fmt: skip
    return tuned(workload, 61.0, Cluster("big", groups))


def test_a_round_on_a_thousand_nodes() -> None:
    """How long it takes is in `flyball bench tune --only speed`."""
    tuned_twin = big()
    assert (tuned_twin.state.runs.status == Status.RUNNING).sum() > 1900
    assert 7000 < sum(count for _, count in held(tuned_twin)) <= 8000
