"""The benchmark of engines on real daemons, and its figures."""

from __future__ import annotations

import pytest

from flyball.bench.engines import poll_cost, slurm_starts
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
    assert values["squeue's CPU per poll"] > 0 and values["a poll, wall clock"] > 0


@pytest.mark.soak
@needs_slurm
def test_300_real_starts() -> None:
    answer = slurm_starts.measure(lambda _text: None, starts=300)
    assert all(row["holds"] is not False for row in answer["figures"]), answer["figures"]
