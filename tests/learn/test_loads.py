"""Series of load: the journal's side and the twin's say the same; a fit changes no time stamp."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.forecast import Forecast, Outlook, outlook_as_json, outlook_from_json
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.records import Records
from flyball.core.state import State
from flyball.core.units import US_PER_S, to_us
from flyball.core.workload import Workload
from flyball.learn.loads import ClusterLoads
from flyball.predict.load import live_series
from flyball.predict.load.live_series import LOAD, LoadSeries, last_fit
from flyball.schedule.policies.registry import get_policy
from flyball.twin.load_forecast import LoadForecast
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

ORIGIN_S = 1_700_006_400.0  # the beginning of a day
MIN_US = 60 * US_PER_S


@dataclass(frozen=True)
class Listener:
    """A tuner that changes nothing and keeps what it is given, by minute."""

    given: dict[int, Outlook] = field(default_factory=dict)

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        self.given[int(state.clock[0].now_us) // MIN_US] = outlook
        return plan


def workload(jobs: int, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    submit_s = np.cumsum(rng.exponential(70.0, jobs)) + 123.456789
    milli = rng.choice([1000, 1000, 333, 250], jobs)
    devices = np.where(milli == 1000, rng.integers(1, 5, jobs), 1)
    return Workload.of("w", submit_s, rng.exponential(400.0, jobs), devices, milli=milli)


def twin_of(jobs: Workload, listener: Listener, every_s: float = 60.0) -> Twin:
    policy = get_policy("easy")
    tuning = Tuning((listener,), policy, every_s, outlook=LoadForecast(ORIGIN_S))
    cluster = Cluster("c", (NodeGroup("a", 3, "V100", 4),))
    return Twin(cluster, jobs, policy.knobs, tuning=tuning)


class Journal:
    """The journal's side: jobs as they are on record at each minute, fed as the worker does."""

    def __init__(self, twin: Twin) -> None:
        jobs, runs = twin.state.jobs, twin.state.runs
        asked = zip(jobs.devices.tolist(), jobs.milli.tolist(), strict=True)
        specs = [JobSpec(("true",), gpus=devices, milli=milli) for devices, milli in asked]
        rows = zip(specs, jobs.submit_us, runs.first_start_us, runs.end_us, strict=True)
        self._jobs = [
            Job(
                number,
                spec,
                to_us(ORIGIN_S) + int(times[0]),
                JobState.COMPLETED,
                first_start_us=to_us(ORIGIN_S) + int(times[1]),
                end_us=to_us(ORIGIN_S) + int(times[2]),
            )
            for number, (spec, *times) in enumerate(rows)
        ]
        self.loads = ClusterLoads(lambda spec: spec.gpus * spec.milli)

    def at(self, now_us: int) -> list[Job]:
        """Return the submitted jobs as they were then."""
        return [
            job
            if job.end_us <= now_us
            else replace(
                job,
                state=JobState.RUNNING if job.first_start_us <= now_us else JobState.PENDING,
                first_start_us=job.first_start_us if job.first_start_us <= now_us else 0,
                end_us=0,
            )
            for job in self._jobs
            if job.submit_us <= now_us
        ]

    def outlook(self, minute: int, begin: bool) -> Outlook:
        """Return what the worker says at that minute, through JSON."""
        now_us = to_us(ORIGIN_S) + minute * MIN_US
        if begin:
            self.loads.begin(self.at(now_us), now_us)
        jobs = [j for j in self.at(now_us) if not j.state.final or j.end_us > now_us - 3 * MIN_US]
        self.loads.extend(jobs, now_us)
        return outlook_from_json(json.loads(json.dumps(outlook_as_json(self.loads.outlook()))))


def same(one: Forecast | None, other: Forecast | None) -> bool:
    assert one is not None and other is not None
    return (
        one.levels == other.levels
        and one.step_s == other.step_s
        and one.quantiles.tobytes() == other.quantiles.tobytes()
        and one.mean.tobytes() == other.mean.tobytes()
    )


@pytest.fixture(scope="module")
def run() -> tuple[Twin, dict[int, Outlook]]:
    """Three hours and more: fits at 60, 90, 135 and 203 values."""
    listener = Listener()
    twin = twin_of(workload(200, seed=4), listener)
    twin.run()
    return twin, listener.given


def test_the_twin_forecasts_what_the_live_predictor_says(
    run: tuple[Twin, dict[int, Outlook]],
) -> None:
    twin, given = run
    journal = Journal(twin)
    first = int(twin.state.jobs.submit_us[0]) // MIN_US + 1
    assert max(given) > first + 203, "it goes on after the last of four fits"
    for minute in range(first, max(given) + 1):
        said = journal.outlook(minute, begin=minute == first)
        assert same(given[minute].load, said.load), minute


def test_a_worker_that_starts_late_says_the_same(run: tuple[Twin, dict[int, Outlook]]) -> None:
    twin, given = run
    for minute in (40, 95, 150, max(given) - 1):  # before any fit, and some time after one
        assert same(given[minute].load, Journal(twin).outlook(minute, begin=True).load)


def test_longer_rounds_and_clones_see_the_same_minutes(
    run: tuple[Twin, dict[int, Outlook]],
) -> None:
    _twin, given = run
    listener = Listener()
    other = twin_of(workload(200, seed=4), listener, every_s=300.0)
    other.run(until_us=100 * MIN_US)
    clone = other.clone()
    clone.run(until_us=130 * MIN_US)
    in_clone = dict(listener.given)
    other.run(until_us=130 * MIN_US)
    assert sorted(listener.given)[:3] == [10, 15, 20]
    for minute in (10, 60, 95, 105, 130):
        assert same(given[minute].load, listener.given[minute].load)
        assert same(given[minute].load, in_clone[minute].load)


def test_nothing_after_the_instant_is_read() -> None:
    jobs = workload(80, seed=5)
    later = replace(
        jobs,
        duration_us=np.where(jobs.submit_us > 50 * MIN_US, 10 * jobs.duration_us, jobs.duration_us),
        devices=np.where(jobs.submit_us > 50 * MIN_US, 4, jobs.devices),
        milli=np.where(jobs.submit_us > 50 * MIN_US, 1000, jobs.milli),
    )
    one, other = Listener(), Listener()
    for listener, drawn in ((one, jobs), (other, later)):
        twin_of(drawn, listener).run(until_us=60 * MIN_US)
    assert same(one.given[50].load, other.given[50].load)
    assert not same(one.given[60].load, other.given[60].load)


# One series ------------------------------------------------------------------------


def test_fits_come_at_fixed_numbers_of_values() -> None:
    due = sorted({last_fit(count, LOAD) for count in range(2500)})
    assert due[:6] == [0, 60, 90, 135, 203, 305]
    steps = np.diff(due[-3:])
    assert (steps == steps[-1]).all(), "then at even times"
    slot = replace(LOAD, slot=2)
    assert last_fit(61, slot) == 0 and last_fit(62, slot) == 62


def test_values_one_by_one_or_all_at_once() -> None:
    values = np.random.default_rng(1).integers(0, 9, 150).astype(float)
    slow, fast = LoadSeries(LOAD, 0.0, ()), LoadSeries(LOAD, 0.0, values)
    for value in values:
        slow.extend([value])
        slow.catch_up()
    fast.catch_up()
    assert same(slow.forecast(), fast.forecast())
    assert slow.next_s == fast.next_s == 151 * 60.0


def test_a_long_series_drops_its_beginning_and_keeps_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_series, "MAX_POINTS", 100)
    series = LoadSeries(LOAD, 0.0, np.arange(200.0))
    series.catch_up()
    assert series.next_s == 201 * 60.0
    assert series.values[-1] == 199.0 and len(series.values) < 200
    series.extend([200.0])
    assert series.next_s == 202 * 60.0
