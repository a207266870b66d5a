"""Whole runs side by side: the same as runs of the twin by itself."""

from dataclasses import replace

import numpy as np
import pytest
from tests.learn.small import SMALL

from flyball.core.units import US_PER_S
from flyball.learn.env.problems import draw_problem
from flyball.learn.env.spaces import INCUMBENT
from flyball.learn.rivals.affine import affine_at, first_point
from flyball.learn.whole_runs import RunTotals, whole_runs
from flyball.twin.twin import Twin


def test_the_incumbent_and_a_policy_that_does_nothing_are_plain_runs() -> None:
    problems = [draw_problem(SMALL, np.random.default_rng(seed)) for seed in range(3)]
    idle = affine_at("linear", first_point("linear"))
    runs = whole_runs(
        [(problem, policy) for problem in problems for policy in (None, idle)], 1800.0
    )
    for at, problem in enumerate(problems):
        twin = Twin(problem.cluster, problem.workload, INCUMBENT, problem.effects)
        twin.run()
        jobs = twin.state.runs
        completion_s = float((jobs.end_us - twin.state.jobs.submit_us).mean()) / US_PER_S
        mark = twin.mark(twin.now_us)
        for run in runs[2 * at : 2 * at + 2]:
            assert run.completion_s == pytest.approx(completion_s)
            assert run.energy_j == pytest.approx(mark.energy_j)
            assert run.money == pytest.approx(mark.money or 0.0)
        assert runs[2 * at].score(runs[2 * at + 1]) == pytest.approx(0.0)


def test_runs_do_not_depend_on_what_runs_beside_them() -> None:
    problems = [draw_problem(SMALL, np.random.default_rng(seed)) for seed in (3, 4)]
    policy = affine_at("linear", first_point("linear") + 0.3)
    together = whole_runs([(problem, policy) for problem in problems], 900.0, threads=2)
    apart = [whole_runs([(problem, policy)], 900.0, threads=1)[0] for problem in problems]
    assert together == apart


def test_the_score_is_completion_times_the_cost_that_counts() -> None:
    goals = (1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    base = RunTotals(100.0, 1e6, 10.0, 500.0, 0.0, 1.0, 1.0, 1.0, goals)
    dearer = replace(base, completion_s=110.0, money=9.0, energy_j=1.0)
    assert dearer.score(base) == pytest.approx(np.log(1.1 * 0.9))
    carbon = (1.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    one, other = replace(base, priorities=carbon), replace(base, carbon_g=1000.0)
    assert one.score(other) == pytest.approx(0.5 * np.log(0.5))
