"""Sampled look-ahead: its futures hold what is known, and nothing of what is to come."""

import numpy as np
from tests.learn.small import SMALL

from flyball.core.codes import Status
from flyball.learn.env.problems import draw_problem
from flyball.learn.env.spaces import INCUMBENT
from flyball.learn.rivals.look_ahead import LookSettings, candidates, drawn_future, look_ahead
from flyball.learn.whole_runs import whole_runs
from flyball.twin.lookahead import NEVER_US
from flyball.twin.twin import Twin

HOUR_US = 3_600_000_000


def _at(fraction: float) -> Twin:
    problem = draw_problem(SMALL, np.random.default_rng(8))
    twin = Twin(problem.cluster, problem.workload, INCUMBENT, problem.effects)
    submit_us = twin.state.jobs.submit_us
    twin.run(int(submit_us[0] + fraction * (submit_us[-1] - submit_us[0])))
    return twin


def test_a_future_keeps_the_past_and_draws_the_rest() -> None:
    twin = _at(0.5)
    before = twin.state.jobs.copy()
    future = drawn_future(twin, twin.now_us, 6 * HOUR_US, np.random.default_rng(1))
    assert np.array_equal(twin.state.jobs, before)  # the original is as it was
    jobs, runs = future.state.jobs, future.state.runs
    next_job = int(future.state.clock["next_job"][0])
    ended = np.flatnonzero(np.asarray(runs.status[:next_job]) >= Status.DONE)
    assert np.array_equal(jobs.work_us[ended], before.work_us[ended])
    active = np.flatnonzero(np.asarray(runs.status[:next_job]) < Status.DONE)
    assert (jobs.work_us[active] > runs.done_us[active]).all()
    coming = np.asarray(jobs.submit_us[next_job:])
    assert (np.diff(coming) >= 0).all() and (coming >= twin.now_us).all()
    arrivals = coming < NEVER_US
    past = set(np.asarray(before.estimate_us[:next_job]).tolist())
    assert set(np.asarray(jobs.estimate_us[next_job:])[arrivals].tolist()) <= past


def test_what_is_to_come_does_not_matter() -> None:
    one, other = _at(0.5), _at(0.5)
    jobs = other.state.jobs.copy()
    next_job = int(other.state.clock["next_job"][0])
    jobs.work_us[next_job:] *= 7.0
    jobs.estimate_us[next_job:] *= 3.0
    other.state = other.state._replace(jobs=jobs)
    drawn = [
        drawn_future(twin, twin.now_us, HOUR_US, np.random.default_rng(1)) for twin in (one, other)
    ]
    ends = []
    for future in drawn:
        future.run(future.now_us + HOUR_US)
        ends.append(np.asarray(future.state.runs.end_us[:next_job]).copy())
    assert np.array_equal(ends[0], ends[1])


def test_it_runs_a_problem_to_its_end_and_hands_out_lessons() -> None:
    problem = draw_problem(SMALL, np.random.default_rng(8))
    settings = LookSettings(every=4, horizon=6, futures=1)
    totals, lessons = look_ahead([problem], settings, 1800.0, seed=1)
    plain = whole_runs([(problem, None)], 1800.0)[0]
    assert totals[0].completion_s > 0 and totals[0].priorities == plain.priorities
    strategies, residuals = candidates(len(problem.cluster.groups))
    for lesson in lessons:
        matches = (residuals == lesson.residuals).all(axis=1) & (strategies == lesson.strategy)
        assert matches.any()
    again, _ = look_ahead([problem], settings, 1800.0, seed=1)
    assert again == totals
