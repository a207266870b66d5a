"""Guesses of how long a job runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from tests.control.live_cases import START_US, spec_of

from flyball.control.ask import durations
from flyball.control.ask.durations import RUNS_PER_GROUP, Durations, Guess
from flyball.core.job_facts import program_of
from flyball.core.jobs import Job, JobState

MANY = 2000


def ended(run_s: float, state: JobState = JobState.COMPLETED, **asked: Any) -> Job:
    spec = spec_of(**{"user": "ada", "name": "train", **asked})
    end_us = START_US + round(run_s * 1e6)
    return Job(
        1, spec, START_US, state, 1,
        started_us=START_US, first_start_us=START_US, end_us=end_us,
        service_us=run_s * 1e6 * spec.cpus,
    )  # fmt: skip


def guess(history: Durations, elapsed_s: float = 0.0, count: int = MANY, **asked: Any) -> Guess:
    spec = spec_of(**{"user": "ada", "name": "train", **asked})
    return history.guess(spec, elapsed_s, ndtri((np.arange(count) + 0.5) / count))


def test_history_beats_estimates() -> None:
    history = Durations([ended(seconds) for seconds in (90, 100, 110)])
    guessed = guess(history, estimate_s=10_000.0)
    assert guessed.method == "run times of 3 jobs of the same owner and name"
    assert set(guessed.seconds) == {90.0, 100.0, 110.0}


def test_two_jobs_are_no_history() -> None:
    guessed = guess(Durations([ended(90), ended(100)]), estimate_s=1000.0)
    assert guessed.method == "the stated estimate"
    assert 950 < np.median(guessed.seconds) < 1050


def test_the_same_name_counts_more_than_the_same_owner() -> None:
    jobs = [ended(5, name="other") for _ in range(3)] + [ended(100) for _ in range(3)]
    history = Durations(jobs)
    assert set(guess(history).seconds) == {100.0}
    wider = guess(history, name="new")
    assert wider.method == "run times of 6 jobs of the same owner"
    assert set(wider.seconds) == {5.0, 100.0}
    assert set(guess(history, cpus=4).seconds) == {5.0, 100.0}, "another width is another job"
    assert guess(history, user="ben").method == "no estimate: an hour"


def test_a_running_job_can_only_have_what_is_still_ahead() -> None:
    history = Durations([ended(seconds) for seconds in (10, 50, 90, 100)])
    assert set(guess(history, 60.0).seconds) == {90.0, 100.0}


def test_a_job_that_outlives_all_history_is_expected_to_double() -> None:
    history = Durations([ended(seconds) for seconds in (10, 11, 12)])
    guessed = guess(history, 500.0, estimate_s=20.0)
    assert guessed.method == "the stated estimate"
    assert guessed.seconds.min() >= 500
    assert 800 < np.median(guessed.seconds) < 900  # 500 (1 + ln 2)


def test_a_limit_cuts_off() -> None:
    guessed = guess(Durations(), limit_s=60.0)
    assert guessed.method == "the stated limit"
    assert guessed.seconds.max() == 60.0
    history = Durations([ended(seconds) for seconds in (90, 100, 110)])
    assert set(guess(history, limit_s=95.0).seconds) == {90.0, 95.0}


def test_only_jobs_that_ended_by_themselves_are_learnt_from() -> None:
    states = (JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY)
    history = Durations([ended(10, state) for state in states for _ in range(3)])
    history.learn(replace(ended(10), first_start_us=0))
    assert guess(history).method == "no estimate: an hour"
    for _ in range(3):
        history.learn(ended(10, JobState.FAILED))
    assert set(guess(history).seconds) == {10.0}


def test_waits_between_attempts_are_no_run_time() -> None:
    later = START_US + 500_000_000
    end = later + 40_000_000
    twice = replace(ended(10), end_us=end, started_us=later, attempt=2)
    lost = replace(twice, failures=1)
    set_aside = replace(twice, preemptions=1, service_us=70e6)
    history = Durations([lost, lost, lost])
    assert set(guess(history).seconds) == {40.0}, "what was lost was done again"
    history = Durations([set_aside] * 3)
    assert set(guess(history).seconds) == {70.0}, "what was set aside went on"


def test_the_latest_are_kept() -> None:
    history = Durations([ended(1000), *(ended(5) for _ in range(RUNS_PER_GROUP))][::-1])
    assert set(guess(history).seconds) == {5.0}


def test_the_same_scores_give_the_same_guess() -> None:
    history = Durations()
    scores = np.array([-1.0, 0.0, 1.0])
    first, second = (history.guess(spec_of(), 0.0, scores).seconds for _ in range(2))
    assert first.tolist() == second.tolist()
    assert history.guess(spec_of(), 0.0, scores + 1).seconds.tolist() != first.tolist()


def test_jobs_with_other_names_or_programs_do_not_replace_a_stated_estimate() -> None:
    history = Durations([ended(5, estimate_s=5.0) for _ in range(6)])
    for other in ({"name": "new"}, {"argv": ("python", "other.py")}):
        guessed = guess(history, estimate_s=600.0, **other)
        assert guessed.method == "the stated estimate, corrected by 6 jobs of the owner"
        assert 500 < np.median(guessed.seconds) < 700


def test_estimates_of_an_owner_whose_jobs_take_twice_as_long_are_doubled() -> None:
    history = Durations([ended(20, name=f"n{at}", estimate_s=10.0) for at in range(8)])
    guessed = guess(history, name="new", estimate_s=100.0)
    assert 170 < np.median(guessed.seconds) < 215
    unknown = guess(Durations(), name="new", estimate_s=100.0)
    assert np.std(np.log(guessed.seconds)) < np.std(np.log(unknown.seconds))


def test_busy_machine_makes_estimates_longer_until_jobs_have_ended() -> None:
    busy = Durations().trust("ada", slowdown=4.0)
    assert busy.mean == pytest.approx(np.log(4.0))
    ended_in_time = Durations([ended(10, estimate_s=10.0) for _ in range(19)])
    assert ended_in_time.trust("ada", slowdown=4.0).mean < np.log(1.1)


def test_running_jobs_that_are_slow_count_at_once() -> None:
    judged = Durations().trust("ada", running=[np.log(3.0), np.log(3.0)])
    assert np.log(1.9) < judged.mean < np.log(3.0)
    assert judged.jobs == 2


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (("python", "train.py", "--lr", "1"), "train.py"),
        (("/usr/bin/python3", "-m", "pkg.train"), "pkg.train"),
        (("torchrun", "--nproc_per_node", "2", "train.py"), "train.py"),
        (("./solve", "x"), "solve"),
        (("bash",), "bash"),
        ((), ""),
    ],
)
def test_program_of_a_command(argv: tuple[str, ...], program: str) -> None:
    assert program_of(argv) == program


def test_names_that_do_not_recur_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's own group was used last by each of them, and stays."""
    monkeypatch.setattr(durations, "MAX_GROUPS", 10)
    history = Durations([ended(50) for _ in range(3)])
    for number in range(100):
        history.learn(ended(60, name=f"run-{number}"))
    assert len(history._seconds) == 10
    assert guess(history).method == "run times of 103 jobs of the same owner"
