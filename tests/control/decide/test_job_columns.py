"""The job columns follow the live state, whatever happens."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.control.live_cases import (
    ONE_NODE,
    START_US,
    about,
    histories,
    intended,
    spec_of,
    submitted,
)  # fmt: skip

from flyball.control.decide import job_slots
from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import JobColumns
from flyball.control.decide.name_codes import NameCodes
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.request import LIMITS, Demand, can_hold, cluster_of
from flyball.core.events import Event, NodeChanged
from flyball.core.jobs import Job, JobSpec, JobState, request_of
from flyball.core.knobs import Knobs
from flyball.twin.live import View

CLUSTER = cluster_of(ONE_NODE, "live")


class Kept:
    """Holds a live state, the table that follows it, and a decider."""

    def __init__(self) -> None:
        self.live_state = LiveState()
        self.columns = JobColumns(Demand(ONE_NODE))
        self.live_state.watchers.append(self.columns.update)
        self.decider = Decider(self.live_state, self.columns, CLUSTER, "fifo", Knobs())

    def add(self, *events: Event) -> None:
        self.live_state.absorb(
            self.live_state.seq + len(events), self.live_state.fold(events), events
        )

    def view(self) -> tuple[View, Any]:
        return self.columns.view(self.live_state.ended, self.live_state.down)

    def fresh(self) -> tuple[View, Any]:
        """Return the view of a new table that holds only the current jobs."""
        columns = JobColumns(Demand(ONE_NODE))
        columns.update(self.live_state.jobs)
        return columns.view(self.live_state.ended, self.live_state.down)


def assert_same(actual: tuple[View, Any], expected: tuple[View, Any]) -> None:
    (view, ids), (other, other_ids) = actual, expected
    assert ids.tolist() == other_ids.tolist()
    for column in fields(View)[1:]:
        mine, theirs = getattr(view, column.name), getattr(other, column.name)
        assert np.array_equal(mine, theirs), column.name
    for column in fields(view.workload):
        mine, theirs = getattr(view.workload, column.name), getattr(other.workload, column.name)
        assert np.array_equal(mine, theirs), column.name
    digests = [column.digest(CLUSTER, Knobs(), START_US) for column in (view, other)]
    assert digests[0] == digests[1]


@settings(max_examples=60)
@given(histories())
def test_an_updated_table_equals_a_new_one(events: list[Event]) -> None:
    kept = Kept()
    for event in events:
        kept.add(event)
        assert_same(kept.view(), kept.fresh())


@settings(max_examples=60)
@given(histories(), histories(6))
def test_trying_events_out_leaves_the_table_as_it_was(
    events: list[Event], tried: list[Event]
) -> None:
    kept = Kept()
    kept.add(*events)
    before = kept.view()
    seen = kept.decider.view_with(kept.live_state.fold(tried))
    assert_same(kept.view(), before)
    assert_same(kept.view(), kept.fresh())
    kept.add(*tried)
    assert_same(seen, kept.view())


def test_a_job_that_was_only_tried_does_not_affect_a_later_one() -> None:
    kept = Kept()
    kept.decider.view_with(kept.live_state.fold([submitted(1, cpus=4)]))
    kept.add(submitted(1, cpus=1))
    assert kept.view()[0].workload.devices.tolist() == [1]


OTHER: dict[type, Any] = {str: "other", tuple: ("other",), dict: {"A": "b"}}


@pytest.mark.parametrize("name", [field.name for field in fields(JobSpec)])
def test_a_request_is_all_that_a_slot_and_a_check_depend_on(name: str) -> None:
    """Otherwise two jobs with equal requests could be confused."""
    spec = spec_of()
    usual = getattr(spec, name)
    value: Any = (not usual) if isinstance(usual, bool) else OTHER.get(type(usual), 7)
    other = replace(spec, **{name: value})
    assert other != spec
    if request_of(other) == request_of(spec):
        columns = JobColumns(Demand(ONE_NODE))
        job_slots = [columns._values(Job(1, variant, START_US), 0, 0) for variant in (spec, other)]
        assert job_slots[0] == job_slots[1]
        assert name not in LIMITS


def test_the_highest_priority_that_waits() -> None:
    kept = Kept()
    assert kept.columns.priority_waiting() == 0.0
    kept.add(submitted(1, priority=9.0), submitted(2, priority=-4.0), submitted(3, priority=-2.0))
    assert kept.columns.priority_waiting() == 9.0
    kept.add(intended(1))
    assert kept.columns.priority_waiting() == -2.0


def test_columns_of_a_view() -> None:
    kept = Kept()
    kept.add(
        submitted(1, START_US, cpus=2, user="zoe", estimate_s=60.0),
        submitted(2, START_US + 5, memory_mib=300, user="ada", limit_s=30.0, kind="mixed"),
        submitted(3, START_US + 5, priority=2.0, model="ResNet-50", after=(("afterok", 1),)),
        intended(1, START_US + 7, mask=3),
        about("started", 1, began_us=START_US + 9),
    )
    view, ids = kept.view()
    work = view.workload
    assert ids.tolist() == [1, 2, 3]
    assert work.submit_us.tolist() == [START_US, START_US + 5, START_US + 5]
    assert work.devices.tolist() == [2, 1, 1]
    assert work.estimate_us.tolist() == [60e6, 30e6, 3600e6]
    assert work.limit_us.tolist() == [0, 30_000_000, 0]
    assert work.host_mib.tolist() == [0, 300, 0]
    assert (work.users, work.user.tolist()) == (("ada", "zoe"), [1, 0, -1])
    assert [work.models[code] if code >= 0 else "" for code in work.model] == ["", "", "ResNet-50"]
    assert (work.after_job.tolist(), work.after_on.tolist()) == ([2], [0])
    assert (view.row_job.tolist(), view.row_mask.tolist()) == ([0], [3])
    assert view.past["since_us"].tolist()[0] == START_US + 9
    assert view.past["queued_us"].tolist()[1:] == [START_US + 5, START_US + 5]


def test_a_view_shares_nothing_with_the_table() -> None:
    kept = Kept()
    kept.add(submitted(1))
    before, _ids = kept.view()
    digest = before.digest(CLUSTER, Knobs(), START_US)
    kept.add(submitted(2), intended(1), about("requeued", 1, over_us=START_US + 9, why="preempt"))
    assert before.digest(CLUSTER, Knobs(), START_US) == digest


def test_work_done_counts_whatever_the_width() -> None:
    kept = Kept()
    kept.add(submitted(1, cpus=4), intended(1, START_US, mask=15))
    kept.add(about("requeued", 1, over_us=START_US + 8_000_000, why="preempt"))
    past = kept.view()[0].past
    assert (past["service_us"][0], past["done_us"][0]) == (32e6, 8e6)
    assert (past["queued_us"][0], past["attempt"][0]) == (START_US + 8_000_000, 1)


def test_arrays_have_groups_only_with_a_limit() -> None:
    kept = Kept()
    kept.add(submitted(1, array=1, array_limit=2), submitted(2, array=1, array_limit=2))
    kept.add(submitted(3, array=3), submitted(4, array=4, array_limit=1), submitted(5))
    work = kept.view()[0].workload
    assert work.group.tolist() == [0, 0, -1, 1, -1]
    assert work.group_limits == (2, 1)


def test_the_table_grows() -> None:
    kept = Kept()
    kept.add(*(submitted(job, START_US + job, cpus=1 + job % 4) for job in range(1, 3001)))
    kept.add(*(about("cancel", job, attempt=0) for job in range(1, 3001, 2)))
    assert_same(kept.view(), kept.fresh())
    assert len(kept.view()[1]) == 1500


def test_nodes_that_are_down_are_in_the_view() -> None:
    kept = Kept()
    kept.add(submitted(1), NodeChanged(1, 0, up=False))
    assert kept.view()[0].down.tolist() == [0]


@pytest.mark.parametrize(
    ("how", "state", "holds"),
    [
        ("afterok", None, True),
        ("afterok", JobState.COMPLETED, True),
        ("afterok", JobState.FAILED, False),
        ("afternotok", None, True),
        ("afternotok", JobState.COMPLETED, False),
        ("afternotok", JobState.CANCELLED, True),
        ("afterany", JobState.COMPLETED, True),
        ("afterany", JobState.TIMEOUT, True),
    ],
)
def test_dependencies_that_can_still_be_satisfied(
    how: str, state: JobState | None, holds: bool
) -> None:
    assert can_hold(how, state) is holds


def test_a_job_with_an_unsatisfiable_dependency_is_not_in_the_view() -> None:
    kept = Kept()
    kept.add(submitted(1), submitted(2, after=(("afterok", 1),)), intended(1))
    assert kept.columns.doomed(kept.live_state.ended) == {}
    kept.add(about("ended", 1, over_us=START_US, state="FAILED"))
    assert kept.columns.doomed(kept.live_state.ended) == {2: 1}
    assert kept.view()[1].tolist() == []


def test_names_are_recoded_alphabetically() -> None:
    names = NameCodes()
    codes = np.array([names.code(name) for name in ("zoe", "", "ada", "zoe", "ben")])
    assert codes.tolist() == [0, -1, 1, 0, 2]
    settled, used = names.settle(codes[:4])
    assert (settled.tolist(), used) == ([1, -1, 0, 1], ("ada", "zoe"))


def test_a_job_that_ended_before_it_was_seen_is_ignored() -> None:
    columns = JobColumns(Demand(ONE_NODE))
    columns.update({1: Job(1, spec_of(), START_US, JobState.CANCELLED)})
    assert len(columns.view({}, set())[1]) == 0


def test_shapes_without_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of different shapes come and go: the rest keep different numbers."""
    monkeypatch.setattr(job_slots, "SPARE", 8)
    kept = Kept()
    for job in range(1, 101):
        kept.add(submitted(job, cpus=1, estimate_s=float(1 + job // 2)))
        if job > 6:
            kept.add(about("cancel", job - 6))
    columns = kept.columns
    assert len(columns._slot_of) == 6
    assert not columns._shapes.too_many(6 + 4)
    assert_same(kept.view(), kept.fresh())
    like = {job: int(columns._slots["like"][slot]) for job, slot in columns._slot_of.items()}
    assert [like[job] == like[job + 1] for job in (96, 97, 98, 99)] == [True, False] * 2
