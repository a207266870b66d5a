"""Steps of learners: the fast paths agree with the slow ones to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba.core import config
from tests.property.record import ACCOUNT, OUTCOME, summary, twin_of
from tests.twin.strategies import Problem, knobs, move_knobs, problems, share_knobs

from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order
from flyball.core.state import State
from flyball.core.units import FOREVER_US
from flyball.twin.refit import rebuild
from flyball.twin.stepping.fields import GAINS
from flyball.twin.stepping.many import step_many
from flyball.twin.twin import Twin

QUIET: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
EXAMPLES = 25 if config.DISABLE_JIT else 100
GAPS = st.lists(st.sampled_from((0, 1, 7, 30, 61, 200)), min_size=1, max_size=5)
"""Seconds between two steps."""
CLOCK = ("now_us", "arrivals", "starts", "ends", "preemptions", "failures", "repairs", "power_w")
WINDOW_SCALES = (0, 20, 120, 1000)


@st.composite
def nearby(draw: st.DrawFn, base: Knobs) -> Knobs:
    """The same setting with other numbers, and sometimes another order that has no memory."""
    shares = base.order == Order.SHARES
    plain = (Order.SUBMIT, Order.SHORTEST, Order.AREA, Order.REMAINING, Order.INDEX)
    order = draw(st.sampled_from((base.order, *plain))) if base.order in plain else base.order
    return replace(
        base,
        order=order,
        ageing=draw(st.sampled_from((base.ageing, 0.0, 0.7))),
        priority_s=draw(st.sampled_from((base.priority_s, 50.0))),
        depth=draw(st.sampled_from((base.depth, 1, 3))),
        margin_s=draw(st.sampled_from((0.0, 15.0))),
        index_size=draw(st.sampled_from((base.index_size, 0.2))),
        index_floor=draw(st.sampled_from((base.index_floor, 0.5))),
        cap=draw(st.sampled_from((base.cap, 0.8))),
        # With shares a wake may be longer than a round, which is refused.
        sleep_s=draw(st.sampled_from((base.sleep_s, base.sleep_s if shares else 10.0))),
        move_s=draw(st.sampled_from((0.0, 5.0))) if base.moves else base.move_s,
    )


def settings_like(base: Knobs) -> st.SearchStrategy[list[Knobs]]:
    """A few settings: near the first, or any that can follow it."""
    any_of = share_knobs() if base.order == Order.SHARES else knobs() | move_knobs()
    return st.lists(nearby(base) | nearby(base) | any_of, min_size=1, max_size=4)


def slowly(twin: Twin, setting: Knobs) -> None:
    """Set knobs by rebuilding all that depends on them."""
    twin.state = rebuild(twin.state, twin.knobs, setting)
    twin._blank = None
    twin.note_knobs(setting, setting.pack())


def check_settings(problem: Problem, data: st.DataObject) -> None:
    """Change knobs on the way in both manners; what follows must be the same."""
    fast, slow = twin_of(problem), twin_of(problem)
    now_us = int(fast.state.clock[0].start_us)
    for setting in data.draw(settings_like(problem.knobs)):
        now_us += data.draw(st.sampled_from((0, 1, 20, 90))) * 1_000_000
        for twin in (fast, slow):
            twin.run(now_us)
        fast.set_knobs(setting)
        slowly(slow, setting)
        assert fast.knobs == slow.knobs
        assert np.array_equal(fast._packed, slow._packed)
        assert summary(fast.state) == summary(slow.state)
        assert np.array_equal(fast.observe(), slow.observe())
    for twin in (fast, slow):
        twin.run()
    assert summary(fast.state) == summary(slow.state)


@settings(max_examples=2 * EXAMPLES, **QUIET)
@given(problems(), st.data())
def test_knobs_are_set_as_by_a_rebuild(problem: Problem, data: st.DataObject) -> None:
    check_settings(problem, data)


@settings(max_examples=EXAMPLES, **QUIET)
@given(problems(rules=move_knobs(), least_groups=2), st.data())
def test_knobs_are_set_as_by_a_rebuild_while_jobs_move(
    problem: Problem, data: st.DataObject
) -> None:
    check_settings(problem, data)


@settings(max_examples=EXAMPLES // 2, **QUIET)
@given(problems(rules=share_knobs()), st.data())
def test_knobs_are_set_as_by_a_rebuild_with_shares(problem: Problem, data: st.DataObject) -> None:
    check_settings(problem, data)


# Many twins ------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES // 2, **QUIET)
@given(st.lists(problems() | problems(rules=move_knobs()), min_size=1, max_size=5), GAPS, st.data())
def test_many_twins_step_as_each_alone(
    drawn: list[Problem], gaps: list[int], data: st.DataObject
) -> None:
    start_us = max(int(problem.workload.submit_us[0]) for problem in drawn)
    until_us = start_us + 1_000_000 * np.cumsum(gaps)
    chosen = [
        [data.draw(st.none() | nearby(problem.knobs) | knobs()) for problem in drawn] for _ in gaps
    ]
    alone = [twin_of(problem) for problem in drawn]
    batches = {threads: [twin.clone() for twin in alone] for threads in (1, 2, 3)}
    for end_us, setting in zip(until_us.tolist(), chosen, strict=True):
        steps = {
            threads: step_many(twins, setting, end_us, threads=threads)
            for threads, twins in batches.items()
        }
        for at, twin in enumerate(alone):
            if (own := setting[at]) is not None:
                twin.set_knobs(own)
            twin.run(end_us)
            seen = twin.observe(end_us)
            single = step_many([twin], None, end_us)
            for threads, step in steps.items():
                assert np.array_equal(step.observations[at], seen)
                assert np.array_equal(step.observations[at], single.observations[0])
                assert np.array_equal(step.gains[at], single.gains[0])
                assert step.finished[at] == twin.finished
                assert summary(batches[threads][at].state) == summary(twin.state)
                assert batches[threads][at].knobs == twin.knobs


@settings(max_examples=EXAMPLES // 4, **QUIET)
@given(problems(rules=share_knobs()), GAPS)
def test_twins_with_shares_step_too(problem: Problem, gaps: list[int]) -> None:
    twin = twin_of(problem)
    other = twin.clone()
    for gap in gaps:
        step_many([twin], [problem.knobs], for_us=gap * 1_000_000)
        other.set_knobs(problem.knobs)
        other.run(int(twin.ledger[0]))
    assert summary(twin.state) == summary(other.state)


@settings(max_examples=EXAMPLES // 2, **QUIET)
@given(problems(), GAPS)
def test_gains_add_up_to_the_totals_of_the_run(problem: Problem, gaps: list[int]) -> None:
    twin = twin_of(problem)
    total = np.zeros(len(GAINS))
    for gap in [*gaps, 10_000_000]:
        steps = step_many([twin], for_us=gap * 1_000_000)
        total += steps.gains[0]
        assert np.isfinite(steps.observations).all()
    mark = twin.mark(int(twin.ledger[0]))
    by_name = {field.name: value for field, value in zip(GAINS, total, strict=True)}
    clock, runs = twin.state.clock[0], twin.state.runs
    assert by_name["ends"] == clock.ends
    assert by_name["starts"] == clock.starts
    assert by_name["energy_j"] == pytest.approx(mark.energy_j, rel=1e-9)
    assert by_name["work_s"] == pytest.approx(mark.work_us / 1e6, rel=1e-9, abs=1e-6)
    assert by_name["busy_s"] == pytest.approx(mark.busy_us / 1e6, rel=1e-9, abs=1e-6)
    if mark.money is not None:
        assert by_name["money"] == pytest.approx(mark.money, rel=1e-9, abs=1e-9)
    if twin.finished:
        flow_s = float((runs.end_us - twin.state.jobs.submit_us).sum()) / 1e6
        assert by_name["flow_s"] == pytest.approx(flow_s, rel=1e-9, abs=1e-6)
        assert by_name["presence_s"] == pytest.approx(flow_s, rel=1e-9, abs=1e-6)


# Forks -----------------------------------------------------------------------------------


def of_jobs(state: State, job_ids: Any) -> list[Any]:
    """What has become of these jobs, of the nodes and of the cluster."""
    parts: list[Any] = [state.runs[name][job_ids].tolist() for name in (*OUTCOME, "moves")]
    parts += [state.nodes[name].tolist() for name in (*ACCOUNT, "money", "carbon_g", "free_mask")]
    return [*parts, *(state.clock[name].tolist() for name in CLOCK)]


def check_fork(problem: Problem, gaps: list[int], data: st.DataObject) -> None:
    """Fork on the way; up to the window's end both must go through the same states."""
    twin = twin_of(problem)
    begin_us = int(twin.state.clock[0].start_us)
    step_many([twin], until_us=begin_us + data.draw(st.integers(0, 300)) * 1_000_000)
    ahead_us = data.draw(st.sampled_from(WINDOW_SCALES)) * 1_000_000
    fork = twin.fork(ahead_us)
    if data.draw(st.booleans()):
        fork = fork.fork(data.draw(st.integers(0, ahead_us)))
    assert fork.part is not None
    job_ids = fork.part.job_ids
    everyone = np.arange(len(job_ids))
    assert (np.diff(job_ids) > 0).all()
    settings_ = data.draw(settings_like(problem.knobs))
    now_us = int(twin.ledger[0])
    for at, gap in enumerate(gaps):
        now_us = min(now_us + gap * 1_000_000, fork.part.until_us)
        setting = settings_[at % len(settings_)]
        if setting.order == Order.HISTORY != fork.knobs.order:
            with pytest.raises(BadInput, match="history"):
                fork.set_knobs(setting)
            setting = fork.knobs
        both = step_many([twin, fork], [setting, setting], now_us)
        assert of_jobs(fork.state, everyone) == of_jobs(twin.state, job_ids)
        assert np.array_equal(both.observations[0], both.observations[1])
        assert np.array_equal(both.gains[0], both.gains[1])
    if fork.part.until_us < FOREVER_US:
        with pytest.raises(BadInput, match="window"):
            fork.run(fork.part.until_us + 1)
        assert not fork.finished
    else:
        fork.run()
        twin.run()
        assert of_jobs(fork.state, everyone) == of_jobs(twin.state, job_ids)


@settings(max_examples=2 * EXAMPLES, **QUIET)
@given(problems(), GAPS, st.data())
def test_a_fork_runs_as_its_twin(problem: Problem, gaps: list[int], data: st.DataObject) -> None:
    check_fork(problem, gaps, data)


@settings(max_examples=EXAMPLES, **QUIET)
@given(problems(rules=move_knobs(), least_groups=2), GAPS, st.data())
def test_a_fork_runs_as_its_twin_while_jobs_move(
    problem: Problem, gaps: list[int], data: st.DataObject
) -> None:
    check_fork(problem, gaps, data)


@pytest.mark.soak
@settings(max_examples=500, **QUIET)
@given(problems(most=60) | problems(60, move_knobs(), 2), GAPS, st.data())
def test_knobs_and_forks_at_length(problem: Problem, gaps: list[int], data: st.DataObject) -> None:
    check_settings(problem, data)
    check_fork(problem, gaps, data)
