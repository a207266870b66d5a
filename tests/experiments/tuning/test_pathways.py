"""The bench of class pathways: workloads of the right class, honest pairs, rows as agreed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.knobs import Span
from flyball.core.workload import JobClass
from flyball.experiments.tuning.pathways import CASES, DAY_S, DAYS, SEEDS, judge, run, trials
from flyball.schedule.classify import classify_workload
from flyball.schedule.policies.registry import get_policy
from flyball.tune.pathways import Pathway, Setting, settings

EASY = get_policy("easy").knobs
TINY = Cluster("tiny", (NodeGroup("v", 1, "V100", 8),))


@pytest.mark.parametrize("kind", list(JobClass))
def test_workloads_are_of_their_class(kind: JobClass) -> None:
    """The class they state is the one their models would get, and they ask for the load."""
    case = CASES[kind]
    workload = case.workload(0)
    verdicts = classify_workload(replace(workload, kind=np.full(len(workload), -1)))
    assert (verdicts.kind == workload.kind).all()
    asked = float((workload.duration_us * workload.devices).sum()) / 1e6
    offered = case.cluster.device_count * DAYS * DAY_S
    assert case.load <= asked / offered < 1.25 * case.load
    assert (case.workload(0).duration_us == workload.duration_us).all()
    assert len(case.workload(1)) != len(workload)


def test_memory_bound_jobs_cannot_share_a_device() -> None:
    workload = CASES[JobClass.MEMORY_BOUND].workload(0)
    assert (2 * workload.memory_mib > 16 * 1024).all()


def test_every_pathway_is_tried_as_it_ships() -> None:
    judged = [trial for trial in trials() if trial.bar is not None]
    assert {trial.case.kind for trial in judged} == set(JobClass)
    for trial in judged:
        assert trial.setting is settings(trial.case.pathway)
        assert trial.bar == 0.0
        assert trial.span == Span.WHOLE
    assert SEEDS >= 5


def test_rows_are_as_agreed() -> None:
    """One small case: what it must hold, and that the latency-sensitive jobs gain."""
    [trial] = [trial for trial in trials() if trial.case.pathway == Pathway.PRIORITY]
    small = trial._replace(case=replace(trial.case, cluster=TINY))
    first, second = judge(small, seeds=2)
    assert list(first) == ["case", "load", "baseline", "metric", "value", "low", "high", "bar"]
    assert first["case"] == "latency-sensitive: priority pathway"
    assert first["low"] <= first["value"] <= first["high"]
    assert first["bar"] == 0.0 < first["value"] <= 100.0
    assert second["bar"] is None


def test_both_arms_run_the_same_jobs_to_their_end() -> None:
    case = replace(CASES[JobClass.BANDWIDTH_LIMITED], cluster=TINY)
    arms = (settings(case.pathway), Setting())
    ours, theirs = (run(case, 0, setting, EASY) for setting in arms)
    assert len(ours.mine) == len(theirs.mine) == len(theirs.results.submit_us)
    assert (ours.results.submit_us[ours.mine] == theirs.results.submit_us).all()
    for done in (ours, theirs):
        assert (done.results.status == Status.DONE).all()
