"""Start-time forecasts: roll-outs against figures computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import Rig, env, spec_of

from flyball.control.ask import start_forecast
from flyball.core.jobs import JobState
from flyball.twin.lookahead import start_times


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Three jobs of ada's have taken 100 s each."""
    rig = Rig(tmp_path)
    for _ in range(3):
        rig.submit(user="ada", name="train", cpus=4, env=env(100.0))
    rig.finish()
    return rig


def test_on_idle_nodes_it_starts_now(rig: Rig) -> None:
    forecast = rig.plane.forecaster.if_submitted(spec_of(cpus=4), rig.now)
    assert forecast is not None
    assert (forecast.p50_s, forecast.p90_s, forecast.method) == (0.0, 0.0, "no estimate: an hour")
    assert rig.plane.forecaster.starts(rig.now) == {}


def test_behind_a_job_with_history_it_starts_when_that_is_over(rig: Rig) -> None:
    rig.submit(user="ada", name="train", cpus=4, env=env(100.0))
    rig.pass_s(30)
    waiting = rig.submit(user="ben", cpus=4, estimate_s=60.0)
    behind = rig.submit(user="ada", name="train", cpus=4, env=env(100.0))
    starts = rig.plane.forecaster.starts(rig.now)
    assert starts[4].p50_s == 0.0, "it runs"
    assert starts[waiting].p50_s == pytest.approx(70.0, abs=0.01)
    assert starts[waiting].p90_s == pytest.approx(70.0, abs=0.01)
    assert 100 < starts[behind].p50_s < 170
    assert starts[behind].p90_s > starts[behind].p50_s, "nobody knows how long ben's job takes"
    assert starts[behind].method == "run times of 3 jobs of the same owner and name"


def test_the_forecast_comes_true(rig: Rig) -> None:
    rig.submit(user="ada", name="train", cpus=3, env=env(100.0))
    rig.submit(user="ada", name="train", cpus=1, env=env(100.0))
    rig.settle()
    waiting = rig.submit(user="ada", name="train", cpus=4, env=env(100.0))
    begin = rig.now
    forecast = rig.plane.forecaster.starts(rig.now)[waiting]
    rig.finish()
    waited_s = (rig.job(waiting).first_start_us - begin) / 1e6
    assert forecast.p50_s == pytest.approx(waited_s, abs=0.01)


def test_asking_for_less_is_sooner(rig: Rig) -> None:
    rig.submit(user="ada", name="train", cpus=3, env=env(100.0))
    rig.pass_s(10)
    waiting = rig.submit(user="ada", name="train", cpus=4)
    rig.settle()
    job, ask = rig.job(waiting), rig.plane.forecaster.if_changed
    now = rig.plane.forecaster.starts(rig.now)[waiting].p50_s
    one = ask(job, {"cpus": 1}, rig.now)
    same = ask(job, {"cpus": 4}, rig.now)
    assert one is not None
    assert same is not None
    assert one.p50_s == 0.0
    assert same.p50_s == pytest.approx(now, abs=0.01)
    assert now == pytest.approx(90.0, abs=0.01)
    assert rig.states(waiting) == [JobState.PENDING]
    rig.finish()
    assert rig.states(waiting) == [JobState.COMPLETED], "asking has changed nothing"
    assert rig.verdict().differing == []


def test_priority_overtakes(rig: Rig) -> None:
    rig.submit(user="ada", name="train", cpus=4)
    rig.settle()
    first = rig.submit(user="ada", name="train", cpus=4)
    second = rig.submit(user="ada", name="train", cpus=4)
    sooner = rig.plane.forecaster.if_changed(rig.job(second), {"priority": 1.0}, rig.now)
    starts = rig.plane.forecaster.starts(rig.now)
    assert sooner is not None
    assert sooner.p50_s == pytest.approx(starts[first].p50_s, abs=0.01)
    assert starts[second].p50_s == pytest.approx(2 * sooner.p50_s, abs=0.01)


def test_a_job_that_can_never_start_has_no_forecast(rig: Rig) -> None:
    failing = rig.submit(env=env(code=1))
    waiting = rig.submit(after=(("afterok", failing),))
    rig.settle()
    chained = rig.plane.forecaster.starts(rig.now)[waiting]
    assert chained.p50_s > 0, "in a roll-out every job succeeds"
    rig.now += 10_000_000
    rig.plane.step()
    assert waiting not in rig.plane.forecaster.starts(rig.now)


def test_many_jobs_few_roll_outs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_forecast, "FULL_ROLLOUTS_JOBS", 10)
    counts = []

    def counted(cluster: Any, view: Any, knobs: Any, now_us: int, draws: Any, *more: Any) -> Any:
        counts.append(len(draws))
        return start_times(cluster, view, knobs, now_us, draws, *more)

    monkeypatch.setattr(start_forecast, "start_times", counted)
    rig.submit()
    rig.plane.forecaster.starts(rig.now)
    rig.plane.submit([spec_of()] * 59)
    rig.plane.forecaster.starts(rig.now)
    assert counts == [24, 4]


# Estimates that are all there is ------------------------------------------------------------


def queue_of_estimates(rig: Rig, count: int = 6) -> int:
    """Submit jobs of one new owner, each with another name, in turn; return the last."""
    return [
        rig.submit(user="eve", name=f"n{at}", cpus=4, estimate_s=10.0, env=env(20.0))
        for at in range(count)
    ][-1]


def test_errors_of_one_owners_estimates_do_not_cancel_out(rig: Rig) -> None:
    """Five jobs ahead that may all take twice as long: the band is as wide as that of one."""
    last = queue_of_estimates(rig)
    rig.settle()
    forecast = rig.plane.forecaster.starts(rig.now)[last]
    assert 40 < forecast.p50_s < 65
    assert forecast.p90_s > 1.6 * forecast.p50_s


def test_other_work_on_the_machine_makes_the_wait_longer(rig: Rig) -> None:
    last = queue_of_estimates(rig)
    rig.settle()
    free = rig.plane.forecaster.starts(rig.now)[last]
    rig.plane.forecaster.slowdown = lambda: 3.0
    busy = rig.plane.forecaster.starts(rig.now)[last]
    assert busy.p50_s > 2 * free.p50_s


def test_jobs_that_took_twice_their_estimate_correct_the_next_forecast(rig: Rig) -> None:
    queue_of_estimates(rig)
    rig.finish()
    last = queue_of_estimates(rig)
    rig.settle()
    forecast = rig.plane.forecaster.starts(rig.now)[last]
    begin = rig.now
    rig.finish()
    waited_s = (rig.job(last).first_start_us - begin) / 1e6
    assert forecast.p50_s == pytest.approx(waited_s, rel=0.25)
    assert waited_s < forecast.p90_s < 2 * waited_s
