"""The benchmark of engines on real daemons, and its figures."""

from __future__ import annotations

from collections import Counter

import pytest

from flyball.bench.engines import own_cost, poll_cost, slurm_starts, slurm_storm
from flyball.bench.engines.slurm_cluster import HOW_TO_GET, missing
from flyball.bench.engines.slurm_starts import StartOutcome, figures

needs_slurm = pytest.mark.skipif(bool(missing()), reason=f"no Slurm daemons; {HOW_TO_GET}")


def test_losses_and_coverage_of_known_outcomes() -> None:
    outcomes = [
        StartOutcome("1", 10.0, 20.0, 8.0, 12.0, 60.0, 10.0),
        StartOutcome("2", 10.0, 20.0, 8.0, 12.0, 60.0, 30.0),
    ]
    values = {row["name"]: row["value"] for row in figures(outcomes)["figures"]}
    assert values["p90 held"] == values["p50 held"] == 50.0
    assert values["p90 before correction held"] == 50.0
    assert values["squeue --start held"] == 100.0
    assert values["pinball loss at 50 %"] == pytest.approx(5.0)
    assert values["pinball loss at 50 %, squeue --start"] == pytest.approx(20.0)
    assert values["pinball loss at 90 %"] == pytest.approx(5.0)
    assert values["width of p50 to p90, median"] == 10.0


@needs_slurm
def test_the_cost_of_a_poll_is_measured() -> None:
    answer = poll_cost.measure(lambda _text: None, jobs=5, polls=2)
    values = {row["name"]: row["value"] for row in answer["figures"]}
    assert answer["jobs"] == 6
    assert values["squeue's CPU per poll"] >= 0  # in ticks of the kernel's clock
    assert values["a poll, wall clock"] > 0


def test_a_storm_is_judged_by_what_the_programs_noted() -> None:
    def job(number: int, **more: object) -> dict[str, object]:
        usual = {"id": number, "name": "exit0", "state": "COMPLETED", "exit_code": 0, "attempts": 1}
        return usual | {"reason": ""} | more

    records = [job(1), job(2, attempts=2), job(3), job(4, state="FAILED", exit_code=1)]
    starts = {"1.1": ["s", "e"], "2.1": ["s"], "2.2": ["s", "s", "e"], "4.1": ["s", "e"]}
    answer = slurm_storm.answer_of(records, starts, Counter(node=1), 2, 60.0)
    values = [row["value"] for row in answer["figures"]]
    assert values == [1, 3, 1, 4, 5, 0, 0, 0, 1, 2, 60.0]
    assert answer["twice"] == ["2.2"]
    assert [job["id"] for job in answer["wrong"]] == [2, 3, 4]


@pytest.mark.parametrize("jobs", [8, pytest.param(200, marks=pytest.mark.soak)])
@needs_slurm
def test_own_jobs_in_a_storm(jobs: int) -> None:
    answer = slurm_storm.measure(lambda _text: None, jobs, down_s=10.0 if jobs > 50 else 1.0)
    assert all(row["holds"] is not False for row in answer["figures"]), answer


@needs_slurm
def test_what_our_queue_adds_is_measured() -> None:
    answer = own_cost.measure(lambda _text: None, pairs=2, foreign=5)
    values = {row["name"]: row["value"] for row in answer["figures"]}
    assert values["submit to start through Flyball, median"] > 0
    assert values["a decision cycle, median"] > 0


@pytest.mark.soak
@needs_slurm
def test_300_real_starts() -> None:
    answer = slurm_starts.measure(lambda _text: None, starts=300)
    assert all(row["holds"] is not False for row in answer["figures"]), answer["figures"]
