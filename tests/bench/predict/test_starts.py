"""The back-test of start times, on a small workload: it learns on line and never looks ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.twin.test_live import CLUSTER, workload

from flyball.bench.predict import starts
from flyball.bench.predict.starts import Ride, StartForecast, Tally, rows, table, view_of
from flyball.control.ask.start_bands import Edges, StartBands
from flyball.core.codes import Status
from flyball.core.units import US_PER_S
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

JOBS, LAST = 120, 105


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    """Few roll-outs, and so much work that a few jobs make a queue."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "ROLLOUTS", 6)
        patch.setattr(starts, "LOAD", 60.0)
        yield


@pytest.fixture(scope="module")
def ridden() -> tuple[Ride, list[StartForecast]]:
    ride = Ride("sjf", 1000, StartBands(), JOBS, part=0.5)
    return ride, ride.run()


def test_everybody_asked_either_waited_or_started_at_once(
    ridden: tuple[Ride, list[StartForecast]],
) -> None:
    ride, asked = ridden
    assert 20 < len(asked) + ride.at_once < 80
    assert len(asked) > 5
    assert all(forecast.wait_s > 0 for forecast in asked)
    assert all(0 <= item.corrected.p50_s <= item.corrected.p90_s for item in asked)
    assert ride.bands.waiting == 0, "every forecast has been judged"


def test_the_policy_saw_predictions_only(ridden: tuple[Ride, list[StartForecast]]) -> None:
    ride, _asked = ridden
    seen = np.asarray(ride.twin.state.jobs.estimate_us)
    assert (seen == ride.estimate_us).all()
    assert (ride.work.duration_us == ride.estimate_us).all()
    assert np.mean(np.isclose(seen, ride.true_us, rtol=1e-3)) < 0.1
    assert ride.estimator.learnt == JOBS


def test_what_comes_later_changes_no_forecast() -> None:
    """Other run times of the last jobs: what was said of those before stays."""
    forecasts = []
    for stretch in (1.0, 7.0):
        ride = Ride("fifo-skip", 1000, StartBands(), JOBS, part=0.4)
        later = np.arange(JOBS) >= LAST
        ride.true_us = np.where(later, ride.true_us * stretch, ride.true_us)
        ride.twin.state.jobs.work_us[:] = ride.true_us
        ride.run()
        forecasts.append([edges for job, edges in ride._forecasts.items() if job < LAST])
    assert forecasts[0] == forecasts[1]
    assert forecasts[0]


def test_a_view_of_the_twin_holds_what_runs_and_waits() -> None:
    work = workload(4)
    twin = Twin(CLUSTER, work, get_policy("fifo-skip").knobs)
    twin.run(300 * US_PER_S)
    view, jobs = view_of(twin.state, work)
    running = np.flatnonzero(np.asarray(twin.state.runs.status) == Status.RUNNING)
    assert sorted({int(jobs[at]) for at in view.row_job}) == running.tolist()
    held = sum(int(mask).bit_count() for mask in view.row_mask)
    assert held == work.devices[running].sum()
    assert len(jobs) > len(running) > 0
    since = view.past["since_us"][view.row_job]
    assert (np.diff(since) >= 0).all(), "in the order of their starts"


def test_figures_by_hand() -> None:
    edges = Edges(10.0, 30.0)
    asked = [StartForecast(Edges(1.0, 2.0), edges, wait_s) for wait_s in (5.0, 10.0, 20.0, 40.0)]
    by_metric = {row["metric"]: row for row in table("x", Tally(asked, 4))}
    assert by_metric["p50 share %"]["value"] == 50.0
    assert by_metric["p50 share %"]["holds"] is True
    assert by_metric["p50 share %"]["baseline"] == 0.0
    assert by_metric["p90 coverage %"]["value"] == 75.0
    assert by_metric["p90 coverage %"]["holds"] is False
    assert by_metric["p90 coverage with those who start at once %"]["value"] == 87.5
    assert by_metric["p90 coverage with those who start at once %"]["n"] == 8
    assert by_metric["median width p50 to p90, h"]["value"] == pytest.approx(20 / 3600, abs=0.01)


def test_rows_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "POLICIES", ("fifo-skip",))
    notes: list[str] = []
    table_rows = rows(notes.append, seeds=(3,), warm=(1002,), jobs=JOBS)
    assert notes == ["start times: fifo-skip, seed 1002", "start times: fifo-skip, seed 3"]
    assert {row["target"] for row in table_rows} == {
        "start time, all policies",
        "start time, fifo-skip",
    }
    for row in table_rows:
        assert set(row) >= {"target", "horizon", "metric", "value", "bar", "baseline", "n"}
        assert row["n"] > 0
