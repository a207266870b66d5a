"""The control plane as others see it, on virtual nodes: submit, cancel, depend, preempt, ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import START_US, TWO_NODES, FakeSensors, Rig, env, spec_of

from flyball.control.journal.store import JobQuery
from flyball.core.errors import BadInput, Conflict, NotFound, Unavailable, UnknownName
from flyball.core.jobs import JobState
from flyball.monitor.features import Features

PENDING, RUNNING, COMPLETED = JobState.PENDING, JobState.RUNNING, JobState.COMPLETED
CANCELLED, COMPLETING = JobState.CANCELLED, JobState.COMPLETING


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


# A job's life -------------------------------------------------------------------------------


def test_a_job_runs_and_ends(rig: Rig) -> None:
    job = rig.submit(cpus=2, estimate_s=30.0)
    assert rig.states(job) == [PENDING]
    rig.settle()
    assert rig.states(job) == [RUNNING]
    rig.pass_s(30)
    done = rig.job(job)
    assert (done.state, done.end_us - done.first_start_us) == (COMPLETED, 30_000_000)
    assert done.service_us == 60e6
    assert done.values["exit_code"] == 0
    assert not rig.engine.attempts, "what is on record is acknowledged"


def test_exit_codes_and_limits(rig: Rig) -> None:
    bad = rig.submit(env=env(code=3))
    late = rig.submit(estimate_s=60.0, limit_s=20.0)
    rig.finish()
    assert rig.states(bad, late) == [JobState.FAILED, JobState.TIMEOUT]
    assert rig.job(bad).values["exit_code"] == 3


def test_the_queue_shows_what_runs_then_what_waits_by_priority(rig: Rig) -> None:
    first = rig.submit(cpus=4)
    rig.settle()
    second, third = rig.submit(), rig.submit(priority=1.0)
    assert [job.id for job in rig.plane.ask.queue()] == [first, third, second]
    assert [job.id for job in rig.plane.ask.jobs(JobQuery())] == [third, second, first]


def test_priorities_go_first(rig: Rig) -> None:
    rig.submit(cpus=4)
    rig.settle()
    low, high = rig.submit(cpus=4), rig.submit(cpus=4, priority=1.0)
    rig.finish()
    assert rig.start_s(high) == 10
    assert rig.start_s(low) == 20


def test_memory_is_a_demand(rig: Rig) -> None:
    jobs = [rig.submit(memory_mib=6000) for _ in range(2)]
    small = rig.submit(memory_mib=2000)
    rig.settle()
    assert rig.states(*jobs, small) == [RUNNING, PENDING, PENDING]
    rig.pass_s(10)
    assert rig.states(*jobs, small) == [COMPLETED, RUNNING, RUNNING]


def test_arrays_keep_to_their_limit(rig: Rig) -> None:
    tasks = [spec_of(array_index=at, array_limit=2) for at in range(5)]
    ids = rig.plane.submit(tasks)
    assert [rig.job(each).label for each in ids] == [f"1_{at}" for at in range(5)]
    rig.finish()
    assert [rig.start_s(each) for each in ids] == [0, 0, 10, 10, 20]


def test_neighbours_are_told_apart_as_arrays(rig: Rig) -> None:
    ids = rig.plane.submit(
        [spec_of(array_index=0), spec_of(array_index=3), spec_of(array_index=1), spec_of()]
    )
    assert [rig.job(each).spec.array for each in ids] == [1, 1, 3, 0]
    assert {rig.job(each).spec.name for each in ids} == {"work"}


# Dependencies -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1])
def test_dependencies(rig: Rig, code: int) -> None:
    first = rig.submit(env=env(code=code))
    ok = rig.submit(after=(("afterok", first),))
    not_ok = rig.submit(after=(("afternotok", first),))
    either = rig.submit(after=(("afterany", first),))
    rig.settle()
    assert rig.states(ok, not_ok, either) == [PENDING] * 3
    rig.finish()
    good, bad = (ok, not_ok) if code == 0 else (not_ok, ok)
    assert rig.states(good, bad, either) == [COMPLETED, CANCELLED, COMPLETED]
    state = "COMPLETED" if code == 0 else "FAILED"
    assert rig.job(bad).reason == f"dependency-never-satisfied: job {first} is {state}"
    assert rig.start_s(good) == rig.start_s(either) == 10


def test_doom_goes_down_the_chain(rig: Rig) -> None:
    first = rig.submit()
    second = rig.submit(after=(("afterok", first),))
    third = rig.submit(after=(("afterok", second),))
    last = rig.submit(after=(("afterany", third), ("afternotok", second)))
    rig.plane.cancel(first)
    rig.finish()
    assert rig.states(first, second, third, last) == [CANCELLED] * 3 + [COMPLETED]
    assert rig.job(third).reason.endswith(f"job {second} is CANCELLED")


def test_a_dependency_must_exist_and_be_able_to_hold(rig: Rig) -> None:
    with pytest.raises(NotFound, match="no job 7 to wait for"):
        rig.submit(after=(("afterok", 7),))
    failed = rig.submit(env=env(code=1))
    rig.finish()
    with pytest.raises(BadInput, match="is FAILED: afterok can never hold"):
        rig.submit(after=(("afterok", failed),))
    assert rig.submit(after=(("afternotok", failed),)) == 2


# Cancelling ---------------------------------------------------------------------------------


def test_cancel_what_waits(rig: Rig) -> None:
    rig.submit(cpus=4)
    rig.settle()
    job = rig.submit()
    rig.plane.cancel(job)
    assert rig.states(job) == [CANCELLED]
    rig.finish()
    assert (job, 1) not in rig.engine.launched


def test_cancel_what_runs(rig: Rig) -> None:
    job = rig.submit(estimate_s=1000.0)
    rig.pass_s(5)
    rig.plane.cancel(job)
    assert rig.states(job) == [COMPLETING]
    rig.plane.step()
    assert rig.engine.stopped == [(job, 1, "cancel")]
    assert rig.states(job) == [COMPLETING], "it is told; it is not gone yet"
    rig.plane.cancel(job)  # once more, while it is ending
    rig.settle()
    assert rig.states(job) == [CANCELLED]
    assert len(rig.engine.stopped) == 1
    assert rig.job(job).end_us == START_US + 5_000_000
    rig.plane.cancel(job)  # it is over: nothing to do
    with pytest.raises(NotFound, match="no job 99"):
        rig.plane.cancel(99)


def test_a_cancellation_between_record_and_launch(rig: Rig) -> None:
    """Intended, on record, and cancelled before the engine hears of it: it never begins."""
    job = rig.submit()
    rig.at_point["recorded"] = lambda: rig.plane.cancel(job)
    rig.settle()
    assert rig.engine.launched == []
    assert rig.states(job) == [CANCELLED]
    other = rig.submit(cpus=4)
    rig.settle()
    assert rig.states(other) == [RUNNING], "its devices are free again"
    assert rig.verdict().differing == []


# Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"cpus": 5}, "asks for 5 cores; the largest node has 4"),
        ({"memory_mib": 9000}, "8"),
        ({"gpus": 1}, "no node has one"),
        ({"cpus": 0}, "cpus is 0"),
        ({"limit_s": float("inf")}, "limit_s is inf"),
        ({"priority": float("nan")}, "priority is nan"),
        ({"memory_mib": -1}, "memory_mib is -1"),
    ],
)
def test_what_can_never_run_is_refused(rig: Rig, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        rig.plane.submit([spec_of(), spec_of(**asked)])
    assert rig.plane.ask.queue() == [], "all or none"
    assert rig.submit() == 1


def test_an_unknown_class_is_refused_before_it_is_on_record(rig: Rig) -> None:
    with pytest.raises(UnknownName, match="compute-intensive"):
        rig.submit(kind="compute-intensiv")
    assert rig.submit(kind="mixed") == 1
    rig.finish()
    assert rig.plane.ask.health()["ok"]


def test_nothing_to_submit(rig: Rig) -> None:
    with pytest.raises(BadInput, match="no job"):
        rig.plane.submit([])


# Idempotency --------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_jobs(rig: Rig) -> None:
    asked = [spec_of(name="a"), spec_of(name="b")]
    ids = rig.plane.submit(asked, "k")
    assert rig.plane.submit(asked, "k") == ids == [1, 2]
    assert len(rig.plane.ask.queue()) == 2
    with pytest.raises(Conflict, match="'k' was used for other jobs"):
        rig.plane.submit(asked[:1], "k")
    assert rig.submit(name="c") > 2
    rig.finish()
    assert rig.open().submit(asked, "k") == ids, "also after a restart, also when they are over"


def test_a_repeated_key_is_answered_though_it_could_not_be_accepted_now(rig: Rig) -> None:
    first = rig.submit(env=env(code=1))
    asked = [spec_of(after=(("afterok", first),))]
    ids = rig.plane.submit(asked, "k")
    rig.finish()
    assert rig.states(first, *ids) == [JobState.FAILED, CANCELLED]
    assert rig.plane.submit(asked, "k") == ids


# Answers ------------------------------------------------------------------------------------


def test_trying_a_job_out_leaves_no_trace(rig: Rig) -> None:
    rig.submit(cpus=4, estimate_s=50.0)
    rig.settle()
    before = rig.plane.journal.last().seq
    found = rig.plane.dry_run(spec_of(cpus=4))
    assert (found["would_start"], found["devices"], found["device"]) == (True, 4, "CPU1")
    assert found["p50_s"] > 0
    assert rig.plane.journal.last().seq == before
    with pytest.raises(BadInput):
        rig.plane.dry_run(spec_of(cpus=5))
    assert rig.submit(cpus=1) == 2
    rig.pass_s(50)
    assert rig.job(2).rows[0].mask == 1, "it has its own width, not that of the one tried out"


def test_forecasts_are_for_those_who_wait(rig: Rig) -> None:
    rig.submit(cpus=4, estimate_s=50.0)
    rig.settle()
    waiting = rig.submit()
    found = rig.plane.ask.forecast()
    assert [each["id"] for each in found["starts"]] == [waiting]
    assert found["starts"][0]["p50_s"] > 0


def test_progress_is_what_the_running_attempt_said_last(rig: Rig) -> None:
    job = rig.submit()
    rig.settle()
    rig.plane.report(job, 1, {"step": 1, "loss": 2.0})
    rig.plane.report(job, 0, {"step": 2})
    rig.plane.report(job, 9, {"step": 99})
    assert rig.plane.ask.view(rig.job(job))["progress"] == {"step": 2, "loss": 2.0}
    rig.finish()
    rig.plane.report(job, 1, {"step": 3})
    said = rig.plane.ask.view(rig.job(job))["progress"]
    assert said == {"step": 2, "loss": 2.0}, "its last words stay, and nothing follows its end"


def test_where_the_output_is(rig: Rig) -> None:
    job, other = rig.submit(), rig.submit(stdout="/tmp/mine.txt")
    with pytest.raises(NotFound, match="has no attempt"):
        rig.plane.ask.log_path(job)
    rig.settle()
    assert rig.plane.ask.log_path(job) == rig.folder / "logs" / "1.1.out"
    assert rig.plane.ask.log_path(other) == Path("/tmp/mine.txt")
    with pytest.raises(NotFound, match="no attempt 2"):
        rig.plane.ask.log_path(job, 2)


def test_where_the_error_output_is(rig: Rig) -> None:
    together = rig.submit(stdout="/tmp/both.txt", stderr="/tmp/both.txt")
    apart = rig.submit(name="a", stdout="/tmp/%j.out", stderr="/tmp/%j-%x.err")
    rig.settle()
    assert rig.plane.ask.log_path(together, stream="stderr") == Path("/tmp/both.txt")
    assert rig.plane.ask.log_path(apart) == Path(f"/tmp/{apart}.out")
    assert rig.plane.ask.log_path(apart, stream="stderr") == Path(f"/tmp/{apart}-a.err")


def test_events_and_decisions_can_be_read(rig: Rig) -> None:
    job = rig.submit()
    rig.finish()
    kinds = [each["kind"] for each in rig.plane.ask.events(0, 100)]
    assert kinds == ["opened", "submitted", "decided", "intended", "started", "ended"]
    assert [each["kind"] for each in rig.plane.ask.events(0, 100, ["ended"], job)] == ["ended"]
    (decision,) = rig.plane.ask.decisions(0, 10)
    assert (decision["number"], decision["plan"][0][1]) == (1, job)
    assert rig.plane.ask.wait_events(0, 5.0) == len(kinds)
    assert rig.plane.ask.wait_events(len(kinds), 0.0) == len(kinds)


def test_what_is_audited_is_on_record(rig: Rig) -> None:
    rig.plane.audit("refused token", "127.0.0.1")
    assert rig.plane.ask.events(1, 10)[0]["what"] == "refused token"


def test_telemetry_is_somebody_elses(rig: Rig) -> None:
    assert rig.plane.ask.telemetry() == {}
    with pytest.raises(NotFound, match="nothing called 'cpu'"):
        rig.plane.ask.series("cpu", 60.0)

    class Sensors:
        def latest(self) -> dict[str, Any]:
            return {"cpu": 0.5, "application.1.step": 3.0, "application.12.step": 9.0}

        def status(self) -> dict[str, Any]:
            return {}

        def names(self) -> list[str]:
            return ["cpu"]

        def series(self, name: str, seconds: float) -> tuple[Any, Any]:
            return np.array([1.0]), np.array([0.5])

        def features(self, name: str) -> list[Features]:
            return [Features(1.0, 1, 0.5, 0.0, 0.5, 0.0, False)]

        def states(self) -> dict[str, Any]:
            return {"alive": True, "sensors": []}

        def ask_fast(self, seconds: float) -> None:
            if seconds > 60:
                raise OSError("disk full")
            asked.append(seconds)

    asked: list[float] = []
    assert rig.plane.ask.sensor_states()["sensors"] == []
    with pytest.raises(Unavailable, match="no monitoring agent runs"):
        rig.plane.ask.fast(30.0)
    rig.plane.ask.sensors = Sensors()
    assert rig.plane.ask.telemetry()["cpu"] == 0.5
    rig.submit()
    rig.submit(cpus=4)
    rig.settle()
    said = [rig.plane.ask.view(rig.job(job))["progress"] for job in (1, 2)]
    assert said == [{"step": 3.0}, None], "what a job tells the agent is its progress too"
    assert rig.plane.ask.series("cpu", 60.0) == {"name": "cpu", "times": [1.0], "values": [0.5]}
    (found,) = rig.plane.ask.series("cpu", 60.0, "mean", 1.0, True)["features"]
    assert (found["window_s"], found["mean"], found["burst"]) == (1.0, 0.5, False)
    assert rig.plane.ask.fast(30.0) == {"seconds": 30.0}
    assert asked == [30.0]
    with pytest.raises(Unavailable, match="disk full"):
        rig.plane.ask.fast(90.0)


def test_who_is_on_the_nodes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, nodes=TWO_NODES)
    rig.submit(cpus=3)
    rig.settle()
    first, second = rig.plane.ask.nodes()
    assert (first["name"], first["used"], first["jobs"]) == ("a", 3, [1])
    assert (second["used"], second["jobs"]) == (0, [])


def test_prices_are_on_receipts(rig: Rig) -> None:
    job = rig.submit(cpus=2, estimate_s=1800.0)
    rig.finish()
    assert rig.plane.ask.receipt(job)["device_hours"] == 1.0


def test_memory_of_several_processes_is_what_the_agent_saw(rig: Rig) -> None:
    """The supervisor sleeps beside a job without a limit; the agent looks once a second."""

    sensors = rig.plane.ask.sensors = FakeSensors()
    sensors.stored["jobs.1.memory_bytes"] = [each * 2.0**20 for each in (100, 4096, 200, 100)]
    job = rig.submit()
    rig.finish()
    found = rig.plane.ask.receipt(job)
    assert (found["peak_mib"], found["peak_by"]) == (4096.0, "at_least"), "too few looks"
    assert "--mem" not in found["suggestion"]["text"].partition(";")[0]
    sensors.stored["jobs.1.memory_bytes"].append(100.0 * 2**20)
    found = rig.plane.ask.receipt(job)
    assert (found["peak_mib"], found["peak_by"]) == (4096.0, "samples")


def test_peak_is_never_below_what_was_shown(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """`show` and `top` show the agent's samples; the end record may have seen less."""
    sensors = rig.plane.ask.sensors = FakeSensors()
    sensors.stored["jobs.1.memory_bytes"] = [43.0 * 2**20]
    job = rig.submit()
    rig.finish()
    end = {"max_rss_mib": 32.0, "peak_mib": 32.0, "peak_by": "process"}
    ended = replace(rig.plane.ask.job(job), values=end)
    monkeypatch.setattr(rig.plane.ask, "job", lambda _number: ended)
    found = rig.plane.ask.receipt(job)
    assert (found["peak_mib"], found["max_rss_mib"]) == (43.0, 32.0)
    assert found["suggestion"]["memory_mib"] == 64


def test_what_can_never_run_is_told_what_there_is(rig: Rig) -> None:
    with pytest.raises(BadInput) as never:
        rig.submit(cpus=99)
    assert "it can never run here: " in str(never.value)
    assert "asks for 99 cores; the largest node has" in str(never.value)
    assert never.value.remedy == "ask for less; `flyball nodes` shows what there is"
