"""Predicted run times in decisions: on record, repeatable, and worth it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import TWO_NODES, Rig, env, spec_of

from flyball.control.decide.job_slots import expected_s
from flyball.control.decide.verify import Verifier
from flyball.control.jobs.live_state import PREDICTION
from flyball.core.jobs import Job, JobState
from flyball.core.live import EventKind
from flyball.learn.run_times import RunTimeLearner

LONG, SHORT = 400.0, 20.0


def rig_of(
    folder: Path, policy: str = "sjf", learns: bool = True, settings: tuple[str, ...] = ()
) -> Rig:
    folder.mkdir(exist_ok=True)
    rig = Rig(folder, policy, settings)
    if learns:
        rig.plane.learner = RunTimeLearner()
    return rig


def taught(rig: Rig) -> Rig:
    """Four long jobs of ada's and four short ones of ben's have ended."""
    for _ in range(4):
        rig.submit(user="ada", name="train", cpus=4, env=env(LONG))
        rig.submit(user="ben", name="test", cpus=4, env=env(SHORT))
        rig.finish()
    return rig


def test_a_decision_uses_predictions(tmp_path: Path) -> None:
    rig = taught(rig_of(tmp_path))
    rig.submit(user="zoe", cpus=4, env=env(50.0))
    rig.settle()
    long = rig.submit(user="ada", name="train", cpus=4, env=env(LONG))
    short = rig.submit(user="ben", name="test", cpus=4, env=env(SHORT))
    rig.finish()
    assert rig.start_s(short) < rig.start_s(long)
    like, *quantiles = rig.job(long).values[PREDICTION]
    assert like == 4
    assert quantiles == sorted(quantiles)
    assert quantiles[2] == pytest.approx(LONG, rel=0.1)
    assert rig.verdict().differing == []


def test_a_decision_uses_the_spread_if_a_knob_asks_for_it(tmp_path: Path) -> None:
    """Both usually take 100 s, but ada's may take longer: at a high quantile ben goes first."""
    for settings, first in (((), "ada"), (("order_quantile=0.9",), "ben")):
        rig = rig_of(tmp_path / first, learns=False, settings=settings)
        rig.submit(user="zoe", cpus=4, env=env(50.0))
        rig.settle()
        jobs = {user: rig.submit(user=user, cpus=4, env=env(100.0)) for user in ("ada", "ben")}
        wide, narrow = [50.0, 80.0, 100.0, 300.0, 900.0], [90.0, 95.0, 100.0, 105.0, 110.0]
        rig.plane.worker.receive({"runs": [[jobs["ada"], 3, *wide], [jobs["ben"], 3, *narrow]]})
        rig.finish()
        other = "ben" if first == "ada" else "ada"
        assert rig.start_s(jobs[first]) < rig.start_s(jobs[other])
        assert rig.verdict().differing == []


def test_the_owners_estimate_goes_first(tmp_path: Path) -> None:
    rig = taught(rig_of(tmp_path))
    rig.submit(user="zoe", cpus=4, env=env(50.0))
    rig.settle()
    stated = rig.submit(user="ada", name="train", cpus=4, estimate_s=5.0, env=env(LONG))
    short = rig.submit(user="ben", name="test", cpus=4, env=env(SHORT))
    rig.finish()
    assert rig.start_s(stated) < rig.start_s(short)


def test_predicted_run_times() -> None:
    prediction = {PREDICTION: [4, 10.0, 20.0, 100.0, 200.0, 300.0]}

    def expected(values: dict[str, Any], **asked: Any) -> float:
        return expected_s(Job(1, spec_of(**asked), 0, values=values))

    assert expected({}) == 0.0
    assert expected({}, limit_s=30.0) == 30.0
    assert expected({}, limit_s=30.0, estimate_s=20.0) == 20.0
    assert expected(prediction, estimate_s=20.0) == 20.0
    assert expected(prediction) == pytest.approx(100.0, rel=0.05)
    assert expected(prediction, limit_s=9000.0) == expected(prediction)
    near = {PREDICTION: [4, 10.0, 20.0, 101.0, 200.0, 300.0]}
    assert expected(near) == expected(prediction), "jobs alike stay alike"


def test_a_prediction_that_was_tampered_with_is_noticed(tmp_path: Path) -> None:
    rig = taught(rig_of(tmp_path))
    rig.submit(user="zoe", cpus=4, env=env(50.0))
    rig.settle()
    rig.submit(user="ada", name="train", cpus=4)
    rig.submit(user="ben", name="test", cpus=4)
    rig.finish()
    events = copy.deepcopy(rig.events())
    predicted = [event for _seq, event in events if event["kind"] == EventKind.PREDICTED]
    assert predicted
    for event in predicted:
        for run in event["runs"]:
            run[4] = run[4] * 100.0
    assert Verifier().follow(events).differing


def test_a_restart_keeps_what_was_predicted(tmp_path: Path) -> None:
    rig = taught(rig_of(tmp_path))
    rig.submit(user="zoe", cpus=4, env=env(50.0))
    rig.settle()
    long = rig.submit(user="ada", name="train", cpus=4, env=env(LONG))
    short = rig.submit(user="ben", name="test", cpus=4, env=env(SHORT))
    rig.plane.close()
    rig.open()  # nobody predicts any more
    assert rig.job(long).values[PREDICTION]
    rig.finish()
    assert rig.start_s(short) < rig.start_s(long)
    assert rig.verdict().differing == []


def test_predictions_of_jobs_that_are_gone_change_nothing(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, learns=False)
    done = rig.submit(env=env(5.0))
    rig.finish()
    before = rig.plane.live_state.seq
    rig.plane.worker.receive({"runs": [[done, 3, 1.0, 2.0, 3.0, 4.0, 5.0], [99, 3, 1, 2, 3, 4, 5]]})
    assert rig.plane.live_state.seq == before
    assert PREDICTION not in rig.job(done).values


def test_start_times_and_dry_runs_use_predictions(tmp_path: Path) -> None:
    rig = taught(rig_of(tmp_path, "fifo"))
    running = rig.submit(user="ada", name="train", cpus=4, env=env(LONG))
    rig.pass_s(100.0)
    waiting = rig.submit(user="ben", name="test", cpus=4)
    starts = rig.plane.forecaster.starts(rig.now)
    assert starts[running].p50_s == 0.0
    assert 200.0 < starts[waiting].p50_s < 350.0
    assert starts[waiting].method == "run time predicted from 4 jobs of the same owner and name"
    learner = rig.plane.learner
    assert isinstance(learner, RunTimeLearner)

    def ask(spec: Any, now_us: int) -> list[float]:
        run = learner.predict(spec, now_us)
        return [run.like, *run.quantiles]

    rig.plane.forecaster.ask = ask
    answer = rig.plane.dry_run(spec_of(user="ada", name="train", cpus=4))
    assert answer["method"] == "run time predicted from 4 jobs of the same owner and name"
    assert answer["p50_s"] > starts[waiting].p50_s
    assert rig.plane.ask.why(waiting)["p50_s"] == pytest.approx(starts[waiting].p50_s)


def test_steps_say_when_a_job_ends(tmp_path: Path) -> None:
    rig = taught(rig_of(tmp_path, "fifo"))
    running = rig.submit(user="ada", name="train", cpus=4, env=env(1000.0))
    rig.settle()
    for step in range(1, 6):
        rig.pass_s(50.0)
        rig.plane.report(running, 1, {"step": step, "total_steps": 20})
    waiting = rig.submit(user="ben", name="test", cpus=4)
    start = rig.plane.forecaster.starts(rig.now)[waiting]
    assert start.p50_s == pytest.approx(750.0, rel=0.1), "15 steps of 50 s are left"
    assert start.p90_s < 1.3 * start.p50_s


def test_prediction_shortens_the_mean_wait_under_sjf(tmp_path: Path) -> None:
    """The same few kinds of jobs recur, without estimates."""
    waits = {}
    for name, learns in (("told", True), ("blind", False)):
        rig = rig_of(tmp_path / name, "sjf", learns)
        rng = np.random.default_rng(7)
        jobs = []
        for _ in range(60):
            kind = int(rng.integers(3))
            run_s = (10.0, 60.0, 400.0)[kind] * float(rng.uniform(0.8, 1.2))
            about: dict[str, Any] = {
                "user": f"u{kind}",
                "name": f"n{kind}",
                "cpus": 4,
                "env": env(run_s),
            }
            jobs.append(rig.submit(**about))
            rig.pass_s(float(rng.exponential(140.0)))
        rig.finish()
        done = [rig.job(job_id) for job_id in jobs]
        assert all(job.state == JobState.COMPLETED for job in done)
        waits[name] = float(np.mean([job.first_start_us - job.submit_us for job in done]) / 1e6)
        assert rig.verdict().differing == []
    assert waits["told"] < 0.7 * waits["blind"], waits


def test_more_nodes_and_easy_replay_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=TWO_NODES)
    rig.plane.learner = RunTimeLearner()
    rng = np.random.default_rng(3)
    for at in range(40):
        kind = int(rng.integers(3))
        rig.submit(
            user=f"u{kind}", name="n", cpus=int(rng.integers(1, 9)), env=env(20.0 * kind + 5)
        )
        if at % 3 == 0:
            rig.pass_s(float(rng.exponential(20.0)))
    rig.finish()
    assert any(event["kind"] == EventKind.PREDICTED for _seq, event in rig.events())
    assert rig.verdict().differing == []
