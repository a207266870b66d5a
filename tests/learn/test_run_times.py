"""Run times learnt from the journal's jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import START_US, spec_of

from flyball.core.jobs import Job, JobState
from flyball.learn.run_times import RunTimeLearner
from flyball.predict.runtime.trees import MIDDLE


def job(number: int, at_s: float = 0.0, **asked: Any) -> Job:
    spec = spec_of(**{"user": "ada", "name": "train", **asked})
    return Job(number, spec, START_US + round(at_s * 1e6))


def ended(come: Job, run_s: float, state: JobState = JobState.COMPLETED) -> Job:
    start = come.submit_us + 1_000_000
    end = start + round(run_s * 1e6)
    return replace(come, state=state, attempt=1, started_us=start, first_start_us=start, end_us=end)


def teach(learner: RunTimeLearner, count: int, run_s: float, first: int = 1, **asked: Any) -> int:
    """So many jobs, one after the other; the next free number."""
    for at in range(first, first + count):
        come = job(at, at * 1000.0, **asked)
        learner.observe({at: come})
        learner.observe({at: ended(come, run_s)})
    return first + count


def median_s(learner: RunTimeLearner, number: int, **asked: Any) -> float | None:
    made = learner.observe({number: job(number, number * 1000.0, **asked)})
    return made[number].quantiles[MIDDLE] if number in made else None


def test_like_jobs_say_how_long() -> None:
    learner = RunTimeLearner()
    after = teach(learner, 12, 500.0)
    found = learner.observe({after: job(after, after * 1000.0)})[after]
    assert found.quantiles[MIDDLE] == pytest.approx(500.0, rel=0.02)
    assert list(found.quantiles) == sorted(found.quantiles)
    assert found.like == 12


def test_nothing_is_said_before_anything_ended() -> None:
    learner = RunTimeLearner()
    assert learner.observe({1: job(1)}) == {}
    assert median_s(learner, 2) is None


def test_of_strangers_only_where_the_owner_is_silent() -> None:
    learner = RunTimeLearner()
    after = teach(learner, 5, 500.0)
    assert median_s(learner, after, user="ben", estimate_s=60.0) is None
    assert median_s(learner, after + 1, user="ben", limit_s=60.0) is None
    silent = median_s(learner, after + 2, user="ben")
    assert silent == pytest.approx(500.0, rel=0.1)
    known = median_s(learner, after + 3, estimate_s=60.0)
    assert known == pytest.approx(500.0, rel=0.1), "of ada's jobs more is known than she says"


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL])
def test_who_was_stopped_teaches_nothing(state: JobState) -> None:
    learner = RunTimeLearner()
    for at in range(1, 6):
        come = job(at, at * 1000.0)
        learner.observe({at: come})
        learner.observe({at: ended(come, 5.0, state)})
    assert learner.run_times.learnt == 0
    assert median_s(learner, 9) is None


def test_tasks_of_an_array_have_one_prediction() -> None:
    learner = RunTimeLearner()
    after = teach(learner, 5, 500.0)
    tasks = {after + at: job(after + at, 9e5, array=after, array_index=at) for at in range(50)}
    made = learner.observe(tasks)
    assert len({each.quantiles for each in made.values()}) == 1
    for each in tasks.values():
        learner.observe({each.id: ended(each, 700.0)})
    assert learner.run_times.learnt == 55


def test_what_was_before_counts_after_a_restart() -> None:
    first = RunTimeLearner()
    jobs = [ended(job(at, at * 1000.0), 100.0 + at) for at in range(1, 30)]
    for each in jobs:
        first.observe({each.id: replace(job(each.id, each.id * 1000.0))})
        first.observe({each.id: each})
    second = RunTimeLearner()
    second.begin(jobs)
    assert median_s(second, 40) == median_s(first, 40)


def test_figures_of_how_good_it_was() -> None:
    learner = RunTimeLearner()
    assert learner.status()["n"] == 0
    assert learner.status()["within_2x"] is None
    after = teach(learner, 40, 500.0)
    found = learner.status()
    assert found["n"] >= 35
    assert found["median_abs_log_error"] < 0.05
    assert found["within_2x"] > 0.9
    assert found["coverage_90"] > 0.9
    teach(learner, 40, 50_000.0, after)
    assert learner.status()["within_2x"] < found["within_2x"]


def test_trees_are_due_when_there_is_enough_to_learn() -> None:
    learner = RunTimeLearner()
    after = teach(learner, 299, 500.0)
    due = learner.fit_due
    assert not due
    after = teach(learner, 1, 500.0, after)
    due = learner.fit_due
    assert due
    rows, logs, ages = learner.training_rows(START_US + round(1e9 * 1e6))
    assert len(rows) == len(logs) == len(ages) == 300
    assert np.isfinite(logs).all()
    due = learner.fit_due
    assert not due, "asked for once"


def test_a_model_is_found_again(tmp_path: Path) -> None:
    learner = RunTimeLearner()
    rng = np.random.default_rng(1)
    for at in range(1, 330):
        come = job(at, at * 100.0)
        learner.observe({at: come})
        learner.observe({at: ended(come, float(rng.uniform(50, 100)))})
    learner.run_times.refit(START_US / 1e6 + 1e6)
    learner.run_times.save(tmp_path)
    again = RunTimeLearner(tmp_path)
    assert len(again.run_times.trees.models) == 6
    assert again.note == ""


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1}', "\x00\x01"])
def test_a_bad_model_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "runtime.json").write_text(text)
    learner = RunTimeLearner(tmp_path)
    assert "not used" in learner.note
    teach(learner, 5, 500.0)
    assert median_s(learner, 9) == pytest.approx(500.0, rel=0.1)
