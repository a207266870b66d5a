"""`flyball bench compare` and `bench tune-heuristics`, as users call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run
from flyball.experiments import scenarios
from flyball.experiments.compare.runs import ComparePlan
from flyball.experiments.compare.summary import load_comparison
from flyball.experiments.run_file import Record
from flyball.experiments.scenarios import Scenario

COMPARE = ("bench", "compare", "--scenarios", "uniform", "--seeds", "2", "--workers", "1")
TUNE = ("bench", "tune-heuristics", "--scenarios", "uniform", "--seeds", "1", "--held-out", "2")


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Only JSON may be on stdout."""
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr of a command that must fail."""
    assert run([str(argument) for argument in arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1, shown.err
    return shown.err


@pytest.mark.parametrize("command", ["compare", "tune-heuristics"])
def test_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(["bench", command, "--help"]) == 0
    assert f"  flyball bench {command}" in capsys.readouterr().out


def test_compare_writes_and_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    arguments = [*COMPARE, "--policies", "fifo-skip,fifo,srtf", "--out", str(out)]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "lower bound" in shown
    assert "from fifo-skip (%)" in shown
    assert "uniform (x)" in shown
    assert {path.name for path in out.iterdir()} == {
        "runs.jsonl", "compare.json", "compare.md", "compare.png", "policies.md"
    }  # fmt: skip
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "compare.md").read_text()
    assert "`flyball bench compare --scenarios uniform" in page
    assert "](compare.png)" in page
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    # Again: nothing is run, and everything comes out as before.
    content = json_of(capsys, *arguments)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert content == load_comparison(out).as_dict()
    assert content["against"] == ["fifo-skip", "fifo"]
    assert content["seeds"] == [0, 1]


def test_jobs_that_fit_nowhere_end_a_comparison_or_are_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = Scenario(
        "narrow",
        "one node of four devices, too few for some gangs",
        {"nodes": [{"name": "n", "count": 1, "device": "V100", "devices": 4}]},
        "mixed",
        40,
        0.5,
    )
    monkeypatch.setattr(scenarios, "_shipped", lambda: {"narrow": narrow})
    arguments = ["bench", "compare", "--scenarios", "narrow", "--policies", "fifo-skip,fifo"]
    arguments += ["--seeds", "2", "--workers", "1", "--out", str(tmp_path)]
    assert run(arguments) == 2
    assert "--skip-unfit leaves out all such jobs" in capsys.readouterr().err
    assert run([*arguments, "--skip-unfit", "--json"]) == 0
    shown = capsys.readouterr()
    content = json.loads(shown.out)
    left_out = sum(content["scenarios"]["narrow"]["left_out"].values())
    assert 0 < left_out < 80
    assert f"narrow: left out {left_out} of 80 jobs" in shown.err
    jobs = [row["jobs"] for row in content["results"] if row["policy"] == "fifo"]
    assert sum(jobs) == 80 - left_out
    assert "--skip-unfit" in (tmp_path / "compare.md").read_text()


def test_control_c_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    run_one = ComparePlan.run

    def interrupted(self: ComparePlan, *task: int) -> Record:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run_one(self, *task)

    monkeypatch.setattr(ComparePlan, "run", interrupted)
    arguments = [*COMPARE, "--policies", "fifo-skip,fifo", "--out", str(tmp_path)]
    assert run(arguments) == 130
    assert "interrupted after 3 new runs" in capsys.readouterr().err
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 3
    assert not (tmp_path / "compare.json").exists()
    assert run(arguments) == 0
    assert len(calls) == 4 + 3  # two policies and a bound for two seeds, three of them kept


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json_of(capsys, "bench", "compare", "--list")["scenarios"]
    assert len(listed) >= 8
    assert {"scenario", "about", "devices", "jobs", "load", "groups"} == set(listed[0])
    assert run(["bench", "compare", "--list", "--scenarios", "batch,uniform"]) == 0
    shown = capsys.readouterr().out
    assert "at once" in shown
    assert "saturated" not in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scenarios", "btach"], "did you mean 'batch'"),
        (["--scenarios", ","], "no scenario is named"),
        (["--policies", "fifi"], "did you mean 'fifo'"),
        (["--policies", "tuned:no-such.json"], "no-such.json"),
        (["--policies", "fifo,easy"], "unknown baseline"),
        (["--baseline", "fifo-skp"], "did you mean 'fifo-skip'"),
        (["--seeds", "0"], "--seeds 0 is out of range"),
        (["--workers", "-1"], "--workers"),
        (["--seeds", "few"], "--seeds"),
    ],
)
def test_bad_comparisons(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], words: str
) -> None:
    out = tmp_path / "out"
    assert words in refused(capsys, "bench", "compare", "--out", out, *options)
    assert not out.exists()


def test_a_folder_that_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for out in (file, file / "sub"):
        assert str(out) in refused(capsys, *COMPARE, "--policies", "fifo-skip", "--out", out)
    (tmp_path / "out" / "compare.json").mkdir(parents=True)
    line = refused(capsys, *COMPARE, "--policies", "fifo-skip", "--out", tmp_path / "out")
    assert "is a folder" in line


def test_tune_writes_a_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "mine.json"
    arguments = (*TUNE, "--budget", "6", "--starts", "fifo,saf", "--workers", "1", "--out", out)
    content = json_of(capsys, *arguments)
    assert json.loads(out.read_text()) == content
    assert content["made"]["tried"] == 6
    assert content["made"]["objective"]["found"] <= content["made"]["objective"]["saf"]
    assert set(content["made"]["held_out"]) == {"found", "fifo", "saf"}
    assert content["made"]["held_out"]["fifo"]["percent_from_found"][0] > 0
    assert "--starts fifo,saf --budget 6" in content["made"]["command"]
    listed = json_of(
        capsys, *COMPARE, "--policies", f"fifo-skip,tuned:{out}", "--out", tmp_path / "o"
    )
    assert listed["policies"][f"tuned:{out}"] == content["knobs"]
    assert listed["against"] == ["fifo-skip", f"tuned:{out}"]
    assert run([*map(str, TUNE), "--budget", "2", "--starts", "saf", "--workers", "1"]) == 0
    shown = capsys.readouterr()
    assert "The setting found" in shown.out
    assert "not seen" in shown.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--budget", "0"], "--budget 0 is out of range"),
        (["--seeds", "0"], "--seeds"),
        (["--held-out", "1"], "--held-out 1 is out of range"),
        (["--search-seed", "-1"], "--search-seed"),
        (["--starts", "fifi"], "did you mean 'fifo'"),
        (["--scenarios", "btach"], "did you mean 'batch'"),
        (["--out", "mine.yaml"], "use .json"),
        (["--out", "no/such/folder/mine.json"], "no folder"),
    ],
)
def test_bad_tuning(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert words in refused(capsys, "bench", "tune-heuristics", *options)


def test_tune_keeps_what_is_set(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "mine.json"
    more = ("--starts", "fifo-skip,srtf", "--budget", "2", "--set", "preempt_starts=16")
    assert run([*TUNE, *more, "--no-worse-than", "srtf", "--out", str(out)]) == 0
    content = json.loads(out.read_text())
    assert content["knobs"]["preempt_starts"] == 16
    assert "--set preempt_starts=16 --no-worse-than srtf" in content["made"]["command"]
    capsys.readouterr()
    assert "knob order is searched" in refused(capsys, *TUNE, "--set", "order=area")
    assert "policy in --starts 'easy'" in refused(
        capsys, *TUNE, "--starts", "fifo-skip", "--no-worse-than", "easy"
    )
