"""Policies x seeds: the same results whoever runs them."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest

from flyball.app import PolicySetting, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, FlyballError, UnknownName
from flyball.core.knobs import Knobs
from flyball.core.protocols import Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.experiments import replay, workers
from flyball.experiments.figures import queue_curve, replay_figure
from flyball.experiments.replay import ReplayCase, Run, differences, run_all

CLUSTER = Cluster("two", (NodeGroup("a", 1, "V100", 2), NodeGroup("b", 1, "T4", 2)))


def workload(jobs: int = 40) -> Workload:
    rng = np.random.default_rng(3)
    return Workload.of(
        "test",
        np.cumsum(rng.exponential(300.0, jobs)),
        rng.lognormal(6.0, 1.5, jobs),
        rng.integers(1, 3, jobs),
    )


def case(policies: str = "fifo,easy,srtf", seeds: int = 3, keep: str = "none") -> ReplayCase:
    chosen = tuple(policy_settings(policies, []))
    return ReplayCase(CLUSTER, (workload(),), chosen, Effects(estimate_sigma=0.8), seeds, keep)


def untimed(runs: list[Run]) -> list[Run]:
    return [replace(run, run_s=0.0) for run in runs]


def test_policies_by_name() -> None:
    assert [policy.name for policy in policy_settings(" easy, fifo,easy", [])] == ["easy", "fifo"]
    assert len(policy_settings("all", [])) >= 8
    assert policy_settings("easy", ["depth=7"])[0].knobs.depth == 7
    with pytest.raises(UnknownName, match="did you mean 'fifo'"):
        policy_settings("fifi", [])


@pytest.mark.nojit
def test_every_policy_under_every_seed_in_order() -> None:
    seen: list[str] = []
    runs = run_all(case(), workers=1, done=lambda run: seen.append(run.policy))
    assert [(run.policy, run.seed) for run in runs] == [
        (policy, seed) for policy in ("fifo", "easy", "srtf") for seed in range(3)
    ]
    assert len(seen) == 9
    # FIFO looks at no estimate; the others are told other estimates by each seed.
    fifo = [run.summary for run in runs if run.policy == "fifo"]
    assert fifo[0] == fifo[1] == fifo[2]
    srtf = [run.summary.completion_s.mean for run in runs if run.policy == "srtf"]
    assert len(set(srtf)) > 1


def test_workers_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = run_all(case(), workers=1)
    monkeypatch.setattr(replay, "POOL_PAYS_S", -1.0)
    together = run_all(case(), workers=2)
    assert untimed(alone) == untimed(together)


def test_a_worker_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    good = workload()
    bad = replace(good, devices=np.full(len(good), 99))
    monkeypatch.setattr(replay, "POOL_PAYS_S", -1.0)
    chosen = tuple(policy_settings("fifo", []))
    with pytest.raises(Exception, match="asks for 99 GPUs"):
        run_all(ReplayCase(CLUSTER, (good, bad, bad), chosen, Effects(), seeds=3), workers=2)


@pytest.mark.nojit
def test_a_workload_per_seed() -> None:
    chosen = tuple(policy_settings("fifo", []))
    both = ReplayCase(CLUSTER, (workload(20), workload(30)), chosen, Effects(), seeds=2)
    assert [run.summary.jobs for run in run_all(both, workers=1)] == [20, 30]


@pytest.mark.parametrize(("keep", "kept"), [("none", 0), ("first", 2), ("all", 4)])
def test_raw_results_only_where_asked(keep: str, kept: int) -> None:
    runs = run_all(case("fifo,easy", 2, keep), workers=1)
    assert sum(run.results is not None for run in runs) == kept


def test_an_impossible_job_is_refused() -> None:
    jobs = Workload.of("w", [0.0], [1.0], [3])
    with pytest.raises(BadInput, match="asks for 3 GPUs"):
        run_all(ReplayCase(CLUSTER, (jobs,), tuple(policy_settings("fifo", [])), Effects()))


class Idle:
    """A policy that starts nothing."""

    def decide(self, state: State, outlook: Outlook) -> Records:
        return records(0, ACTION)


def test_a_policy_that_starts_nothing_is_named() -> None:
    idle = PolicySetting("idle", Knobs(), decider=Idle())
    with pytest.raises(FlyballError, match=r"^idle: 40 jobs of 40 never started.*; have it start"):
        run_all(replace(case("fifo", 1), policies=(idle,)), workers=1)


def test_differences_are_paired() -> None:
    gaps = differences(run_all(case(), workers=1))
    assert [(gap["policy"], gap["against"]) for gap in gaps] == [
        ("easy", "fifo"),
        ("srtf", "fifo"),
    ]
    gap = gaps[1]["completion_s"]
    assert gap["low"] <= gap["mean"] <= gap["high"]
    assert not math.isnan(gap["low"])


def test_cores() -> None:
    assert 1 <= workers.usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_figure(kind: str, magic: bytes) -> None:
    runs = run_all(case("fifo,easy,srtf", 1, "first"), workers=1)
    image = replay_figure(runs, "a title", kind)
    assert image.startswith(magic)
    assert len(image) > 10_000


@pytest.mark.nojit
def test_queue_curve() -> None:
    # One job at a time: at 0 the first starts; two more wait until 10 s and 20 s.
    one = Cluster("one", (NodeGroup("a", 1, "V100", 1),))
    jobs = Workload.of("w", [0.0, 1.0, 1.0], [10.0, 10.0, 10.0])
    lone = ReplayCase(one, (jobs,), tuple(policy_settings("fifo", [])), Effects(), 1, "all")
    results = run_all(lone)[0].results
    assert results is not None
    days, waiting = queue_curve(results)
    assert waiting.tolist() == [0, 2, 1, 0]
    assert (days * 86_400).round(6).tolist() == [0, 1, 10, 20]
