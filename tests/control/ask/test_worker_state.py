"""What is learnt beside the control plane, from the journal alone."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import Rig, env, spec_of

from flyball import worker as worker_main
from flyball.control.ask import worker_loop
from flyball.control.ask.worker_state import WorkerState
from flyball.control.jobs.live_state import PREDICTION
from flyball.control.jobs.request import Demand
from flyball.control.journal.history import History
from flyball.core.jobs import JobSpec
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S, to_us
from flyball.learn import learner as learner_file
from flyball.learn.fit_process import FitProcess
from flyball.learn.learner import JournalLearner
from flyball.learn.loads import ClusterLoads


class Quiet(FitProcess):
    """Grows nothing."""

    def start(self, training: Any) -> None:
        self.asked = training


def learner_of(worker: WorkerState) -> JournalLearner:
    assert isinstance(worker.learner, JournalLearner)
    return worker.learner


def learnt_by(worker: WorkerState) -> int:
    return learner_of(worker).run_times.run_times.learnt


def follow(rig: Rig, telemetry: Any = None) -> WorkerState:
    history = History(rig.folder / "journal.db")
    place = rig.folder / "predict"
    learner = JournalLearner(place, telemetry, Quiet(place))
    return WorkerState(history, place, lambda: rig.now, learner)


def tell(rig: Rig, follower: WorkerState) -> list[dict[str, Any]]:
    """A step of the follower, heard by the plane."""
    messages = json.loads(json.dumps(follower.step(), allow_nan=False))
    for each in messages:
        rig.plane.worker.receive(each)
    return messages  # type: ignore[no-any-return]


def taught(folder: Path, policy: str = "sjf") -> Rig:
    rig = Rig(folder, policy)
    for _ in range(4):
        rig.submit(user="ada", name="train", cpus=4, env=env(400.0))
        rig.submit(user="ben", name="test", cpus=4, env=env(20.0))
        rig.finish()
    return rig


def test_run_times_reach_decisions_through_the_journal(tmp_path: Path) -> None:
    rig = taught(tmp_path)
    follower = follow(rig)
    rig.submit(user="zoe", cpus=4, env=env(50.0))
    rig.settle()
    long = rig.submit(user="ada", name="train", cpus=4, env=env(400.0))
    short = rig.submit(user="ben", name="test", cpus=4, env=env(20.0))
    said = tell(rig, follower)[0]["runs"]
    assert [each[0] for each in said] == [short - 2, long, short]
    assert rig.job(long).values[PREDICTION][0] == 4
    rig.finish()
    assert rig.start_s(short) < rig.start_s(long)
    assert rig.verdict().differing == []
    assert "runs" not in [name for each in tell(rig, follower) for name in each], "told once"


def test_its_own_words_in_the_journal_do_no_harm(tmp_path: Path) -> None:
    rig = taught(tmp_path)
    follower = follow(rig)
    for at in range(5):
        rig.submit(user="ada", name="train", cpus=4, env=env(100.0 + at))
        tell(rig, follower)
        rig.pass_s(30.0)
    rig.finish()
    tell(rig, follower)
    assert follower.live_state.jobs == rig.plane.live_state.jobs == {}
    assert learner_of(follower).run_times.run_times.learnt == 13


def test_many_are_told_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_file, "MAX_RUNS_PER_MESSAGE", 10)
    rig = taught(tmp_path)
    follower = follow(rig)
    rig.plane.submit([spec_of(user="ada", name="train", cpus=4)] * 25)
    sizes = [len(each["runs"]) for _ in range(4) for each in tell(rig, follower) if "runs" in each]
    assert sizes == [10, 10, 5]


def test_start_times_are_asked_and_learnt_from(tmp_path: Path) -> None:
    rig = taught(tmp_path, "fifo")
    follower = follow(rig)
    rig.submit(user="ada", name="train", cpus=4, env=env(400.0))
    rig.settle()
    gone = rig.submit(user="ben", name="test", cpus=4, env=env(20.0))
    rig.submit(user="ben", name="test", cpus=4, env=env(20.0))
    tell(rig, follower)
    assert follower.bands.waiting == 2
    rig.plane.cancel(gone)
    rig.finish()
    tell(rig, follower)
    assert follower.bands.waiting == 0
    status = follower.status()["starts"]
    assert status["n_p50"] == status["n_p90"] == 1
    assert 0.0 <= status["coverage_p90"] <= 1.0


def test_what_was_learnt_survives_a_restart(tmp_path: Path) -> None:
    rig = taught(tmp_path, "fifo")
    first = follow(rig)
    rig.submit(user="ada", name="train", cpus=4, env=env(400.0))
    rig.settle()
    rig.submit(user="ben", name="test", cpus=4, env=env(20.0))
    tell(rig, first)
    rig.finish()
    tell(rig, first)
    first.close()
    second = follow(rig)
    assert second.bands.as_dict() == first.bands.as_dict()
    assert second.bands.common != [0.0, 0.0]
    assert learnt_by(second) == learnt_by(first) == 10
    spec = spec_of(user="ada", name="train", cpus=4)
    assert second.predict(spec) == pytest.approx(first.predict(spec), rel=0.05)


def test_nodes_that_went_down_before_the_worker_began(tmp_path: Path) -> None:
    nodes = tuple(LiveNode(name, "CPU1", 4, 4, 8192) for name in ("a", "b"))
    rig = Rig(tmp_path, "easy", nodes=nodes)
    rig.engine.take_down(0)
    rig.settle()
    rig.engine.take_down(1)
    rig.settle()
    rig.engine.bring_up(0)
    rig.settle()
    follower = follow(rig)
    assert follower.live_state.down == {1}
    rig.engine.bring_up(1)
    rig.settle()
    follower.step()
    assert follower.live_state.down == set()


def test_bad_files_are_a_new_beginning(tmp_path: Path) -> None:
    rig = taught(tmp_path)
    place = tmp_path / "predict"
    (place / "runtime").mkdir(parents=True)
    (place / "runtime" / "runtime.json").write_text("{")
    (place / "starts.json").write_text("nothing")
    follower = follow(rig)
    assert "not used" in follower.status()["run_times"]["note"]
    assert follower.predict(spec_of(user="ada", name="train", cpus=4))[0] == 4


def test_trees_that_come_back_are_used_and_kept(tmp_path: Path) -> None:
    rig = taught(tmp_path)
    follower = follow(rig)

    class Grown(Quiet):
        def poll(self) -> Any:
            from flyball.predict.runtime.trees import Trees

            return Trees()

    learner_of(follower).fits = Grown(tmp_path / "predict")
    before = learner_of(follower).run_times.run_times.trees
    follower.step()
    assert learner_of(follower).run_times.run_times.trees is not before
    assert (tmp_path / "predict" / "runtime" / "runtime.json").is_file()
    assert not (tmp_path / "predict" / "saving").exists()


# ClusterLoads -------------------------------------------------------------------------------------


def cores_of(rig: Rig) -> Callable[[JobSpec], int]:
    """Devices in thousandths."""
    demand = Demand(rig.plane.nodes_)
    return lambda spec: demand.of(spec).devices * demand.of(spec).milli


def series_of(loads: ClusterLoads) -> dict[str, list[float]]:
    return {name: series.values.tolist() for name, series in loads.series.items()}


def test_series_are_what_happened(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "fifo")
    rig.now = 1_700_000_400 * US_PER_S  # on the grid of ten minutes
    rig.submit(cpus=3, env=env(150.0))
    rig.submit(cpus=4, env=env(100.0))
    rig.pass_s(600.0)
    jobs = rig.plane.journal.jobs().jobs
    loads = ClusterLoads(cores_of(rig))
    loads.begin(jobs, rig.now)
    found = series_of(loads)
    assert found["arrivals"] == [2.0]
    assert found["load"] == [7.0, 7.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert found["running"] == [3.0, 3.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert found["pending"] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_following_gives_the_same_as_looking_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "fifo")
    rig.now = 1_700_000_400 * US_PER_S
    rig.submit(cpus=1, env=env(10.0))
    rig.settle()
    follower = follow(rig)
    rng = np.random.default_rng(1)
    for _ in range(30):
        rig.submit(cpus=int(rng.integers(1, 5)), env=env(float(rng.uniform(5, 200))))
        rig.pass_s(float(rng.uniform(10, 120)))
        follower.step()
    rig.pass_s(60.0)
    follower.step()
    back = ClusterLoads(cores_of(rig))
    until_s = learner_of(follower).loads.series["running"].next_s - 1.0
    back.begin(rig.plane.journal.jobs().jobs, to_us(until_s))
    seen, again = series_of(learner_of(follower).loads), series_of(back)
    for name in ("load", "running", "pending"):
        assert seen[name][: len(again[name])] == again[name]
        assert len(again[name]) > 20


def test_loads_are_told_with_how_good_they_were(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "fifo")
    rig.now = 1_700_000_400 * US_PER_S
    rng = np.random.default_rng(2)
    for _ in range(60):
        rig.submit(cpus=int(rng.integers(1, 5)), env=env(float(rng.uniform(20, 200))))
        rig.pass_s(float(rng.uniform(60, 120)))
    times = rig.now / US_PER_S - np.arange(4000.0)[::-1]

    def measured(name: str, seconds: float) -> tuple[Any, Any]:
        return times, np.full(len(times), 37.0)

    follower = follow(rig, measured)
    for _ in range(5):  # one series is fitted a minute
        rig.pass_s(61.0)
        tell(rig, follower)
    answer = rig.plane.ask.forecast()
    loads = {each["series"]: each for each in answer["loads"]}
    assert set(loads) == {"load", "arrivals", "running", "pending", "utilisation"}
    assert loads["utilisation"]["p50"][0] == pytest.approx(37.0)
    assert loads["running"]["p05"] <= loads["running"]["p50"] <= loads["running"]["p95"]
    followed = {each["series"]: each for each in answer["predictions"]["loads"]}
    running = followed["running"]["leads"][0]
    assert running["model"]
    assert running["naive"] in ("last", "yesterday", "last-week")
    assert 0.0 <= running["coverage_90"] <= 1.0
    assert running["n"] > 10
    assert answer["predictions"]["note"] == ""


def test_nothing_measured_is_missing_not_zero(tmp_path: Path) -> None:
    rig = taught(tmp_path)

    def measured(name: str, seconds: float) -> tuple[Any, Any]:
        raise OSError("no telemetry")

    follower = follow(rig, measured)
    rig.pass_s(61.0)
    follower.step()
    assert np.isnan(series_of(learner_of(follower).loads)["utilisation"]).all()
    names = [each["series"] for each in learner_of(follower).every_minute((), rig.now)[0]["loads"]]
    assert "utilisation" not in names


# The process -------------------------------------------------------------------------------


def test_questions_are_answered_and_the_end_is_heard(tmp_path: Path) -> None:
    rig = taught(tmp_path)
    follower = follow(rig)
    said: list[Any] = []
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as questions:
        serving = threading.Thread(
            target=worker_loop.serve, args=(follower, questions, said.append)
        )
        serving.start()
        spec = spec_of(user="ada", name="train", cpus=4).as_dict()
        lines = [{"ask": 1, "spec": spec}, {"ask": 2, "spec": {"no": 1}}, "x"]
        text = "\n".join(json.dumps(each) for each in lines) + "\nno json\n"
        os.write(write, text.encode())
        os.close(write)
        serving.join(20.0)
    assert not serving.is_alive()
    answers = [each for each in said if "answer" in each]
    assert [each["answer"] for each in answers] == [1, 2, None, None]
    assert answers[0]["run"][0] == 4
    assert [each["run"] for each in answers[1:]] == [None, None, None]
    assert {"alive": follower.live_state.seq} in said
    assert (tmp_path / "predict" / "starts.json").is_file()


def test_the_process_begins_from_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = taught(tmp_path)
    rig.plane.close()
    read, write = os.pipe()
    os.close(write)
    monkeypatch.setattr(os, "nice", lambda by: 0)
    monkeypatch.setattr(sys, "argv", ["worker", "--state", str(tmp_path)])
    with open(read, "rb", buffering=0) as nobody:
        monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": nobody}))
        worker_main.main()
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert any("status" in each for each in lines)


def test_a_journal_that_is_not_written_to_is_not_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    watched = worker_loop.JournalWatch(rig.folder / "journal.db")
    assert watched.changed()  # the first look
    assert not watched.changed()
    rig.submit()
    assert watched.changed()
    assert not watched.changed()


def test_without_news_it_steps_only_when_something_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follow(Rig(tmp_path))
    steps: list[int] = []

    def step() -> list[dict[str, Any]]:
        steps.append(1)
        return []

    monkeypatch.setattr(follower, "step", step)
    looks = iter([True, *[False] * 20])
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", 0) as questions, os.fdopen(theirs, "wb", 0) as end:
        monkeypatch.setattr(worker_loop, "POLL_S", 0.001)

        def changed() -> bool:
            if (found := next(looks, None)) is None:
                end.close()
            return bool(found)

        worker_loop.serve(follower, questions, lambda _message: None, changed)
    assert len(steps) == 1
