"""The live state: a pure fold over events, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from tests.control.live_cases import START_US, about, histories, intended, submitted

from flyball.control.jobs.adjustments import device_milli
from flyball.control.jobs.live_state import LiveState
from flyball.core.events import Audited, Event, NodeChanged
from flyball.core.jobs import Job, JobState, Row

S = 1_000_000


def absorb(live_state: LiveState, events: Sequence[Event]) -> None:
    live_state.absorb(live_state.seq + len(events), live_state.fold(events), events)


def book_of(*events: Event) -> LiveState:
    live_state = LiveState()
    absorb(live_state, events)
    return live_state


def running(attempt: int = 1) -> list[Event]:
    """Job 1 is on its first attempt, or a later one."""
    events: list[Event] = [submitted(1)]
    for number in range(1, attempt):
        events.append(intended(1, attempt=number))
        over = START_US + number * S
        events.append(about("requeued", 1, attempt=number, over_us=over, why="lost"))
    return [*events, intended(1, START_US + 5 * S, attempt)]


@given(histories())
def test_the_fold_is_pure_and_deterministic(events: list[Event]) -> None:
    half = len(events) // 2
    live_state = book_of(*events[:half])
    jobs, ended, seq = dict(live_state.jobs), dict(live_state.ended), live_state.seq
    first = live_state.fold(events[half:])
    assert live_state.fold(events[half:]) == first
    assert (live_state.jobs, dict(live_state.ended), live_state.seq) == (jobs, ended, seq)


@given(histories())
def test_folding_one_by_one_or_all_at_once_gives_the_same(events: list[Event]) -> None:
    together, apart = book_of(*events), LiveState()
    for event in events:
        absorb(apart, [event])
    assert apart.jobs == together.jobs
    assert apart.ended == together.ended
    assert (apart.seq, apart.wishes) == (together.seq, together.wishes)


@given(histories())
def test_what_is_final_stays_as_it_is(events: list[Event]) -> None:
    live_state = LiveState()
    seen: dict[int, JobState] = {}
    for event in events:
        absorb(live_state, [event])
        assert seen.items() <= live_state.ended.items()
        assert not live_state.jobs.keys() & live_state.ended.keys()
        seen = dict(live_state.ended)


def test_the_order_of_events_counts() -> None:
    cancel = about("cancel", 1, attempt=0, reason="asked")
    assert book_of(submitted(1), cancel, intended(1)).ended == {1: JobState.CANCELLED}
    after = book_of(submitted(1), intended(1), cancel).jobs[1]
    assert (after.state, after.stopping) == (JobState.COMPLETING, "cancel")


def test_a_job_from_submission_to_its_end() -> None:
    live_state = book_of(*running(), about("started", 1, began_us=START_US + 6 * S))
    job = live_state.jobs[1]
    assert (job.state, job.attempt, job.rows) == (JobState.RUNNING, 1, (Row(0, 1),))
    assert (job.since_us, job.started_us) == (START_US + 5 * S, START_US + 6 * S)
    end = about("ended", 1, over_us=START_US + 16 * S, state="FAILED", values={"exit_code": 3})
    changed = live_state.fold([end])[1]
    assert (changed.state, changed.rows, changed.end_us) == (
        JobState.FAILED, (), START_US + 16 * S,
    )  # fmt: skip
    assert changed.service_us == 10 * S
    assert changed.values["exit_code"] == 3


def test_a_second_attempt_adds_to_the_first() -> None:
    live_state = book_of(
        submitted(1, cpus=2),
        intended(1, START_US, mask=3),
        about("started", 1, began_us=START_US),
        about("stopping", 1, why="preempt"),
        about("requeued", 1, over_us=START_US + 4 * S, why="preempt"),
    )
    job = live_state.jobs[1]
    assert (job.state, job.stopping, job.started_us) == (JobState.PENDING, "", 0)
    assert job.reason == "requeued-preempt"
    assert (job.preemptions, job.failures, job.service_us) == (1, 0, 8 * S)
    assert job.since_us == START_US + 4 * S, "it waits since it came back"
    again = START_US + 9 * S
    absorb(live_state, [intended(1, again, 2), about("started", 1, attempt=2, began_us=again)])
    job = live_state.jobs[1]
    assert (job.attempt, job.started_us, job.first_start_us) == (2, again, START_US)


NONSENSE: list[tuple[str, list[Event], Event]] = [
    ("a start of an attempt that is over", running(2), about("started", 1, began_us=START_US)),
    ("an end of an attempt that is over", running(2), about("ended", 1, over_us=1, state="FAILED")),
    ("an attempt too many", [submitted(1)], intended(1, attempt=2)),
    ("an attempt of a job that runs", running(), intended(1, attempt=2)),
    ("a stop of a job that waits", [submitted(1)], about("stopping", 1, attempt=0, why="preempt")),
    ("a return of a job that waits", [submitted(1)], about("requeued", 1, over_us=1, why="lost")),
    ("the same job once more", running(), submitted(1, cpus=4)),
    ("an event about nobody", running(), about("ended", 9, over_us=1, state="FAILED")),
    ("an event about no job", running(), Audited(1, "", "")),
    (
        "the end of a cancelled job",
        [submitted(1), about("cancel", 1, attempt=0)],
        about("ended", 1, attempt=0, over_us=1, state="COMPLETED"),
    ),
    (
        "setting aside what was cancelled",
        [*running(), about("cancel", 1)],
        about("stopping", 1, why="preempt"),
    ),
    (
        "a second start",
        [*running(), about("started", 1, began_us=START_US + 6 * S)],
        about("started", 1, began_us=START_US + 7 * S),
    ),
]


@pytest.mark.parametrize(
    ("before", "event"), [case[1:] for case in NONSENSE], ids=[case[0] for case in NONSENSE]
)
def test_events_that_no_longer_apply_change_nothing(before: list[Event], event: Event) -> None:
    live_state = book_of(*before)
    jobs, ended = dict(live_state.jobs), dict(live_state.ended)
    absorb(live_state, [event])
    assert (live_state.jobs, dict(live_state.ended)) == (jobs, ended)


def test_a_cancellation_overrules_a_preemption() -> None:
    live_state = book_of(
        *running(), about("stopping", 1, why="preempt"), about("cancel", 1, reason="x")
    )
    assert (live_state.jobs[1].stopping, live_state.jobs[1].reason) == ("cancel", "x")


def test_the_reason_of_a_cancellation_outlives_the_end() -> None:
    live_state = book_of(*running(), about("cancel", 1, reason="asked"))
    done = live_state.fold([about("ended", 1, over_us=START_US, state="CANCELLED")])[1]
    assert done.reason == "asked"


def test_an_end_before_the_beginning_uses_nothing() -> None:
    done = book_of(*running()).fold([about("ended", 1, over_us=1, state="COMPLETED")])[1]
    assert done.service_us == 0


def test_nodes_go_down_and_come_up() -> None:
    live_state = book_of(NodeChanged(1, 3, up=False))
    assert live_state.down == {3}
    assert live_state.wishes == 1
    absorb(live_state, [NodeChanged(2, 3, up=True)])
    assert live_state.down == set()


def test_wishes_count_events_that_call_for_a_decision() -> None:
    live_state = book_of(*running(), about("cancel", 1), about("started", 1, began_us=1))
    assert live_state.wishes == 2


def test_watchers_hear_of_a_load_and_of_changes() -> None:
    live_state, heard = LiveState(), []
    live_state.watchers.append(lambda changes: heard.append(sorted(changes)))
    folded = live_state.fold([submitted(1), submitted(2)])
    live_state.load(7, folded.values(), [(9, JobState.FAILED)], {1})
    assert (live_state.seq, dict(live_state.ended), live_state.down) == (
        7,
        {9: JobState.FAILED},
        {1},
    )
    assert live_state.get(1) is folded[1] and live_state.get(9) is None
    absorb(live_state, [about("cancel", 2, attempt=0)])
    assert heard == [[1, 2], [2]]


def test_thousandths_held() -> None:
    job = book_of(submitted(1), intended(1, mask=5)).jobs[1]
    assert device_milli(job) == 2000
    part: Job = replace(job, spec=replace(job.spec, gpus=2, milli=250))
    assert device_milli(part) == 500
