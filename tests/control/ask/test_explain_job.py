"""Why a live job waits, and what would help."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.jobs.test_request import GPUS
from tests.control.live_cases import Rig, env

from flyball.core.errors import NotFound


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    for _ in range(3):
        rig.submit(user="ada", name="train", cpus=3, env=env(100.0))
    rig.finish()
    rig.submit(user="ada", name="train", cpus=3, env=env(100.0))
    rig.pass_s(40)
    return rig


def test_no_room(rig: Rig) -> None:
    job = rig.submit(cpus=4, user="ada", name="train")
    rig.settle()
    answer = rig.plane.ask.why(job)
    assert (answer["id"], answer["state"], answer["token"]) == (job, "PENDING", "no-free-devices")
    assert "4" in answer["sentence"]
    assert answer["remedies"]
    assert (answer["ahead"], answer["ahead_count"]) == ([], 0)
    assert answer["p50_s"] == pytest.approx(60.0, abs=0.01)
    assert answer["method"].endswith("; roll-outs of the twin")
    half, first = answer["counterfactuals"]
    assert half["change"] == "on 2 cores instead of 4"
    assert half["p50_s"] == pytest.approx(60.0, abs=0.01), "two do not fit either"
    assert first["change"] == "with priority 1"


def test_fewer_cores_would_be_earlier(rig: Rig) -> None:
    job = rig.submit(cpus=2, user="ada", name="train")
    rig.settle()
    answer = rig.plane.ask.why(job)
    half = answer["counterfactuals"][0]
    assert half == {
        "change": "on 1 core instead of 2",
        "p50_s": 0.0,
        "text": "on 1 core instead of 2: in 0 s",
    }
    assert answer["p50_s"] == pytest.approx(60.0, abs=0.01)


def test_jobs_ahead_go_by_their_labels(rig: Rig) -> None:
    rig.submit(cpus=4, array_index=7)
    rig.submit(cpus=1)
    rig.settle()
    answer = rig.plane.ask.why(6)
    assert answer["token"] == "behind-head"
    assert (answer["ahead"], answer["ahead_count"]) == (["5_7"], 1)


def test_waiting_for_others(rig: Rig) -> None:
    job = rig.submit(after=(("afterok", 4),))
    rig.settle()
    answer = rig.plane.ask.why(job)
    assert answer["token"] == "waits-for-jobs" or "4" in answer["sentence"]
    assert answer["counterfactuals"][0]["change"] == "without waiting for other jobs"
    assert answer["counterfactuals"][0]["p50_s"] == 0.0


def test_a_job_that_does_not_wait(rig: Rig) -> None:
    assert rig.plane.ask.why(4)["sentence"] == "Job 4 is running."
    assert rig.plane.ask.why(1)["sentence"] == "Job 1 is COMPLETED."
    rig.plane.cancel(4)
    answer = rig.plane.ask.why(4)
    assert answer["sentence"] == "Job 4 was told to stop (cancel) and is ending."
    assert (answer["token"], answer["counterfactuals"], answer["p50_s"]) == (
        "does-not-wait",
        [],
        None,
    )
    with pytest.raises(NotFound):
        rig.plane.ask.why(99)


def test_a_dependency_that_can_never_be_satisfied(rig: Rig) -> None:
    failing = rig.submit(cpus=1, env=env(5.0, code=1))
    rig.settle()
    job = rig.submit(after=(("afterok", failing),))
    rig.now += 5_000_000
    rig.plane.step()  # the end is on record; the cancellation comes with the next cycle
    answer = rig.plane.ask.why(job)
    assert answer["token"] == "dependency-never-satisfied"
    assert answer["sentence"] == f"Job {job} waits for {failing}: that can never be satisfied."
    rig.settle()
    assert "is CANCELLED. dependency-never-satisfied" in rig.plane.ask.why(job)["sentence"]


def test_a_job_that_would_start_at_once_has_no_reason(rig: Rig) -> None:
    job = rig.submit(cpus=1)
    answer = rig.plane.ask.why(job)
    assert (answer["token"], answer["p50_s"], answer["counterfactuals"]) == ("starts-now", 0.0, [])
    assert answer["sentence"] == f"Job {job} fits and starts with the next decision."


def test_accelerators_are_halved_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, nodes=GPUS)
    rig.submit(gpus=6)
    rig.settle()
    rig.submit(gpus=4)
    rig.settle()
    assert rig.plane.ask.why(2)["counterfactuals"][0] == {
        "change": "on 2 GPUs instead of 4", "p50_s": 0.0, "text": "on 2 GPUs instead of 4: in 0 s",
    }  # fmt: skip
