"""A real PyTorch job shrinks, grows, saves, is killed, and ends as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flyball.bench.tune import live_runs
from flyball.bench.tune.live_runs import Stage
from flyball.control.decide.tuning_rounds import Tuning
from flyball.control.decide.verify import Verifier
from flyball.core.jobs import JobState
from flyball.engines.local.machine import usable_cores
from flyball.live import make_tuners

pytest.importorskip("torch")

STEPS, EVERY = 100, 25
pytestmark = pytest.mark.skipif(len(usable_cores()) < 2, reason="one core only")


def curve(here: Stage, job: int) -> dict[int, float]:
    return {point.step: point.loss for point in here.curve(job)}


def test_an_elastic_job_loses_nothing() -> None:
    with live_runs.stage() as here:
        # 1. A run that nobody touches, then one that everything happens to.
        plain = here.train(STEPS, EVERY, 0.01)
        job = here.train(STEPS, 10 * STEPS, 0.01)
        here.ended(plain)
        here.until_step(job, 15)
        here.plane.resize(job, 1)
        here.until(lambda: here.curve(job)[-1].threads == 1, "one thread")
        asked_at = here.curve(job)[-1].step
        here.plane.checkpoint(job)
        saved = here.until(lambda: checkpoints(here, job), "a checkpoint")[-1]
        here.plane.resize(job, 2)
        here.until(lambda: here.curve(job)[-1].threads == 2, "two threads")
        here.until_step(job, saved + 5)
        here.lose(job)
        done = here.ended(job)
        # 2. Every step is there, and nothing from before the checkpoint was done again.
        points = here.curve(job)
        again = [point for point in points if point.attempt == 2]
        assert done.state == JobState.COMPLETED
        assert done.attempt == 2
        assert asked_at < saved <= asked_at + 20, "saved soon, between two steps"
        assert again[0].step == saved
        assert sorted(curve(here, job)) == list(range(STEPS))
        first = [point.step for point in points if point.attempt == 1]
        assert first == list(range(len(first))), "sizes cost no step"
        # 3. It learned the same.
        assert curve(here, job) == pytest.approx(curve(here, plain), rel=1e-3)
        # 4. The receipt tells of it, and the decisions replay.
        tuning = here.plane.ask.receipt(job)["tuning"]
        assert [point["devices"] for point in tuning["sizes"]] == [2, 1, 2]
        assert [point["what"] for point in tuning["log"]] == ["resized", "checkpointed", "resized"]
        verdict = Verifier().follow(here.plane.journal.events(0, 10_000))
        assert (verdict.decisions > 0, verdict.differing) == (True, [])


def test_a_tuner_gives_a_job_what_is_free_and_takes_it_back() -> None:
    settings = ["elastic.gap_s=1"]
    tuning = Tuning(make_tuners(["elastic"], settings), 1.0, settings)
    with live_runs.stage(tuning=tuning) as here:
        job = here.train(100_000, 100_000, 0.01, cpus=1, estimate_s=3600.0)
        here.until_step(job, 5)
        here.until(lambda: here.curve(job)[-1].threads == 2, "a second core")
        other = here.submit(("sleep", "600"), cpus=1, estimate_s=600.0)
        here.until(lambda: here.job(other).started_us, "the other's start")
        here.until(lambda: here.curve(job)[-1].threads == 1, "one core")
        row = here.job(job)
        log = row.values["tuned"]["log"]
        reasons = [entry["reason"] for entry in log][:2]
        assert reasons in (["grew", "shrank"], ["grew", "sized"])
        assert row.attempt == 1, "it ran on all the time"
        steps = [entry.step for entry in here.curve(job)]
        assert steps == list(range(len(steps)))
        verdict = Verifier(make_tuners).follow(here.plane.journal.events(0, 10_000))
        assert (verdict.decisions > 1, verdict.differing) == (True, [])


def checkpoints(here: Stage, job: int) -> list[int]:
    """Return the steps at which the job saved."""
    folder: Path = here.folder / "checkpoints" / str(job)
    return sorted(int(path.name[5:]) for path in folder.glob("step-*"))


def test_a_control_plane_that_comes_back_keeps_sizes_and_caps(tmp_path: Path) -> None:
    """The supervisor keeps running, and the new control plane repeats sizes and caps to it."""
    with live_runs.stage() as here:
        job = here.submit(("sleep", "3600"), cpus=2, least=1, most=2)
        here.until(lambda: here.job(job).started_us, "its start")
        here.plane.resize(job, 1)
        here.plane.cap(job, 0.5)
        path = here.folder / "orders" / f"{job}.1.json"
        said = here.until(lambda: path.exists() and "cap" in path.read_text(), "its orders")
        said = json.loads(path.read_text())
        here.live.driver.stop()
        here.live.plane.close()
        here.live.engine.close()
        again = live_runs.open_stage(here.folder)
        try:
            row = again.job(job)
            assert (row.rows[0].mask.bit_count(), row.values["tuned"]["share"]) == (1, 0.5)
            again.until(lambda: again.plane.loop._orders_sent, "orders said again")
            assert json.loads(path.read_text()) == said
        finally:
            here.live = again.live
