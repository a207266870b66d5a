"""Scaling of elastic jobs: assumed, measured by their steps, on record, used in decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.ask.test_worker_state import follow, tell
from tests.control.live_cases import START_US, Rig, spec_of

from flyball.control.jobs.request import Demand
from flyball.control.jobs.scaling import ASSUMED_PARALLEL, model_of, time_factor
from flyball.core.errors import BadInput
from flyball.core.job_facts import Scaling, scaling_of
from flyball.core.jobs import Job, Row
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S
from flyball.learn.scalings import parallel_part
from flyball.tune.elastic import Elastic

CORES = Demand([LiveNode("a", "CPU1", 4, 4, 8192)])
V100S = Demand([LiveNode("g", "V100", 4, 16, 8192, ("u0", "u1", "u2", "u3"))])


def job_of(values: dict[str, Any] | None = None, **asked: Any) -> Job:
    return Job(1, spec_of(**{"least": 1, "most": 4, **asked}), 0, values=values or {})


class Steps:
    """Reports what the agent would have received from jobs with a step of `a + b / n` seconds."""

    def __init__(self, rig: Rig, a: float, b: float) -> None:
        self.rig, self.a, self.b = rig, a, b
        self.asked: list[str] = []

    def __call__(self, name: str, seconds: float) -> tuple[Any, Any]:
        if not name.startswith("application."):
            return np.zeros(0), np.zeros(0)
        self.asked.append(name)
        job = self.rig.job(int(name.split(".")[1]))
        log = [entry for entry in job.values["tuned"]["log"] if entry["what"] == "resized"]
        marks = [(job.started_us / US_PER_S, log[0]["before"])]
        marks += [(entry["time"], entry["after"]) for entry in log]
        times, done = [], [0.0]
        for at in np.arange(marks[0][0], self.rig.now / US_PER_S, 1.0):
            size = [size for since, size in marks if since <= at][-1]
            times.append(at)
            done.append(done[-1] + 1.0 / (self.a + self.b / size))
        keep = np.array(times) >= self.rig.now / US_PER_S - seconds
        return np.array(times)[keep], np.array(done[1:])[keep]


@pytest.mark.parametrize("parallel", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (4, 1), (2, 3)])
def test_two_sizes_tell_what_devices_share(parallel: float, before: int, after: int) -> None:
    took = [1.0 - parallel + parallel / size for size in (before, after)]
    assert parallel_part(before, took[0], after, took[1]) == pytest.approx(parallel)


def test_impossible_values_are_clipped() -> None:
    assert parallel_part(1, 1.0, 2, 1.5) == 0.0
    assert parallel_part(1, 1.0, 2, 0.2) == 1.0


def test_the_name_under_which_the_twin_knows_it() -> None:
    assert model_of(job_of(), CORES) == f"amdahl:{ASSUMED_PARALLEL:.2f}"
    assert model_of(job_of({"scaling": [0.63, 1]}), CORES) == "amdahl:0.65"
    assert model_of(job_of(least=0, most=0), CORES) == ""
    assert model_of(job_of(model="cifar10"), CORES).startswith("amdahl:"), "measured on GPUs only"
    assert model_of(job_of(model="cifar10", gpus=1), V100S) == "cifar10"


def test_what_its_owner_states_counts_until_it_is_measured() -> None:
    assert model_of(job_of(model="amdahl:0.5"), CORES) == "amdahl:0.50"
    assert model_of(job_of({"scaling": [0.8, 1]}, model="amdahl:0.5"), V100S) == "amdahl:0.80"
    assert time_factor(job_of(model="amdahl:0.0"), 1, 4) == 1.0


def test_an_invalid_part_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(BadInput, match="from 0 to 1"):
        rig.submit(cpus=1, least=1, most=4, model="amdahl:2")


def test_time_on_other_numbers_of_devices() -> None:
    assert time_factor(job_of({"scaling": [1.0, 1]}), 2, 4) == pytest.approx(0.5)
    assert time_factor(job_of({"scaling": [0.0, 1]}), 2, 4) == 1.0
    assert time_factor(job_of({"scaling": [0.5, 1]}), 1, 2) == pytest.approx(0.75)
    assert time_factor(job_of(), 2, 2) == time_factor(job_of(), 2, 0) == 1.0


def test_a_change_of_size_is_measured_once_and_is_on_record(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = rig.submit(cpus=2, least=1, most=4, name="net", user="ada", estimate_s=5000.0)
    steps = Steps(rig, a=0.06, b=0.14)
    follower = follow(rig, steps)
    rig.pass_s(100)
    assert scaled(tell(rig, follower)) == [] == steps.asked
    rig.plane.resize(job, 1)
    rig.pass_s(10)
    assert scaled(tell(rig, follower)) == [], "it has hardly begun"
    rig.pass_s(60)
    ((job_id, parallel, changes),) = scaled(tell(rig, follower))
    assert (job_id, changes) == (job, 1)
    assert parallel == pytest.approx(0.7, abs=0.02)
    assert scaling_of(rig.job(job)) == Scaling(parallel, 1)
    rig.pass_s(60)
    assert scaled(tell(rig, follower)) == []
    assert len(steps.asked) == 1
    # The next change counts beside the first.
    steps.a, steps.b = 0.14, 0.06
    rig.plane.resize(job, 4)
    rig.pass_s(100)
    ((_, parallel, changes),) = scaled(tell(rig, follower))
    assert changes == 2
    assert parallel == pytest.approx(0.5, abs=0.02)
    assert rig.verdict().differing == []


def test_the_owners_next_job_begins_with_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    asked: dict[str, Any] = {"cpus": 1, "least": 1, "most": 4, "user": "ada", "estimate_s": 50.0}
    first = rig.submit(name="net", **asked)
    rig.pass_s(1)
    rig.plane.worker.receive({"scaled": [[first, 0.4, 3]]})
    follower = follow(rig)
    same, other = rig.submit(name="net", **asked), rig.submit(name="another", **asked)
    assert scaled(tell(rig, follower)) == [[same, 0.4, 3]]
    assert scaling_of(rig.job(same)) == Scaling(0.4, 3)
    assert scaling_of(rig.job(other)) is None
    rig.finish()
    # Also by one that begins after all have ended.
    again = rig.submit(name="net", **asked)
    assert scaled(tell(rig, follow(rig))) == []
    third = rig.submit(name="net", **asked)
    assert scaled(tell(rig, follower)) == [[again, 0.4, 3], [third, 0.4, 3]]
    assert rig.verdict().differing == []


def test_caps_and_silence_tell_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    steps = Steps(rig, 0.1, 0.1)
    job = rig.submit(cpus=2, least=1, most=4, estimate_s=5000.0)
    follower = follow(rig, steps)
    rig.pass_s(100)
    rig.plane.cap(job, 0.5)
    rig.plane.resize(job, 1)
    rig.pass_s(100)
    assert scaled(tell(rig, follower)) == []
    rig.plane.cap(job, 1.0)
    quiet = follow(rig, lambda name, seconds: (np.zeros(0), np.zeros(0)))
    rig.pass_s(100)
    rig.plane.resize(job, 2)
    rig.pass_s(100)
    assert scaled(tell(rig, quiet)) == []
    rig.plane.worker.receive({"scaled": [[99, 0.5, 1]]})
    assert rig.verdict().differing == []


def test_a_job_grows_where_there_is_room_and_not_if_it_does_not_help(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tuners={"elastic": Elastic(gap_s=60.0, eta=0.6)})
    job = rig.submit(cpus=1, least=1, most=4, estimate_s=4000.0)
    rig.pass_s(180)
    assert rig.job(job).rows == (Row(0, 0b111),), "a fourth core would add too little"
    rig.plane.worker.receive({"scaled": [[job, 0.05, 1]]})
    rig.pass_s(300)
    assert rig.job(job).rows[0].mask.bit_count() == 1
    reasons = [entry["reason"] for entry in rig.job(job).values["tuned"]["log"]]
    assert reasons == ["grew", "shrank"]
    assert rig.job(job).attempt == 1, "without a new start"
    assert rig.verdict().differing == []


def test_a_job_makes_room_for_one_that_came(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tuners={"elastic": Elastic(gap_s=60.0, eta=0.6)})
    wide = rig.submit(cpus=4, least=1, most=4, estimate_s=4000.0)
    rig.pass_s(100)
    other = rig.submit(cpus=2, estimate_s=400.0)
    rig.pass_s(200)
    assert rig.job(other).first_start_us < START_US + 400 * US_PER_S
    assert rig.job(wide).rows[0].mask.bit_count() == 2
    assert rig.verdict().differing == []


def scaled(messages: list[dict[str, Any]]) -> list[Any]:
    return [row for message in messages for row in message.get("scaled", [])]
