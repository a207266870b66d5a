"""`flyball demo live`: its programs learn, resume from checkpoints, and are reported correctly."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.cli.jobs.test_queue import job

from flyball.cli.server import demo_live
from flyball.data.live_demo import embedding, evaluate, gang, mlp, prepare, ranking, serve, stream
from flyball.data.live_demo.progress import checkpoint_file, load, save, training_steps


def losses(capsys: pytest.CaptureFixture[str]) -> list[float]:
    """Return the losses that the program reported, in order."""
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    return [float(line[3]) for line in words if line[:1] == ["step"]]


def test_a_chain_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, weights = tmp_path / "data.npz", tmp_path / "weights.npz"
    prepare.prepare(data, 2)
    capsys.readouterr()
    mlp.train(30, 0.01, str(data), str(weights))
    told = losses(capsys)
    assert told[-1] < 0.6 * told[0]
    # Rows it never saw; whoever always says the mean has the variance as error, about 5.
    assert evaluate.evaluate(str(weights), 2) < 2.5


def test_the_table_learns(capsys: pytest.CaptureFixture[str]) -> None:
    embedding.train(40, 5_000)
    told = losses(capsys)
    assert told[-1] < 0.5 * told[0]


def test_the_server_learns(capsys: pytest.CaptureFixture[str]) -> None:
    serve.serve(400)
    told = losses(capsys)
    assert told[-1] < told[0]


def test_the_stream_learns(capsys: pytest.CaptureFixture[str]) -> None:
    stream.train(4, 2)
    told = losses(capsys)
    assert told[-1] < told[0]


def test_the_ranking_learns(capsys: pytest.CaptureFixture[str]) -> None:
    ranking.train(30)
    told = losses(capsys)
    assert told[-1] < told[0]


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_ranking_learns_with_torch(capsys: pytest.CaptureFixture[str]) -> None:
    ranking.train_torch(30)
    told = losses(capsys)
    assert told[-1] < told[0]


def test_a_gang_learns_as_one() -> None:
    """Runs in a separate process: it forks, and the test process has threads."""
    command = [sys.executable, "-m", gang.__name__, "--steps", "20"]
    environ = os.environ | demo_live.ONE_THREAD
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert lines[-1].endswith("members 2")
    assert float(lines[-1].split()[3]) < float(lines[0].split()[3])


def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYBALL_CHECKPOINT_DIR", str(tmp_path / "kept"))
    mlp.train(5, 0.01)
    capsys.readouterr()
    mlp.train(7, 0.01)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "goes on from step 5"
    assert said[1].startswith("step 6 ")


def test_weights_are_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"w": np.arange(3, dtype=np.float32)}
    monkeypatch.delenv("FLYBALL_CHECKPOINT_DIR", raising=False)
    save(1, weights)
    assert checkpoint_file() is None
    assert load(weights) == 0
    monkeypatch.setenv("FLYBALL_CHECKPOINT_DIR", str(tmp_path))
    assert load(weights) == 0
    save(7, weights)
    again = {"w": np.zeros(3, np.float32)}
    assert load(again) == 7
    assert again["w"].tolist() == [0.0, 1.0, 2.0]
    assert [path.name for path in tmp_path.iterdir()] == ["weights.npz"]


def test_ten_lines_a_run() -> None:
    assert [step for step, told in training_steps(0, 200) if told] == list(range(20, 201, 20))
    assert [step for step, told in training_steps(0, 3) if told] == [1, 2, 3]
    assert list(training_steps(5, 5)) == []


# The command -----------------------------------------------------------------------


def test_what_is_submitted(tmp_path: Path) -> None:
    drafts = {draft.name: draft for draft in demo_live.jobs_of(tmp_path, 1.0, 2)}
    tasks = sum(len(draft.tasks.indices) if draft.tasks else 1 for draft in drafts.values())
    assert tasks == 13
    assert {draft.values["kind"] for draft in drafts.values()} == {
        *("compute-intensive", "memory-bound", "latency-sensitive", "bandwidth-limited", "mixed")
    }
    assert drafts["train"].after == [("afterok", "prepare")]
    assert drafts["evaluate"].after == [("afterok", "train")]
    assert drafts["gang"].values["cpus"] == 2
    assert drafts["serve-a"].values["priority"] > 0
    assert all(find_spec(draft.values["argv"][2]) for draft in drafts.values())


def test_one_core_and_short_jobs(tmp_path: Path) -> None:
    drafts = {draft.name: draft for draft in demo_live.jobs_of(tmp_path, 0.01, 1)}
    assert drafts["gang"].values["cpus"] == 1
    assert drafts["gang"].values["argv"][-2:] == ["--members", "1"]
    assert drafts["stream"].values["argv"][-1] == "2"


def test_lines_as_the_queue_moves() -> None:
    states: dict[int, str] = {}
    assert list(demo_live.changes([job(1), job(2)], states, 0.0)) == []
    moved = list(demo_live.changes([job(1, "RUNNING"), job(2)], states, 1.25))
    assert [line.split() for line in moved] == [
        ["1.2", "s", "1", "job1", "RUNNING", "1", "pending,", "1", "running"]
    ]
    assert list(demo_live.changes([job(1, "RUNNING"), job(2)], states, 2.0)) == []
    assert len(list(demo_live.changes([job(1, "COMPLETED"), job(2, "RUNNING")], states, 3.0))) == 2
