"""The run-time estimator: contract, cold start, online learning, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.core.errors import BadInput
from flyball.core.protocols import Estimator
from flyball.predict.runtime.backtest import Plan, backtest, figures
from flyball.predict.runtime.calibrate import Calibrator, EdgeOffsets
from flyball.predict.runtime.choose import PointChoice, RunTimeGuess, owners_of
from flyball.predict.runtime.estimator import CARD, COLD_S, RunTimes
from flyball.predict.runtime.history import Step, in_order
from flyball.predict.runtime.rows import Asked, runs_of
from flyball.predict.runtime.trees import LEVELS, MIDDLE, TreeSettings

NOBODY = Asked(0.0)
WIDE = (0.0, 1.0, 3.0, 9.0, 10.0)
SMALL = TreeSettings(rounds=30, band_rounds=20, leaves=7, least_rows=10, rate=0.1)


def trace(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Three tenants whose jobs take about 1, 10 and 100 minutes; size counts as well."""
    draw = np.random.default_rng(seed)
    rows = []
    for at in range(count):
        tenant, devices = int(draw.integers(3)), int(draw.choice([1, 4]))
        log_s = np.log(60.0 * 10**tenant) + (0.7 if devices == 4 else 0.0)
        run_s = float(np.exp(log_s + 0.3 * draw.standard_normal()))
        row = {"submit_s": 120.0 * at, "run_s": run_s, "tenant": f"t{tenant}", "devices": devices}
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def fitted() -> RunTimes:
    estimator = RunTimes(SMALL)
    estimator.fit(trace(900))
    return estimator


def test_contract(fitted: RunTimes) -> None:
    estimator: Estimator = fitted
    asked = [{"submit_s": 120_000.0, "tenant": f"t{tenant}", "devices": 1} for tenant in range(3)]
    quantiles = estimator.predict(asked)
    assert quantiles.shape == (3, len(LEVELS))
    assert np.all(np.diff(quantiles, axis=1) >= 0.0)
    np.testing.assert_allclose(np.log(quantiles[:, MIDDLE] / [60, 600, 6000]), 0.0, atol=0.3)
    np.testing.assert_array_equal(quantiles, estimator.predict(asked))
    assert "trees" in fitted.basis(asked[0])


def test_nothing_known() -> None:
    estimator = RunTimes()
    quantiles = estimator.predict([{"submit_s": 0.0}, {"submit_s": 0.0, "limit_s": 600.0}])
    assert quantiles[0, MIDDLE] == pytest.approx(COLD_S)
    assert quantiles[0, -1] / quantiles[0, 0] > 500.0
    assert quantiles[1, MIDDLE] == pytest.approx(300.0)
    assert quantiles[1].max() == 600.0
    assert "nothing has ended" in estimator.basis({"submit_s": 0.0})
    assert estimator.predict([]).shape[0] == 0


def test_few_jobs_need_no_trees() -> None:
    estimator = RunTimes()
    estimator.fit(trace(60))
    quantiles = estimator.predict([{"submit_s": 9_000.0, "tenant": "t2", "devices": 1}])
    assert 2_000.0 < quantiles[0, MIDDLE] < 20_000.0
    assert "too few for trees" in estimator.basis({"submit_s": 9_000.0, "tenant": "t2"})
    new = estimator.predict([{"submit_s": 9_000.0, "tenant": "never seen"}])
    assert np.all(np.isfinite(new))


def test_the_first_jobs_of_an_owner_are_predicted_by_the_ones_before() -> None:
    estimator = RunTimes()
    for at, run_s in enumerate((100.0, 110.0, 5_000.0)):
        estimator.submitted(at, {"submit_s": 6_000.0 * at, "user": "ada", "name": "train"})
        estimator.started(at, 6_000.0 * at)
        estimator.ended(at, run_s, 6_000.0 * at + run_s)
    asked = {"submit_s": 20_000.0, "user": "ada", "name": "train"}
    assert estimator.predict([asked])[0, MIDDLE] == pytest.approx(110.0)


def test_learns_on_line(fitted: RunTimes) -> None:
    """A tenant changes what it does: the next predictions follow without new trees."""
    estimator = RunTimes(SMALL)
    estimator.fit(trace(400))
    asked = {"tenant": "t0", "devices": 1}
    before = estimator.predict([{"submit_s": 60_000.0, **asked}])[0, MIDDLE]
    for at in range(30):
        now_s = 60_000.0 + 100.0 * at
        estimator.submitted(at, {"submit_s": now_s, **asked})
        estimator.started(at, now_s)
        estimator.ended(at, 2_400.0, now_s + 2_400.0)
    after = estimator.predict([{"submit_s": 70_000.0, **asked}])[0, MIDDLE]
    assert after > 4 * before
    estimator.ended("unknown", 1.0, 1.0)


def test_cancelled_jobs_teach_nothing() -> None:
    estimator = RunTimes(SMALL)
    estimator.submitted(1, {"submit_s": 0.0, "tenant": "a"})
    estimator.started(1, 0.0)
    estimator.cancelled(1)
    estimator.cancelled(2)
    estimator.ended(1, 5.0, 5.0)
    assert "nothing has ended" in estimator.basis({"submit_s": 9.0, "tenant": "a"})


def test_unfinished_jobs_are_not_short() -> None:
    """One row in three has not ended: the estimate must not come from the short ones alone."""
    rows = trace(600)
    for row in rows[-200:]:
        del row["run_s"]
    estimator = RunTimes(SMALL)
    estimator.fit(rows)
    quantiles = estimator.predict([{"submit_s": 80_000.0, "tenant": "t2", "devices": 1}])
    assert quantiles[0, MIDDLE] > 3_000.0


def test_files(fitted: RunTimes, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    card = json.loads((tmp_path / "model" / CARD).read_text())
    assert card["jobs"] == 900
    assert all((tmp_path / "model" / name).read_text().startswith("tree") for name in card["files"])
    again = RunTimes.load(tmp_path / "model")
    assert again.calibrator.band == fitted.calibrator.band
    table = np.random.default_rng(0).normal(5, 1, (4, len(card["features"])))
    np.testing.assert_allclose(again.trees.predict(table), fitted.trees.predict(table))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no run-time model"):
        RunTimes.load(tmp_path)
    (tmp_path / CARD).write_text('{"version": 99}')
    with pytest.raises(BadInput, match="another version"):
        RunTimes.load(tmp_path)


def test_backtest_is_what_happens_live() -> None:
    """Row by row through `submitted` and `ended`, and all at once: the same numbers."""
    rows = trace(700)
    runs = runs_of(rows)
    plan = Plan(test_s=120.0 * 500, refit_s=1e9, warm_s=120.0 * 100)
    outcome = backtest(runs, plan, SMALL)
    assert outcome.fits == 1
    live, predicted, begun = RunTimes(SMALL), {}, False
    for when_s, step, at, run in in_order(runs):
        if not begun and when_s >= plan.test_s - plan.warm_s:
            live.refit(plan.test_s - plan.warm_s)
            live.calibrator, begun = Calibrator(), True
        if step is Step.SUBMIT:
            predicted[at] = live.submitted(at, rows[at])
        elif step is Step.START:
            live.started(at, when_s)
        else:
            live.ended(at, run.run_s, when_s)
    given = np.log([predicted[at] for at in range(500, 700)])
    np.testing.assert_allclose(given, outcome.quantiles, rtol=1e-6)
    scores = figures(outcome)
    assert scores["flyball"]["spearman"] > 0.85
    assert 0.8 < scores["flyball"]["band_coverage"] <= 1.0
    assert scores["flyball"]["mean_abs_log_error"] < scores["median"]["mean_abs_log_error"]
    with pytest.raises(BadInput, match="test slice"):
        backtest(runs, Plan(1e9), SMALL)


def test_band_reaches_its_level() -> None:
    draw, calibrator = np.random.default_rng(0), Calibrator()
    inside = 0
    for at in range(6_000):
        log_s = 5.0 + draw.standard_normal()
        guess = RunTimeGuess(5.0, float("nan"), (4.9, 4.95, 5.0, 5.05, 5.1))
        band = calibrator.expect(at, guess, NOBODY)
        inside += at >= 2_000 and band[0] <= log_s <= band[-1]
        calibrator.started(at, 1e6 * at)
        calibrator.ended(at, log_s)
        calibrator.advance(1e6 * at + 5e5)
    assert inside / 4_000 == pytest.approx(0.9, abs=0.015)


def test_a_miss_is_known_before_the_end() -> None:
    calibrator = Calibrator()
    calibrator.expect(1, RunTimeGuess(2.0, 2.0, (1.0, 1.5, 2.0, 2.5, 3.0)), NOBODY)
    calibrator.started(1, 100.0)
    calibrator.advance(100.0 + np.exp(3.0) - 1.0)
    assert calibrator.band == EdgeOffsets()
    calibrator.advance(100.0 + np.exp(3.0) + 1.0)
    high = calibrator.band.high
    assert high > 0.0
    calibrator.ended(1, 9.0)
    assert calibrator.band.high == high


def test_the_better_point_wins_by_owner() -> None:
    choice, guess = PointChoice(), RunTimeGuess(3.0, 5.0, WIDE)
    ada, ben = (owners_of(Asked(0.0, user=user)) for user in ("ada", "ben"))
    assert choice.point(guess, ada) == 5.0  # nothing is known: the latest like jobs
    for _ in range(100):
        choice.learn(guess, ada, 5.0)
        choice.learn(guess, ben, 3.0)
    assert choice.share(guess, ada) == 0.0
    assert choice.share(guess, ben) == 1.0
    assert choice.point(RunTimeGuess(3.0, float("nan"), WIDE), ada) == 3.0
    # Without trees, their stand-in has a score of its own.
    assert choice.share(RunTimeGuess(3.0, 5.0, WIDE, grown=False), ben) == 0.0
    kept = PointChoice.from_list(json.loads(json.dumps(choice.as_list())))
    assert kept.scores == {(True, ()): choice.scores[True, ()]}


def test_the_point_is_within_the_quartiles_of_the_trees() -> None:
    narrow = RunTimeGuess(3.0, 5.0, (2.0, 2.5, 3.0, 3.5, 6.0))
    assert PointChoice().point(narrow, owners_of(NOBODY)) == 3.5
    stand_in = RunTimeGuess(3.0, 5.0, narrow.quantiles, grown=False)
    assert PointChoice().point(stand_in, owners_of(NOBODY)) == 5.0


def test_a_few_hopeless_jobs_do_not_decide_the_point() -> None:
    """Nine jobs in ten repeat exactly; the mean error prefers what is half wrong for all."""
    choice, nobody = PointChoice(), owners_of(NOBODY)
    for at in range(100):
        choice.learn(RunTimeGuess(6.0, 5.0, ()), nobody, 20.0 if at % 10 == 0 else 5.0)
    assert choice.share(RunTimeGuess(6.0, 5.0, ()), nobody) == 0.0


def test_tasks_that_come_together_are_looked_at_once() -> None:
    estimator = RunTimes()
    row = {"submit_s": 0.0, "user": "ada", "name": "train", "limit_s": 5_000.0}
    for at in range(4):
        estimator.submitted(at, {**row, "submit_s": 1_000.0 * at})
        estimator.ended(at, 300.0, 1_000.0 * at + 300.0)
    assert estimator.learnt == 4
    assert estimator.like({**row, "submit_s": 9_000.0}) == 4
    assert estimator.like({**row, "submit_s": 9_000.0, "user": "ben"}) == 0
    first = estimator.submitted("a", {**row, "submit_s": 9_000.0})
    second = estimator.came_with("a", "b", 9_001.0)
    assert second.tolist() == first.tolist()
    estimator.ended("b", 600.0, 9_700.0)
    assert estimator.learnt == 5, "each of them teaches"
    later = estimator.predict([{**row, "submit_s": 9_800.0}])[0]
    assert later[MIDDLE] >= first[MIDDLE]
