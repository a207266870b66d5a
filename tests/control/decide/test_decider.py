"""One decision: when there is one, what it sees, and its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.live_cases import START_US, Rig, about, spec_of, submitted

from flyball.control.decide.decider import PREEMPT, START, Decider, Plan, plan_events
from flyball.core.events import Event, Intended
from flyball.core.jobs import Job, JobState, Row

S = 1_000_000


def decides(rig: Rig, *unrecorded: Event) -> list[Any] | None:
    decision = rig.plane.decider.decide(unrecorded, rig.now)
    return None if decision is None else list(decision.events)


def test_without_new_events_there_is_no_decision(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert decides(rig) is None, "no job at all"
    rig.submit(cpus=4)
    rig.settle()
    rig.submit(cpus=4)
    rig.settle()
    number = rig.plane.decider.number
    for _ in range(3):
        rig.pass_s(1)
    assert rig.plane.decider.number == number == 2, "the second waits, and nothing has changed"
    rig.plane.cancel(2)
    rig.settle()
    assert rig.plane.decider.number == number, "nobody waits"


def test_a_decision_is_made_again_until_it_is_on_record(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit()
    first, second = decides(rig), decides(rig)
    assert first == second
    assert rig.plane.decider.number == 0, "a number is used up by what is on record"
    rig.settle()
    assert decides(rig) is None


def test_it_sees_what_is_recorded_with_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=4)
    rig.settle()
    rig.submit(cpus=4)
    end = about("ended", 1, rig.now, over_us=rig.now, state="COMPLETED", values={})
    events = decides(rig, end)
    assert events is not None
    decided, act = events
    assert (decided.own, decided.seen) == (1, rig.plane.live_state.seq)
    assert (act.kind, act.job, act.rows) == ("intended", 2, [(0, 15)])
    assert rig.states(1) == [JobState.RUNNING], "and nothing has changed yet"


def test_a_round_that_could_not_be_recorded_is_still_due(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "srtf", ("round_s=30", "margin_s=5"))
    long = rig.submit(cpus=4, estimate_s=1000.0)
    rig.settle()
    rig.submit(cpus=2, estimate_s=10.0)
    rig.settle()
    rig.now += 70 * S
    for _ in range(2):
        events = decides(rig)
        assert events is not None
        assert events[0].is_round
        assert [event.job for event in events if event.kind == "stopping"] == [long]
    rig.settle()
    assert rig.engine.stopped == [(long, 1, "preempt")]


def test_no_round_while_a_job_is_leaving(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "srtf", ("round_s=30", "margin_s=5"))
    jobs = [rig.submit(cpus=2, estimate_s=1000.0) for _ in range(2)]
    rig.settle()
    rig.submit(cpus=2, estimate_s=10.0)
    rig.settle()
    rig.engine._stop = lambda token: None  # type: ignore[method-assign]
    rig.pass_s(70)
    assert len(rig.engine.stopped) == 1
    rig.submit(cpus=2, estimate_s=5.0)
    rig.pass_s(70)
    assert len(rig.engine.stopped) == 1
    assert sorted(rig.states(*jobs)) == [JobState.COMPLETING, JobState.RUNNING]


def test_a_view_with_unrecorded_events_leaves_no_trace(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit()
    decider: Decider = rig.plane.decider
    events = [submitted(9, START_US + 1), about("cancel", 1, attempt=0)]
    with rig.plane.live_state.lock:
        _view, ids = decider.view_with(rig.plane.live_state.fold(events))
    assert ids.tolist() == [9]
    with rig.plane.live_state.lock:
        assert decider.view_with({})[1].tolist() == [1]


# From plans to events -----------------------------------------------------------------------


def job_of(job: int, mask: int = 0, node: int = 0, **asked: Any) -> Job:
    if not mask:
        return Job(job, spec_of(**asked), START_US)
    rows = (Row(node, mask),)
    return Job(job, spec_of(**asked), START_US, JobState.RUNNING, 1, rows, START_US)


def start(job: int, mask: int, node: int = 0) -> list[Any]:
    return [START, job, node, mask, 1000, 0, 0.0]


def preempt(job: int) -> list[Any]:
    return [PREEMPT, job, 0, 0, 0, 0, 0.0]


def acts(plan: Plan, *jobs: Job) -> list[tuple[str, int, int]]:
    events: Any = plan_events(plan, {job.id: job for job in jobs}, START_US, 7)
    return [(event.kind, event.job, event.attempt) for event in events]


def test_starts_become_intents_row_by_row() -> None:
    events = plan_events([start(1, 3), start(1, 1, 1)], {1: job_of(1)}, START_US, 7)
    assert events == [Intended(START_US, 1, 1, [(0, 3), (1, 1)], decision=7)]


def test_no_job_starts_on_devices_that_are_being_left() -> None:
    plan = [preempt(1), start(2, 1), start(3, 4), start(4, 1, 1)]
    events = acts(plan, job_of(1, 3), job_of(2), job_of(3), job_of(4))
    assert events == [("stopping", 1, 1), ("intended", 3, 1), ("intended", 4, 1)]


def test_nor_on_a_host_whose_memory_is_being_left() -> None:
    plan = [preempt(1), start(2, 4), start(3, 8)]
    events = acts(plan, job_of(1, 3), job_of(2, memory_mib=1), job_of(3))
    assert events == [("stopping", 1, 1), ("intended", 3, 1)]


def test_protected_jobs_are_not_stopped_and_keep_their_devices() -> None:
    plan = [preempt(1), start(2, 1)]
    assert acts(plan, job_of(1, 1, preemptible=False), job_of(2)) == []


def test_a_job_that_is_leaving_is_not_stopped_again() -> None:
    leaving = Job(1, spec_of(), 0, JobState.COMPLETING, 1, (Row(0, 1),), stopping="preempt")
    assert acts([preempt(1), start(2, 1)], leaving, job_of(2)) == []


# Preemption ---------------------------------------------------------------------------------

SRTF = ("round_s=30", "margin_s=5")


def rounds(tmp_path: Path, **options: Any) -> Rig:
    return Rig(tmp_path, "srtf", SRTF, **options)


def test_a_victim_is_stopped_once_and_the_winner_waits_for_it(tmp_path: Path) -> None:
    rig = rounds(tmp_path)
    long = rig.submit(cpus=4, estimate_s=1000.0)
    rig.pass_s(1)
    short = rig.submit(cpus=2, estimate_s=10.0)
    rig.settle()
    assert rig.states(long, short) == [JobState.RUNNING, JobState.PENDING], (
        "between rounds nobody gives way"
    )
    stuck = keep_alive(rig)
    rig.pass_s(60)
    assert rig.engine.stopped == [(long, 1, "preempt")]
    assert rig.states(long, short) == [JobState.COMPLETING, JobState.PENDING]
    rig.pass_s(90)  # three more rounds: it is told no more, and nobody is put in its place
    assert rig.engine.stopped == [(long, 1, "preempt")]
    assert rig.states(long, short) == [JobState.COMPLETING, JobState.PENDING]
    stuck()
    rig.settle()
    assert rig.states(long, short) == [JobState.PENDING, JobState.RUNNING]
    assert rig.job(long).preemptions == 1
    rig.finish()
    assert rig.states(long, short) == [JobState.COMPLETED, JobState.COMPLETED]
    assert rig.engine.launched == [(long, 1), (short, 1), (long, 2)]
    assert rig.verdict().differing == []


def keep_alive(rig: Rig) -> Any:
    """Have the running attempt ignore a stop; return a function that ends that."""
    engine, stop = rig.engine, rig.engine._stop
    held: list[tuple[int, int]] = []
    engine._stop = lambda token: held.append(token)  # type: ignore[method-assign]

    def let_go() -> None:
        engine._stop = stop  # type: ignore[method-assign]
        for token in held:
            stop(token)

    return let_go


def test_a_job_that_may_not_be_preempted_never_is(tmp_path: Path) -> None:
    rig = rounds(tmp_path)
    long = rig.submit(cpus=4, estimate_s=200.0, preemptible=False)
    rig.pass_s(1)
    short = rig.submit(cpus=2, estimate_s=10.0)
    for _ in range(5):
        rig.pass_s(30)
        assert rig.states(long, short) == [JobState.RUNNING, JobState.PENDING]
    rig.finish()
    assert rig.engine.stopped == []
    assert rig.start_s(short) == rig.start_s(long) + 200
    assert rig.verdict().differing == []


def test_memory_of_a_victim_is_not_given_away_before_it_is_gone(tmp_path: Path) -> None:
    rig = rounds(tmp_path)
    rig.submit(cpus=1, estimate_s=5.0)  # on the first core, and gone when it matters
    long = rig.submit(cpus=1, memory_mib=6000, estimate_s=1000.0)
    rig.pass_s(6)
    short = rig.submit(cpus=1, memory_mib=6000, estimate_s=10.0)
    rig.settle()
    let_go = keep_alive(rig)
    rig.pass_s(90)
    assert rig.engine.stopped == [(long, 1, "preempt")]
    assert (short, 1) not in rig.engine.launched, "8 GiB would be given out twice"
    let_go()
    rig.settle()
    assert rig.states(long, short) == [JobState.PENDING, JobState.RUNNING]


def test_cancelling_a_victim_while_it_leaves(tmp_path: Path) -> None:
    rig = rounds(tmp_path)
    long = rig.submit(cpus=4, estimate_s=1000.0)
    rig.pass_s(1)
    rig.submit(cpus=2, estimate_s=10.0)
    rig.settle()
    let_go = keep_alive(rig)
    rig.pass_s(90)
    rig.plane.cancel(long)
    rig.settle()
    assert rig.engine.stopped == [(long, 1, "preempt"), (long, 1, "cancel")]
    let_go()
    rig.finish()
    assert rig.states(long) == [JobState.CANCELLED]
