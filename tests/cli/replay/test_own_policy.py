"""`-p FILE.py` and `-p module:NAME` in replay, explain and bench compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run
from flyball.experiments import replay as replays

JOBS = "job,submit_s,duration_s,num_gpus\na,0,3600,8\nb,0,1800,8\nlong,60,7200,8\nshort,60,900,2\n"
CLUSTER = "nodes: [{name: n, count: 2, device: V100, devices: 8}]"
GREEDY = """
import flyball

def greedy(state, outlook):
    print("deciding")
    free, chosen = flyball.free_devices(state), []
    for job in flyball.pending_jobs(state):
        count = int(state.jobs.devices[job])
        for node, devices in enumerate(free):
            if len(devices) >= count:
                chosen.append((job, node, devices[:count]))
                del devices[:count]
                break
    return flyball.starts(state, chosen)
"""
HEAD = "import flyball\n\ndef mine(state, outlook):\n    return "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "mine.yaml").write_text(CLUSTER)
    (tmp_path / "greedy.py").write_text(GREEDY)
    return tmp_path


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Return the JSON of a command, which must be all of its stdout."""
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


REPLAY = ("replay", "jobs.csv", "-c", "mine.yaml")


def test_a_file_competes_with_the_others(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    report = json_of(capsys, *REPLAY, "-p", "fifo-skip,greedy.py,greedy:greedy")
    first, second, third = report["results"]
    assert [result["policy"] for result in report["results"]] == [
        *("fifo-skip", "greedy.py", "greedy:greedy")
    ]
    for result in (first, second, third):
        del result["policy"], result["run_s"]
    assert first == second == third
    del sys.modules["greedy"]


def test_workers_load_the_file_themselves(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*REPLAY, "-p", "greedy.py", "--estimates", "noisy:0.5", "--seeds", 3)
    alone = json_of(capsys, *arguments, "--workers", 1)
    monkeypatch.setattr(replays, "POOL_PAYS_S", -1.0)
    together = json_of(capsys, *arguments, "--workers", 2)
    for result in (*alone["results"], *together["results"]):
        del result["run_s"]
    assert alone == together


@pytest.mark.parametrize(
    ("content", "words", "details"),
    [
        (f"{HEAD}unknown\n", "mine.py line 4 failed: NameError", "    return unknown"),
        (f"{HEAD}None\n", "mine.py line 3: the policy returned None, not a plan", ""),
        (f"{HEAD}[1]\n", "mine.py line 3: the policy returned a list", ""),
        (f"{HEAD}flyball.starts(state, [(9, 0, [0])])\n", "names job 9; they are 0 to 3", ""),
        (f"{HEAD}flyball.starts(state, [(0, 7, [0])])\n", "names node 7; they are 0 to 1", ""),
        (f"{HEAD}flyball.starts(state, [(0, 0, [0])])\n", "asks for 8 devices, the plan gives", ""),
        (
            f"{HEAD}flyball.starts(state, [7])\n",
            "line 4 failed: BadInput: 7 is not a start",
            "File",
        ),
        (f"{HEAD}flyball.starts(state, [])\n", "mine.py line 3: 4 jobs of 4 never started", ""),
        ("oops\n", "mine.py line 1 cannot be loaded: NameError", "    oops"),
    ],
)
def test_faults_of_a_policy_are_one_line_and_the_end_of_its_traceback(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str, words: str, details: str
) -> None:
    (folder / "mine.py").write_text(content)
    for command in (REPLAY, ("explain", *REPLAY[1:], "--at", "3h")):
        if command[0] == "explain" and "never started" in words:
            continue
        assert run([*command, "-p", "mine.py"]) == 2
        shown = capsys.readouterr()
        line, *rest = shown.err.splitlines()
        assert shown.out == ""
        assert line.startswith("flyball: ") and words in line
        assert bool(rest) == bool(details)
        assert details in shown.err
        assert "Traceback" not in shown.err


def test_explain(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    arguments = ("explain", *REPLAY[1:], "--at", "2m", "-p")
    report = json_of(capsys, *arguments, "greedy.py")
    assert report["tokens"] == {"no-free-devices": 2}
    assert "place" not in report["jobs"][0]["numbers"]
    (folder / "idle.py").write_text(f"{HEAD}flyball.starts(state, [])\n")
    report = json_of(capsys, *arguments, "idle.py")
    assert report["tokens"] == {"not-chosen": 4}
    assert report["jobs"][0]["sentence"] == (
        "Fits now on n0, but the policy idle.py did not start it."
    )


def test_compare_runs_a_file_again_only_if_it_changed(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "mine.py").write_text("from flyball import Knobs\nmine = Knobs()\n")
    (folder / "code.py").write_text(
        "from flyball.schedule.policies.registry import get_policy\n\n"
        "def code(state, outlook):\n    return get_policy('fifo-skip').decide(state)\n"
    )
    command = (
        *("bench", "compare", "-p", "fifo,easy,fifo-skip,mine.py,code.py"),
        *("--scenarios", "half-loaded", "--seeds", "1", "--workers", "1"),
    )
    report = json_of(capsys, *command)
    overall = {row["policy"]: row["relative"] for row in report["overall"]}
    assert overall["mine.py"] == overall["code.py"] == overall["fifo-skip"]
    runs = folder / "compare-out" / "runs.jsonl"
    count = len(runs.read_text().splitlines())
    json_of(capsys, *command)
    assert len(runs.read_text().splitlines()) == count
    (folder / "code.py").write_text((folder / "code.py").read_text() + "# changed\n")
    json_of(capsys, *command)
    assert len(runs.read_text().splitlines()) == count + 1


def test_tuners_need_knobs(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run([*REPLAY, "-p", "greedy.py", "--tune", "power"]) == 2
    assert "greedy.py cannot be tuned: it decides in Python" in capsys.readouterr().err
