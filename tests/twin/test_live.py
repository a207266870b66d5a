"""A live snapshot is a state of the twin: in the same situation both decide the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Status
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.protocols import Forecast
from flyball.core.records import Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.twin.live import PAST, Snapshot, View, fits, warm
from flyball.twin.twin import Twin

CLUSTER = Cluster("c", (NodeGroup("a", 3, "CPU1", 4, 4, 8.0),))
NO_ROWS = np.zeros(0, np.int64)
ACTIVE = (Status.PENDING, Status.RUNNING, Status.HELD)


def workload(seed: int, jobs: int = 60) -> Workload:
    """Everything that a live job may ask for; more of it than fits."""
    rng = np.random.default_rng(seed)
    after = np.sort(rng.choice(np.arange(5, jobs), 8, replace=False))
    return Workload.of(
        "busy", np.sort(rng.uniform(0, 600, jobs)), rng.uniform(5, 120, jobs),
        rng.choice((1, 1, 2, 3, 4, 8), jobs), kind=0, device=0, device_names=("CPU1",),
        priority=rng.choice((0.0, 1.0), jobs), host_mib=rng.choice((0, 1000, 5000), jobs),
        estimate_us=rng.choice((20e6, 60e6, 300e6), jobs),
        group=rng.choice((-1, -1, 0), jobs), group_limits=(3,),
        user=rng.integers(-1, 2, jobs), users=("ada", "ben"),
        after_job=after, after_on=rng.integers(0, 5, 8),
    )  # fmt: skip


def view_of(state: State, work: Workload) -> tuple[View, Any]:
    """Return the view that a live control plane would have of the twin's state."""
    runs: Any = state.runs
    arrived = np.arange(len(work)) < state.clock[0].next_job
    jobs = np.flatnonzero(arrived & np.isin(runs.status, ACTIVE))
    place = {int(job): at for at, job in enumerate(jobs)}
    past = records(len(jobs), PAST)
    for name in ("done_us", "service_us", "since_us", "attempt"):
        past[name] = runs[name][jobs]
    past["queued_us"] = work.submit_us[jobs]
    running = sorted(
        (int(runs[job].since_us), int(job)) for job in jobs if runs[job].status == Status.RUNNING
    )
    rows = [row for _since, job in running for row in rows_of(state, job)]
    held = [np.array(column) for column in zip(*rows, strict=True)] if rows else [NO_ROWS] * 3
    row_job = np.array([place[int(job)] for job in held[0]], np.int64)
    view = View(
        work.take(jobs), past, row_job, held[1].astype(np.int64), held[2].astype(np.uint64), NO_ROWS
    )
    return view, jobs


def rows_of(state: State, job: int) -> list[tuple[int, int, int]]:
    rows = []
    at = int(state.runs[job].first_row)
    while at >= 0:
        row = state.rows[at]
        rows.append((job, int(row.node), int(row.mask)))
        at = int(row.next)
    return rows


class Both:
    """A policy that also decides on a live snapshot, and compares the plans.

    The twin remembers the jobs it has tried in vain since capacity was last freed, and does not
    try them again; a live decision tries every job. That makes a difference only under EASY, where
    a new head of the queue, or a job that outlives its estimate, moves the reservation:
    `retry_all` makes the twin try every job too.
    """

    def __init__(self, policy: Preset, work: Workload, retry_all: bool) -> None:
        self.policy, self.work, self.retry_all = policy, work, retry_all
        self.compared = self.actions = 0

    def decide(self, state: State, forecast: Forecast | None) -> Records:
        plan = self.policy.decide(state)
        view, jobs = view_of(state, self.work)
        if len(jobs):
            now = int(state.clock[0].now_us)
            live = Snapshot(CLUSTER, view, self.policy.knobs, now).decide(False)
            state.clock.capacity_grew |= self.retry_all
            assert plain(live, jobs) == plain(self.policy.decide(state))
            self.compared += 1
            self.actions += len(plan)
        return plan


def plain(plan: Records, jobs: Any = None) -> list[tuple[Any, ...]]:
    names = ("kind", "node", "mask", "milli", "reason")
    ids = plan["job"] if jobs is None else jobs[plan["job"]]
    return list(zip(ids.tolist(), *(plan[name].tolist() for name in names), strict=True))


@pytest.mark.parametrize("name", ["fifo", "fifo-skip", "easy", "sjf", "saf"])
def test_the_same_situation_the_same_plan(name: str) -> None:
    work = workload(3)
    policy = get_policy(name)
    twin = Twin(CLUSTER, work, policy.knobs)
    both = Both(policy, work, retry_all=name == "easy")
    while twin.step(both) is not None:
        pass
    assert twin.finished
    assert both.compared > 100
    assert both.actions >= len(work)


# By hand ------------------------------------------------------------------------------------


def small(devices: list[int], **columns: Any) -> Workload:
    size = len(devices)
    return Workload.of(
        "live", np.arange(size), [50.0] * size, devices, kind=0, device=0,
        device_names=("CPU1",), **columns,
    )  # fmt: skip


def view(
    work: Workload, rows: Sequence[tuple[int, int, int]] = (), down: Sequence[int] = ()
) -> View:
    past = records(len(work), PAST)
    past["queued_us"] = work.submit_us
    for job, _node, _mask in rows:
        past["since_us"][job], past["attempt"][job] = 5_000_000, 1
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    masks = columns[2].astype(np.uint64)
    return View(work, past, columns[0], columns[1], masks, np.array(down, np.int64))


def starts(snapshot: Snapshot) -> list[tuple[int, int, int]]:
    plan = snapshot.decide(False)
    assert (plan["kind"] == int(ActionKind.START)).all()
    return list(
        zip(plan["job"].tolist(), plan["node"].tolist(), plan["mask"].tolist(), strict=True)
    )


NOW = 60_000_000


def test_what_runs_keeps_its_devices() -> None:
    work = small([4, 4, 3, 3, 1])
    now_view = view(work, [(0, 1, 15), (1, 2, 15)])
    snapshot = Snapshot(CLUSTER, now_view, Knobs(), NOW)
    assert snapshot.state.nodes.free.tolist() == [4, 0, 0]
    assert snapshot.state.runs.status.tolist()[:2] == [Status.RUNNING] * 2
    assert starts(snapshot) == [(2, 0, 7), (4, 0, 8)]
    assert snapshot.state.nodes.free.tolist() == [0, 0, 0], "the state has carried the plan out"


def test_a_node_that_is_down_takes_no_job() -> None:
    now_view = view(small([4, 4, 4]), down=[0, 2])
    assert starts(Snapshot(CLUSTER, now_view, Knobs(), NOW)) == [(0, 1, 15)]


def test_an_array_at_its_limit_counts_what_runs() -> None:
    work = small([1] * 4, group=0, group_limits=(2,))
    now_view = view(work, [(0, 0, 1)])
    assert [start[0] for start in starts(Snapshot(CLUSTER, now_view, Knobs(), NOW))] == [1]


def test_a_job_waits_for_its_predecessor_in_the_view() -> None:
    work = small([1] * 3, after_job=np.array([1]), after_on=np.array([0]))
    assert [start[0] for start in starts(Snapshot(CLUSTER, view(work), Knobs(), NOW))] == [0, 2]


def test_target_shares_are_for_replays() -> None:
    knobs = Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS)
    with pytest.raises(BadInput, match="for replays only"):
        Snapshot(CLUSTER, view(small([1])), knobs, NOW)


def test_what_can_never_fit() -> None:
    fits(CLUSTER, small([4]), Knobs())
    with pytest.raises(BadInput):
        fits(CLUSTER, small([13]), Knobs())


def test_the_digest_sees_everything() -> None:
    work = small([2, 1], user=[0, 0], users=("ada",))
    base = view(work, [(0, 0, 3)])
    changed = [
        replace(base, row_mask=base.row_mask << np.uint64(1)),
        replace(base, row_node=base.row_node + 1),
        replace(base, down=np.array([1])),
        replace(base, workload=replace(work, users=("ben",))),
        replace(base, workload=replace(work, priority=work.priority + 1)),
        replace(base, workload=replace(work, group_limits=(1,))),
        replace(base, workload=replace(work, after_job=np.array([1]), after_on=np.array([0]))),
    ]
    for name in PAST.names or ():
        past = base.past.copy()
        past[name][0] += 1
        changed.append(replace(base, past=past))
    digests = [variant.digest(CLUSTER, Knobs(), NOW) for variant in (base, *changed)]
    digests.append(base.digest(CLUSTER, Knobs(), NOW + 1))
    digests.append(base.digest(CLUSTER, Knobs(round_s=61.0), NOW))
    digests.append(base.digest(replace(CLUSTER, power_budget_w=9.0), Knobs(), NOW))
    assert len(set(digests)) == len(digests)
    assert digests[0] == view(work, [(0, 0, 3)]).digest(CLUSTER, Knobs(), NOW)


def test_knobs_that_came_later_leave_old_digests_alone() -> None:
    # The digest that the version before these knobs wrote into its journals.
    work = Workload.of("old", [0.0, 1.0], [10.0, 20.0], [1, 2], kind=0)
    base = view(work, [(0, 0, 3)])
    assert base.digest(CLUSTER, Knobs(), NOW) == "ded936bd3a21caed7ab20463fc209ea9"
    rounds = Knobs(preempt=Preempt.ROUNDS)
    changed = [replace(rounds, move_s=9.0), replace(rounds, index_size=0.5)]
    assert len({base.digest(CLUSTER, knobs, NOW) for knobs in (rounds, *changed)}) == 3


def test_the_digest_sees_quantiles_where_a_knob_reads_them() -> None:
    """Digests of decisions made before there were quantiles stay the same."""
    work = small([2, 1])
    spread = replace(work, quantiles_us=np.full((2, 5), 1e6))
    plain, level = Knobs(), Knobs(backfill_quantile=0.9)
    assert view(work).digest(CLUSTER, plain, NOW) == view(spread).digest(CLUSTER, plain, NOW)
    digests = [view(jobs).digest(CLUSTER, level, NOW) for jobs in (work, spread)]
    assert len({*digests, view(work).digest(CLUSTER, plain, NOW)}) == 3


def test_digest_does_not_depend_on_a_record_of_the_past() -> None:
    work = small([2, 1])
    with_record = replace(work, start_us=work.submit_us + 1, end_us=work.submit_us + 2)
    digests = {view(variant).digest(CLUSTER, Knobs(), NOW) for variant in (work, with_record)}
    digests.add(view(work).digest(replace(CLUSTER, recorded_on="T4"), Knobs(), NOW))
    assert len(digests) == 1
    assert "recorded_on" not in repr(CLUSTER)


def test_warming_says_so_only_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    warm(notes.append)
    warm()
    assert notes == [] or "compiling" in notes[0]
