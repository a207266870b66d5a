"""The comparison: pairs, intervals, resuming, and who wins."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.learn.small import SMALL, small_setup

from flyball.core.errors import BadInput
from flyball.experiments.learning.arms import (
    BOUND,
    GUARDED,
    INCUMBENT,
    LOCAL,
    LOOK_AHEAD,
    MARKET,
    Arm,
    file_arm,
    run_arm,
    served_arms,
    standing_arms,
    trained_arms,
)
from flyball.experiments.learning.compare import (
    Compared,
    Plan,
    best_heuristic,
    change,
    phases,
    rows,
    run,
    verdict,
    winner,
)
from flyball.experiments.learning.instances import Instance, history_problems
from flyball.experiments.learning.mission import mission_rows
from flyball.experiments.run_file import RunFile
from flyball.learn.env.problems import draw_problem
from flyball.learn.policy.artifact import shipped
from flyball.learn.training.folder import RunFolder
from flyball.learn.training.kinds import Options, make_trainer, settings_of
from flyball.learn.training.sources import History
from flyball.learn.training.train import Budget, train
from flyball.learn.whole_runs import RunTotals
from flyball.twin.generate import generate, preset
from flyball.twin.inputs.cluster_file import load_cluster

GOALS = (1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def _totals(objective: float) -> RunTotals:
    return RunTotals(100.0 * math.exp(objective), 1e6, 0.0, 0.0, 0.0, 1.0, 60.0, 1.0, GOALS)


def _compared(changes: dict[str, tuple[str, str, list[float]]]) -> Compared:
    """Return a comparison of arms with given log changes from the incumbent."""
    count = len(next(iter(changes.values()))[2])
    groups = ["half load" if at % 2 else "held out" for at in range(count)]
    instances = tuple(Instance(group, f"of {group}", at) for at, group in enumerate(groups))
    arms = [Arm(INCUMBENT, INCUMBENT)]
    arms += [Arm(name, kind, path) for name, (kind, path, _) in changes.items()]
    compared = Compared(Plan(instances, tuple(arms)))
    for at in range(count):
        base = 0.1 * at  # instances differ; pairs do not
        compared.totals[at, 0] = _totals(base)
        for arm, (_, _, values) in enumerate(changes.values(), start=1):
            compared.totals[at, arm] = _totals(base + values[at])
    return compared


def test_a_change_is_a_geometric_mean_with_its_intervals() -> None:
    logs = [math.log(0.9), math.log(0.8)]
    figures = change(logs)
    assert figures is not None and figures.count == 2
    assert figures.mean == pytest.approx(100 * (math.sqrt(0.72) - 1))
    assert figures.low < -20 < -10 < figures.high
    same = change([math.log(0.9)] * 12)
    assert same is not None
    assert (same.mean, same.low, same.high, same.median) == pytest.approx((-10.0,) * 4)
    assert change([]) is None


def test_the_interval_of_a_median_covers_it() -> None:
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        figures = change(rng.normal(0.0, 1.0, 21).tolist())
        assert figures is not None
        covered += figures.median_low <= 0.0 <= figures.median_high
    assert 0.93 <= covered / 400 <= 0.99


def test_the_best_heuristic_is_chosen_in_hindsight_and_the_winner_must_beat_it() -> None:
    spread = [-0.02, 0.0, 0.02, -0.01, 0.01, 0.0] * 3
    compared = _compared({
        "fixed": ("fixed", "runs/fixed", [-0.10 + s for s in spread]),
        "rule": ("rule", "runs/rule", [-0.12 + s for s in spread]),
        "linear": ("linear", "runs/linear", [-0.20 - s for s in spread]),
        "bandit": ("bandit", "runs/bandit", [-0.50] * 18),
    })  # fmt: skip
    plan = compared.plan
    assert plan.arms[best_heuristic(compared)].name == "rule"
    assert plan.arms[winner(compared)].name == "linear"  # a bandit cannot be shipped
    result = verdict(compared, winner(compared), best_heuristic(compared))
    assert result["meets"] and result["overall"]["median"] == pytest.approx(-7.7, abs=0.5)
    table = rows(compared, compared.arm(INCUMBENT))
    assert {row["group"] for row in table} == {"all", "half load", "held out", "of held out"}


def test_a_policy_that_is_worse_in_a_held_out_scenario_does_not_meet_the_bar() -> None:
    compared = _compared({
        "rule": ("rule", "runs/rule", [0.0] * 20),
        "linear": ("linear", "runs/linear", [0.05 if at % 2 == 0 else -0.5 for at in range(20)]),
    })  # fmt: skip
    result = verdict(compared, compared.arm("linear"), compared.arm("rule"))
    assert result["held_out_worse"] == ["of held out"] and not result["meets"]


def test_two_phases_are_compared_with_one_of_the_same_policy() -> None:
    compared = _compared({
        "learned, guarded": (GUARDED, "learned", [-0.10] * 6),
        "mine, guarded": (GUARDED, "mine", [0.0] * 6),
        "mine, local": (LOCAL, "mine", [-0.02] * 6),
    })  # fmt: skip
    (row,) = phases(compared)
    assert (row["arm"], row["without"]) == ("mine, local", "mine, guarded")
    assert row["objective"]["mean"] == pytest.approx(100 * math.expm1(-0.02))
    assert row["cost"]["mean"] == pytest.approx(0.0)


def test_a_served_policy_is_run_with_its_guards_in_one_phase_and_in_two() -> None:
    arms = served_arms(file_arm("learned", shipped()))
    problem = draw_problem(replace(SMALL, price=1.0), np.random.default_rng(3))
    first, second = (run_arm(arm, problem, 1800.0) for arm in arms)
    assert [arm.kind for arm in arms] == [GUARDED, LOCAL]
    assert first.completion_s > 0 and second.money > 0


def _small_plan(energy: float = 1.0) -> Plan:
    problems = tuple(draw_problem(SMALL, np.random.default_rng(seed)) for seed in (1, 2))
    instances = tuple(Instance("history", "history", at) for at in range(2))
    return Plan(instances, tuple(standing_arms(1)), 1800.0, energy, problems)


def test_a_comparison_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan, done = _small_plan(), list[str]()
    assert len(plan.tasks()) == 6  # look-ahead and its bound on one instance only
    with RunFile(tmp_path / "runs.jsonl") as runs:
        first = run(plan, runs, done.append, 1)
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:3]) + "\n")
    with RunFile(tmp_path / "runs.jsonl") as runs:
        assert len(runs.records) == 3
        again = run(plan, runs, done.append, 1)
        assert len(runs.records) == 6
    assert again.totals == first.totals and len(done) == 12
    assert {name.partition(":")[0] for name in done} == {INCUMBENT, MARKET, LOOK_AHEAD, BOUND}


def test_a_training_run_becomes_an_arm_with_its_curve(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no training run"):
        trained_arms(tmp_path)
    setup, options = small_setup(), Options("rule", population=4, problems=2)
    folder = RunFolder(tmp_path / "rule", settings_of(setup, options, 2))
    trainer = make_trainer(setup, options)
    train(trainer, setup, folder, Budget(steps=2), 2, lambda *_: None, {"kind": "rule"})
    arms = trained_arms(tmp_path)
    assert [(arm.name, arm.kind, arm.is_heuristic) for arm in arms] == [("rule", "rule", True)]
    plan = replace(_small_plan(), arms=(Arm(INCUMBENT, INCUMBENT), *arms))
    with RunFile(tmp_path / "runs.jsonl") as runs:
        compared = run(plan, runs, lambda _: None, 1)
    (row,) = mission_rows(compared, ("rule", "hybrid"))
    assert row["kind"] == "rule" and row["seeds"] == 1 and row["converged_cpu_s"] > 0
    assert row["largest_devices"] == max(p.cluster.device_count for p in plan.problems)


def test_a_history_keeps_its_end_from_training() -> None:
    cluster = load_cluster("five-mixed")
    jobs = generate(preset("mixed"), 7, jobs=400, load=0.5, devices=cluster.device_count)
    history = History(cluster, jobs)
    parts = history.parts()
    assert [len(part) for part in parts] == [280, 40, 80]
    assert int(parts[1].submit_us[-1]) <= int(parts[2].submit_us[0])
    problems = history_problems(history)
    assert sum(len(problem.workload) for problem in problems) <= 80 and len(problems) >= 2
    assert all(int(problem.workload.submit_us[0]) == 0 for problem in problems)
    drawn = history.problem(np.random.default_rng(1), 0)
    assert len(drawn.workload) <= 280 and drawn.priorities[1] == 1.0
    with pytest.raises(BadInput, match="60 are needed"):
        History(cluster, jobs.take(np.arange(30)))


def test_a_cluster_that_is_held_out_is_not_trained_on() -> None:
    cluster = load_cluster("department")
    jobs = generate(preset("mixed"), 7, jobs=100, load=0.5, devices=cluster.device_count)
    with pytest.raises(BadInput, match="held out"):
        History(cluster, jobs)
