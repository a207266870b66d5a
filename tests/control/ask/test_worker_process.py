"""A worker that dies, hangs or talks nonsense harms nobody; decisions never wait for it."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import Rig, env, spec_of
from tests.until import until

from flyball.control.ask import worker_process
from flyball.control.ask.worker_process import WorkerProcess
from flyball.learn import fit_process
from flyball.learn.fit_process import FitProcess
from flyball.live import WORKER_COMMAND
from flyball.predict.runtime.features import NAMES

PYTHON = (sys.executable, "-S", "-c")
"""A bare interpreter: it starts in milliseconds."""
ECHO = """
import sys, json
print(json.dumps({"status": {"n": 1}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["spec"].get("user") == "ada":
        print(json.dumps({"answer": asked["ask"], "run": [3, 1, 2, 3, 4, 5]}), flush=True)
    else:
        print(json.dumps({"answer": asked["ask"], "run": None}), flush=True)
"""


@contextmanager
def kept(folder: Path, code: str, **options: Any) -> Iterator[tuple[WorkerProcess, list[Any]]]:
    heard: list[Any] = []
    keeper = WorkerProcess(folder, heard.append, (*PYTHON, code), **options)
    keeper.start()
    try:
        yield keeper, heard
    finally:
        keeper.stop()
        assert not keeper.alive


def test_what_it_says_is_heard_and_questions_are_answered(tmp_path: Path) -> None:
    with kept(tmp_path, ECHO) as (keeper, heard):
        until(lambda: heard)
        assert heard == [{"status": {"n": 1}}]
        assert keeper.ask(spec_of(user="ada"), 0) == [3.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert keeper.ask(spec_of(user="ben"), 0) is None
        assert keeper.state() == {"alive": True, "starts": 1, "last_end": ""}
    assert keeper.ask(spec_of(user="ada"), 0) is None, "nobody is there any more"


def test_one_that_dies_is_started_again(tmp_path: Path) -> None:
    with kept(tmp_path, "raise SystemExit(3)", backoff_s=0.01) as (keeper, _heard):
        until(lambda: keeper.starts >= 4)
        assert keeper.last_end == "ended with 3"


def test_pauses_grow_while_it_keeps_dying(tmp_path: Path) -> None:
    pauses: list[float] = []
    keeper = WorkerProcess(
        tmp_path, lambda message: None, (*PYTHON, "raise SystemExit(3)"), backoff_s=1.0
    )

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 10:
            keeper._stopping.set()
        return False

    keeper._stopping.wait = wait  # type: ignore[method-assign, assignment]
    keeper._keep()
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0]


def test_one_that_hangs_is_killed(tmp_path: Path) -> None:
    code = "import time; time.sleep(600)"
    with kept(tmp_path, code, heartbeat_timeout_s=0.1, backoff_s=0.01) as (keeper, _heard):
        until(lambda: keeper.starts >= 2)
        assert keeper.last_end == "ended with -9"


def large_spec() -> Any:
    return spec_of(env={"LONG": "x" * 100_000})


def test_one_that_does_not_read_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that is full: whoever asks gives up, and all else goes on meanwhile."""
    monkeypatch.setattr(worker_process, "ANSWER_TIMEOUT_S", 0.05)
    code = "import time; time.sleep(600)"
    with kept(tmp_path, code, heartbeat_timeout_s=600.0) as (keeper, _heard):
        until(lambda: keeper.alive)
        assert [keeper.ask(large_spec(), 0) for _ in range(3)] == [None] * 3
        assert keeper.state()["alive"]
        keeper._heartbeat_s -= 1000.0
        until(lambda: keeper.starts >= 2)


def test_a_line_half_of_which_was_taken_is_ended_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "ANSWER_TIMEOUT_S", 0.05)
    go = tmp_path / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.005)"
    with kept(tmp_path, f"{waits}\n{ECHO}") as (keeper, heard):
        until(lambda: keeper.alive)
        assert keeper.ask(large_spec(), 0) is None
        assert keeper._unsent, "the pipe has room for a part of it"
        go.touch()
        until(lambda: heard)
        monkeypatch.setattr(worker_process, "ANSWER_TIMEOUT_S", 20.0)
        assert keeper.ask(spec_of(user="ada"), 0) == [3.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_question_to_one_that_dies_does_not_end_the_keeping(tmp_path: Path) -> None:
    code = "import os, time; os.close(0); time.sleep(0.05)"
    with kept(tmp_path, code, backoff_s=0.01) as (keeper, _heard):
        until(lambda: keeper.ask(spec_of(), 0) is None and keeper.starts >= 4)
        assert all(each.is_alive() for each in keeper._threads)


def test_a_log_that_cannot_be_written_does_not_end_the_keeping(tmp_path: Path) -> None:
    (tmp_path / "foresight.log").mkdir()
    with kept(tmp_path, ECHO, backoff_s=0.01) as (keeper, heard):
        until(lambda: "could not be kept" in keeper.last_end)
        (tmp_path / "foresight.log").rmdir()
        until(lambda: heard)


def test_nonsense_is_passed_over(tmp_path: Path) -> None:
    code = "print('no json'); print('[]'); print('{\"loads\": 1}'); print('{\"n\": 2}', flush=True)"
    heard: list[Any] = []

    def hear(message: Any) -> None:
        if "loads" in message:
            raise ValueError("nobody can use that")
        heard.append(message)

    keeper = WorkerProcess(tmp_path, hear, (*PYTHON, code), backoff_s=60.0)
    keeper.start()
    until(lambda: {"n": 2} in heard)
    keeper.stop()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    keeper = WorkerProcess(tmp_path, lambda message: None, ("/no/such/program",), backoff_s=60.0)
    keeper.start()
    until(lambda: keeper.last_end)
    assert "could not be started" in keeper.last_end
    assert not keeper.alive
    keeper.stop()


def test_decisions_do_not_wait_for_a_worker(tmp_path: Path) -> None:
    """As many decisions and cycles with a worker that hangs as with none at all."""
    counts = []
    for name, code in (("none", ""), ("hangs", "import time; time.sleep(600)")):
        folder = tmp_path / name
        folder.mkdir()
        rig = Rig(folder, "sjf")
        keeper = WorkerProcess(folder, rig.plane.worker.receive, (*PYTHON, code))
        if code:
            keeper.start()
            until(lambda keeper=keeper: keeper.alive)  # type: ignore[misc]
        for at in range(6):
            rig.submit(user="ada", cpus=1 + at % 4, env=env(10.0 * at + 5))
        rig.finish()
        counts.append((rig.plane.decider.number, rig.plane.pulse.cycles, rig.plane.live_state.seq))
        keeper.stop()
        rig.plane.close()
    assert counts[0] == counts[1]


def test_a_cycle_asks_nobody(tmp_path: Path) -> None:
    """Nothing of a cycle leads to the worker: neither a question nor a fit."""
    rig = Rig(tmp_path, "sjf")
    asked: list[Any] = []

    def ask(spec: Any, now_us: int) -> None:
        asked.append(spec)

    rig.plane.forecaster.ask = ask
    for _ in range(5):
        rig.submit(cpus=4, env=env(10.0))
    rig.finish()
    assert asked == []
    rig.plane.dry_run(spec_of())
    assert len(asked) == 1


def test_what_was_said_stays_when_nonsense_follows(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    beside = rig.plane.worker
    assert beside.forecasts()["predictions"]["note"].startswith("nothing is forecast")
    beside.receive({"loads": [{"series": "pending", "mean": [1.0]}]})
    beside.receive({"status": {"time": 5.0}})
    with pytest.raises(Exception, match="start times"):
        beside.receive({"bands": {"version": 99}})
    said = {"series": "pending", "mean": [1.0], "earlier": []}
    assert beside.forecasts()["loads"] == [said]
    assert beside.forecasts()["predictions"]["time"] == 5.0
    keeper = rig.plane.worker_process(WORKER_COMMAND)
    load = {"levels": [0.5], "quantiles": [[2.0]], "mean": [2.0], "step_s": 60.0}
    beside.receive({"outlook": {"load": load}})
    outlook = rig.plane.decider.outlook
    assert outlook.load is not None and outlook.load.at(0.5, 60.0) == 2.0
    assert beside.forecasts()["predictions"]["worker"] == keeper.state()


def test_earlier_forecasts_are_kept_some_time_apart(tmp_path: Path) -> None:
    beside = Rig(tmp_path).plane.worker
    band = {"series": "pending", "p05": [0.0], "p50": [1.0], "p95": [2.0], "ahead_s": [3600.0]}
    for minute in range(60):
        beside.receive({"loads": [{**band, "time": 60.0 * minute}]})
    (row,) = beside.forecasts()["loads"]
    times = [earlier["time"] for earlier in row["earlier"]]
    assert row["time"] == 3540.0
    assert times == [720.0, 1440.0, 2160.0, 2880.0]


# Fits --------------------------------------------------------------------------------------


def training(rows: int = 400) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    table = rng.standard_normal((rows, len(NAMES)))
    return table, table[:, 0] + 0.1 * rng.standard_normal(rows), np.zeros(rows)


def ended(fits: FitProcess) -> Any:
    found: list[Any] = []

    def over() -> bool:
        found.append(fits.poll())
        return not fits.busy

    until(over)
    return found[-1]


def test_trees_are_grown_in_a_process_of_their_own(tmp_path: Path) -> None:
    fits = FitProcess(tmp_path / "predict")
    fits.start(training())
    assert fits.busy
    trees = ended(fits)
    assert len(trees.models) == 6
    assert fits.failures == 0
    assert fits.poll() is None, "told once"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time; time.sleep(600)", "over its time"),
        ("raise SystemExit(1)", "ended with 1"),
        ("pass", "no run-time model"),
        ("while True: pass", "over its time"),
    ],
)
def test_a_fit_that_fails_leaves_nothing(
    tmp_path: Path, code: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_process, "WALL_FACTOR", 1.0)
    fits = FitProcess(tmp_path / "predict", 0.3, (*PYTHON, code))
    fits.start(training(10))
    assert ended(fits) is None
    assert why in fits.last_error
    assert fits.failures == 1


def test_cpu_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[Any] = []
    monkeypatch.setattr(os, "nice", limits.append)
    monkeypatch.setattr(resource, "setrlimit", lambda *each: limits.append(each))
    monkeypatch.setattr(fit_process, "fit", lambda folder: limits.append(folder))
    monkeypatch.setattr(sys, "argv", ["fitting", str(tmp_path)])
    monkeypatch.setenv("FLYBALL_FIT_S", "7")
    fit_process.main()
    assert limits == [fit_process.NICE, (resource.RLIMIT_CPU, (7, 12)), tmp_path]
