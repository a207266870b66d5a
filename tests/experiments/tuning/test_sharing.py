"""The bench of sharing: on paper by hand, in the twin on a small cluster."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.intervals import student_95
from flyball.experiments.tuning import sharing
from flyball.experiments.tuning.sharing import ARMS, fluid_gain, matched_gain, on_paper, workload
from flyball.experiments.workers import Workers


def test_two_that_go_together_share_a_device() -> None:
    true = np.array([[0.5, 0.9], [0.85, 0.5]])
    drawn = np.array([0, 1, 1])
    assert matched_gain(true, true, drawn) == pytest.approx((0.9 + 0.85 + 1) / 2)


def test_a_pair_that_is_predicted_too_well_is_parted() -> None:
    true, guess = np.full((1, 1), 0.7), np.full((1, 1), 0.9)
    assert matched_gain(true, guess, np.zeros(2, int)) == 1.0
    assert matched_gain(true, true, np.zeros(2, int)) == 1.0


def test_over_running_time_alone_and_together_add_up() -> None:
    """Speed 0.7 beside its like, limit 0.2: a third of the time alone, two thirds together.

    For 3 hours of a job 1 + 2 x 0.7 = 2.4 of work, on 1 + 2 / 2 = 2 hours of a device.
    """
    assert fluid_gain(np.full((1, 1), 0.7), np.array([10]), 0.2) == pytest.approx(1.2)
    assert fluid_gain(np.full((1, 1), 0.9), np.array([10]), 0.2) == pytest.approx(1.8)
    assert fluid_gain(np.full((1, 1), 0.4), np.array([10]), 0.2) == pytest.approx(1.0)


def test_on_paper_v100_gains_and_k80_never_loses() -> None:
    by_case = {row["case"]: row for row in (*on_paper("V100"), *on_paper("K80"))}
    every_pair = by_case["sharing on V100, on paper, oracle"]
    over_time = by_case["sharing on V100, on paper, over running time"]
    assert 9.0 < every_pair["value"] < over_time["value"]
    assert over_time["low"] >= over_time["bar"] == 12.0
    assert by_case["sharing on K80, on paper, oracle"]["low"] >= 0.0


def test_workloads_have_the_share_of_one_device_jobs() -> None:
    jobs = workload(3, "V100", 64)
    used = jobs.devices * jobs.duration_us
    assert used[jobs.devices == 1].sum() / used.sum() == pytest.approx(0.335, abs=0.01)
    assert used.sum() / 1e6 == pytest.approx(1.5 * 64 * 2 * 86_400, rel=0.01)
    assert (workload(3, "V100", 64).duration_us == jobs.duration_us).all()


def test_the_interval_is_students() -> None:
    row = sharing.gain_row("c", 1.0, [1.0, 2.0, 3.0], "work", None)
    assert row["value"] == 2.0
    assert row["high"] - 2.0 == pytest.approx(student_95(2) / np.sqrt(3))


def test_in_the_twin_sharing_adds_work_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "NODES", 2)
    monkeypatch.setattr(sharing, "DAYS", 0.4)
    alone = sharing.replay("V100", 0, None)
    for arm in ARMS:
        shared = sharing.replay("V100", 0, arm)
        assert shared.work > alone.work
        assert shared.slowest <= 0.205  # whatever was believed of pairs
    assert alone.moves == 0.0 and alone.slowest == pytest.approx(0.0, abs=1e-6)
    for arm in ARMS:
        shared = sharing.replay("K80", 0, arm)
        assert shared.work == sharing.replay("K80", 0, None).work


def test_every_row_of_a_small_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "NODES", 1)
    monkeypatch.setattr(sharing, "DAYS", 0.1)
    monkeypatch.setattr(sharing, "SEEDS", range(2))
    monkeypatch.setattr(Workers, "_pays", lambda *_: False)
    rows = sharing.rows()
    work = {row["case"]: row for row in rows if row["metric"] == "work" and row["load"]}
    assert len(work) == 2 * len(ARMS)
    for arm in ARMS:
        assert work[f"sharing on K80, in the twin, {arm.name}"]["value"] == 0.0
        bar = work[f"sharing on V100, in the twin, {arm.name}"]["bar"]
        assert bar == (12.0 if arm.promised else None)
