"""Fronts: who is on them, for which weight, over which settings; tuned arms and what they add."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from flyball.app import PolicySetting, policy_settings, tuned, tuning_setting
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.metrics import Summary
from flyball.core.workload import Workload
from flyball.experiments.pareto import (
    AIMS,
    SWEPT,
    Point,
    dominated,
    judged,
    parse_aims,
    sweep,
    swept_settings,
)
from flyball.experiments.pareto_figure import pareto_figure
from flyball.experiments.replay import ReplayCase, Run, changes, run_all
from flyball.experiments.tuning.tuned import ablation, beside, rows, with_elastic_jobs
from flyball.tune.registry import settings

CLUSTER = Cluster("two", (NodeGroup("t", 2, "T4", 4), NodeGroup("a", 1, "A100-40GB", 4)))
EASY = policy_settings("easy", [])[0]
ENERGY, COMPLETION = AIMS["energy"], AIMS["completion"]


def workload(jobs: int = 24) -> Workload:
    rng = np.random.default_rng(4)
    return Workload.of(
        "test",
        np.cumsum(rng.exponential(60.0, jobs)),
        rng.lognormal(6.5, 0.8, jobs),
        rng.choice((1, 2, 4), jobs),
        model=0,
        models=("cifar10 (batch size 2048)",),
    )


@pytest.fixture(scope="module")
def summary() -> Summary:
    """Of any run; tests set the numbers they need."""
    case = ReplayCase(CLUSTER, (workload(3),), (EASY,), Effects())
    return case.run(0, 0).summary


def run(summary: Summary, policy: str, energy: float, hours: float, seed: int = 0) -> Run:
    spread = replace(summary.completion_s, mean=hours * 3600)
    changed = replace(summary, energy_per_work=energy, completion_s=spread)
    return Run(policy, seed, changed, 0.0)


# Who is on the front -------------------------------------------------------------------


def test_dominated() -> None:
    points = [(1.0, 4.0), (2.0, 2.0), (2.0, 3.0), (4.0, 1.0), (4.0, 4.0)]
    assert [dominated(cost, points) for cost in points] == [False, False, True, False, True]
    assert not dominated((2.0, 2.0), [(2.0, 2.0), (2.0, 2.0)])  # equals do not dominate
    assert dominated((math.nan, 0.0), points)


def test_points_are_judged_with_the_weights_they_are_best_for(summary: Summary) -> None:
    arms = [replace(EASY, name=name) for name in ("plain", "thrifty", "between", "quick", "worse")]
    values = [(1.0, 10.0), (0.5, 10.0), (0.7, 6.0), (1.0, 5.0), (1.1, 6.0)]
    runs = [run(summary, arm.name, *pair) for arm, pair in zip(arms, values, strict=True)]
    points = judged(runs, arms, (ENERGY, COMPLETION))
    assert [point.values for point in points] == values
    assert [point.on_front for point in points] == [False, True, True, True, False]
    # By hand: quick = between at w ln(0.7 / 1) = (1 - w) ln(5 / 6), w = 0.338; between = thrifty
    # at w ln(0.7 / 0.5) = (1 - w) ln(10 / 6), w = 0.603. Weights are tried in steps of 0.05.
    assert points[3].weights == (0.0, 0.3)
    assert points[2].weights == (0.35, 0.6)
    assert points[1].weights == (0.65, 1.0)
    assert points[0].weights is None
    assert points[1].as_dict((ENERGY, COMPLETION)) == {
        "policy": "thrifty",
        "settings": {},
        "energy": 0.5,
        "completion": 10.0,
        "on_front": True,
        "weights": (0.65, 1.0),
    }


def test_values_are_means_over_seeds_and_more_may_be_better(summary: Summary) -> None:
    arms = [replace(EASY, name=name) for name in ("a", "b")]
    runs = [run(summary, "a", 1.0, 2.0, 0), run(summary, "a", 1.0, 4.0, 1)]
    runs += [run(summary, "b", 2.0, 1.0, 0), run(summary, "b", 2.0, 1.0, 1)]
    more = [replace(run, summary=replace(run.summary, work_per_window=7.0)) for run in runs[2:]]
    less = [replace(run, summary=replace(run.summary, work_per_window=5.0)) for run in runs[:2]]
    points = judged([*less, *more], arms, (AIMS["work"], COMPLETION))
    assert points[0].values == (5.0, 3.0)
    assert [point.on_front for point in points] == [False, True]


def test_nothing_is_best_where_nothing_can_be_compared(summary: Summary) -> None:
    arms = [replace(EASY, name=name) for name in ("a", "b")]
    runs = [run(summary, "a", 0.0, 0.0), run(summary, "b", 0.0, 0.0)]
    points = judged(runs, arms, (ENERGY, COMPLETION))
    assert [point.weights for point in points] == [None, None]


def test_aims_by_name() -> None:
    assert parse_aims(" energy, completion") == (ENERGY, COMPLETION)
    with pytest.raises(BadInput, match=r"does not name two aims; e\.g\. energy,completion"):
        parse_aims("energy")
    with pytest.raises(BadInput, match="two aims"):
        parse_aims("energy,energy")
    with pytest.raises(UnknownName, match="did you mean 'energy'"):
        parse_aims("enery,completion")


# Settings ------------------------------------------------------------------------------


def test_the_sweep_keeps_to_its_ranges_and_only_grows() -> None:
    tuning = tuning_setting("elastic,power", [])
    arms = sweep(EASY, tuning, 40)
    assert arms[0] is EASY
    assert len({arm.name for arm in arms}) == 41
    assert arms[1].tuning == tuning
    swept = [swept_settings(arm) for arm in arms]
    assert swept[0] == {}
    assert swept[1] == {
        f"{name}.{key}": settings(name)[key] for name in ("elastic", "power") for key in SWEPT[name]
    }
    # The optimiser's weights come first: all for completion, ..., all for energy.
    assert swept[2]["power.slowdown"] == 0.0 < swept[6]["power.slowdown"]
    assert swept[2]["elastic.eta"] < swept[6]["elastic.eta"]
    for values in swept[7:]:
        for key, value in values.items():
            tuner, _, name = key.partition(".")
            low, high = SWEPT[tuner][name]
            assert low <= value <= high
    # Evenly: each third of a range has about a third of the points.
    etas = np.array([values["elastic.eta"] for values in swept[7:]])
    thirds = np.histogram(etas, 3, (0.3, 1.0))[0]
    assert thirds.min() >= 10
    assert sweep(EASY, tuning, 12) == arms[:13]


def test_tuners_without_a_setting_to_weigh_are_refused() -> None:
    with pytest.raises(BadInput, match="balance has no setting to weigh aims with"):
        sweep(EASY, tuning_setting("balance", []), 4)


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_figure(kind: str, magic: bytes) -> None:
    points = [
        Point("easy", {}, (0.3, 7.0)),
        Point("easy #0", {"elastic.eta": 0.5}, (0.2, 2.0), True, (0.0, 0.5)),
        Point("easy #1", {"elastic.eta": 0.7}, (0.18, 2.5), True),
        Point("easy #2", {"elastic.eta": 0.9}, (0.25, 2.5)),
    ]
    image = pareto_figure(points, (ENERGY, COMPLETION), "a title", kind)
    assert image.startswith(magic)
    assert image == pareto_figure(points, (ENERGY, COMPLETION), "a title", kind)


def test_a_figure_of_nothing_but_the_policy() -> None:
    points = [Point("easy", {}, (0.3, 7.0), True)]
    assert pareto_figure(points, (ENERGY, COMPLETION), "a title").startswith(b"\x89PNG")


# Arms ----------------------------------------------------------------------------------


def test_elastic_jobs_are_drawn_by_seed() -> None:
    jobs = Workload.of("w", np.arange(1000), 10.0, np.arange(1000) % 3, milli=1000)
    some, more = with_elastic_jobs(jobs, 0.5, 1), with_elastic_jobs(jobs, 0.8, 1)
    chosen = some.most < 0
    assert chosen[jobs.devices > 0].mean() == pytest.approx(0.5, abs=0.05)
    assert not chosen[jobs.devices == 0].any()
    assert (more.most[chosen] < 0).all()  # a larger share only adds
    assert (with_elastic_jobs(jobs, 0.5, 2).most != some.most).any()
    assert not with_elastic_jobs(jobs, 0.0, 1).most.any()
    stated = replace(jobs, least=np.ones(1000, np.int64), most=np.full(1000, 4))
    assert with_elastic_jobs(stated, 0.5, 1) is stated
    with pytest.raises(BadInput, match="an elastic share of 2 is out of range"):
        with_elastic_jobs(jobs, 2.0, 1)


def test_arms_and_what_they_are_compared_with() -> None:
    tuning = tuning_setting("elastic,power", [])
    arms = beside(policy_settings("easy,sjf", []), tuning)
    assert [arm.name for arm in arms.policies] == [
        "easy", "easy+elastic+power", "sjf", "sjf+elastic+power",
    ]  # fmt: skip
    assert arms.against["sjf+elastic+power"] == "sjf"
    arms = ablation(EASY, tuning, ["power"])
    assert [arm.name for arm in arms.policies] == ["easy", "easy+elastic+power", "without power"]
    assert arms.policies[2].tuning == tuning_setting("elastic", [])
    assert arms.against == {
        "easy+elastic+power": "easy",
        "without power": "easy+elastic+power",
    }
    with pytest.raises(BadInput, match="share cannot be left out: it is not among the tuners"):
        ablation(EASY, tuning, ["share"])


def test_the_last_tuner_left_out_is_the_policy_alone() -> None:
    # Caps alone: a window this short would blame sleep for the time that nodes take to wake.
    arms = ablation(EASY, tuning_setting("power", ["power.spare=-1"]), ["power"])
    jobs = workload(8)
    runs = run_all(ReplayCase(CLUSTER, (jobs,), arms.policies, Effects()), workers=1)
    table = rows(runs, arms)
    assert table[2]["policy"] == "without power"
    assert table[2]["left_out"] == "power"
    assert table[2]["energy_per_work"] == table[0]["energy_per_work"] > table[1]["energy_per_work"]
    assert table[0]["change"] is None
    back = table[2]["change"]["energy_per_work"]["percent"][0]
    there = table[1]["change"]["energy_per_work"]["percent"][0]
    assert (1 + back / 100) * (1 + there / 100) == pytest.approx(1.0)


@pytest.mark.nojit
def test_what_nobody_tunes_runs_as_its_user_set_it() -> None:
    # Batches that follow the devices would be faster even on the devices that a job asks for.
    jobs = with_elastic_jobs(workload(), 1.0, 0)
    plain = ReplayCase(CLUSTER, (workload(),), (EASY,), Effects()).run(0, 0).summary
    effects = Effects(adaptive_batch=True, share_limit=2, speed_error=0.3)
    assert ReplayCase(CLUSTER, (jobs,), (EASY,), effects).run(0, 0).summary == plain
    arm = tuned(EASY, tuning_setting("power", ["power.slowdown=0", "power.spare=-1"]))
    capped = ReplayCase(CLUSTER, (jobs,), (arm,), effects).run(0, 0).summary
    assert capped.preemptions == 0
    assert capped.work_per_window == pytest.approx(plain.work_per_window)


@pytest.mark.nojit
def test_elastic_helps_a_full_cluster_and_says_what_it_did() -> None:
    jobs = with_elastic_jobs(workload(), 1.0, 0)
    arms = beside([EASY], tuning_setting("elastic", []))
    case = ReplayCase(CLUSTER, (jobs,), arms.policies, Effects(), watch=True)
    runs = run_all(case, workers=1)
    assert runs[0].adjustments == ()
    change = changes(runs, arms.against)[0]["completion_s"]
    assert change["mean"] < 0
    adjustments = runs[1].adjustments
    assert {adjustment.action for adjustment in adjustments} >= {"start"}
    for adjustment in adjustments:
        assert adjustment.sentence
        assert adjustment.unit == "reference devices"
        if adjustment.action == "preempt":
            assert adjustment.after is None, "it waits"
        else:
            assert isinstance(adjustment.after, dict)
            assert adjustment.after["devices"] >= 1


def test_feedback_is_a_setting_of_the_tuning() -> None:
    tuning = replace(tuning_setting("elastic,power", []), feedback=True)
    arm = tuned(EASY, tuning)
    effects = Effects(speed_error=0.5)
    jobs = with_elastic_jobs(workload(12), 1.0, 0)
    summary = ReplayCase(CLUSTER, (jobs,), (arm,), effects).run(0, 0).summary
    assert summary.jobs == 12
    assert isinstance(arm, PolicySetting)
