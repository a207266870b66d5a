"""`flyball learn`: what it refuses before it begins, and a run from nothing to a replay."""

import importlib.util
import json
from pathlib import Path

import pytest

from flyball.cli.main import run
from flyball.twin.inputs.traces import read_trace


def _error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["learn", *arguments]) in (2, 75)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kind", "hybird"), "hybrid"),
        (("--minutes", "0"), "--minutes 0 is out of range"),
        (("--history", "/nowhere"), "go together"),
        (("--history", "/nowhere", "-c", "five-mixed"), "does not exist"),
        (("--limit", "speed=0.1"), "speed"),
        (("--set", "width=96"), "of agents only"),
        (("--kind", "hybrid", "--set", "widht=96"), "no setting 'widht'"),
        (("--epoch-s", "60"), "out of range"),
    ],
)
def test_train_refuses_before_it_begins(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in _error(capsys, "train", "--out", str(tmp_path / "run"), *arguments)
    assert not (tmp_path / "run").exists()


def test_without_torch_an_agent_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        "flyball.cli.learn.extras.find_spec", lambda name: None if name == "torch" else there(name)
    )
    for arguments in (["train", "--kind", "dqn", "--out", str(tmp_path / "run")], ["search"]):
        message = _error(capsys, *arguments)
        assert "needs torch" in message and "pip install 'flyball[learn]'" in message
    assert not (tmp_path / "run").exists()


def test_from_a_trace_to_a_policy_that_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "jobs.csv", tmp_path / "run"
    size = ["--days", "2", "--devices", "20", "--load", "1.0", "--seed", "1001"]
    assert run(["trace", "generate", "mixed", str(trace), *size]) == 0
    history = ["--history", str(trace), "-c", "five-mixed"]
    train = ["learn", "train", *history, "--kind", "rule", "--steps", "1", "--out", str(out)]
    few = ["--population", "4", "--problems", "1", "--validation", "2", "--json"]
    capsys.readouterr()
    assert run([*train, *few]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["steps"] == 1 and (out / "curve.png").exists()
    exported = tmp_path / "mine.safetensors"
    assert run(["learn", "export", str(out), str(exported)]) == 0
    assert run(["learn", "show", str(exported), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["card"]["made"]["source"]["jobs"] == len(read_trace(trace))
    replay = ["replay", str(trace), "-c", "five-mixed", "-p", f"tuned,learned:{exported}"]
    assert run([*replay, "--json"]) == 0
    assert "learned:" in capsys.readouterr().out
    compare = ["learn", "compare", *history, "--policy", str(exported), "--look-aheads", "0"]
    assert run([*compare, "--json", "--workers", "1"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["verdict"]["arm"] and compared["from_incumbent"]


def test_export_refuses_what_is_no_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.safetensors").write_bytes(b"no")
    (tmp_path / "p.json").write_text("{}")
    assert "policy file" in _error(capsys, "show", str(tmp_path / "p.safetensors"))
    out = str(tmp_path / "o.txt")
    assert "use NAME.safetensors" in _error(capsys, "export", str(tmp_path), out)
