"""`flyball explain`: why jobs wait at an instant of a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run
from flyball.cli.replay.explain import seconds_of
from flyball.core.errors import BadInput

TRACE = """job,submit_s,duration_s,num_gpus,gpu_milli
a,0,3600,8,1000
b,0,1800,8,1000
long,60,7200,8,1000
short,60,900,2,1000
part,60,900,1,250
"""
CLUSTER = "nodes: [{name: n, count: 2, device: V100, devices: 8}]"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    trace, cluster = tmp_path / "jobs.csv", tmp_path / "mine.yaml"
    trace.write_text(TRACE)
    cluster.write_text(CLUSTER)
    return [str(trace), "--cluster", str(cluster)]


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """Return the one line on stderr with which a command is refused."""
    assert run(["explain", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_table(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    assert run(["explain", *files, "--policy", "fifo", "--at", "2m", "--verbose"]) == 0
    shown = capsys.readouterr().out
    assert "At 2.0 min after the first submission: 3 waiting, 2 running" in shown
    for word in ("long", "no-free-devices", "behind-head", "Needs 8 of the 16 GPUs"):
        assert word in shown
    assert "Reasons: 2 behind-head, 1 no-free-devices." in shown
    assert "Times count from the last decision, 60 s before that." in shown


def test_table_of_the_first_few(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    assert run(["explain", *files, "-p", "fifo", "--at", "60", "--most", "1"]) == 0
    shown = capsys.readouterr().out
    assert "The first 1 in the queue's order; --most 3 shows all." in shown
    assert "Times count" not in shown
    assert "1 x 0.25" not in shown


def test_nothing_waits(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    assert run(["explain", *files, "--at", "30"]) == 0
    assert capsys.readouterr().out == (
        "At 30 s after the first submission nothing waits (2 running).\n"
    )
    assert run(["explain", *files, "--at", "9d"]) == 0
    assert "the last job ended at" in capsys.readouterr().out


def test_three_lines_for_a_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, files: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["explain", *files, "-p", "easy", "--at", "1m", "--job", "long"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "long: no-free-devices (8 GPUs, submitted 0 s ago)",
        "  Needs 8 of the 16 GPUs; none is free.",
        "  Wait: expected to start in about 29.0 min, by the running jobs' estimates.",
    ]
    assert run(["explain", *files, "--at", "0", "--job", "part"]) == 0
    assert capsys.readouterr().out.startswith(
        "part: not-submitted (0.25 of a GPU, submitted not yet)\n"
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_job_takes_more_than_three_lines_of_the_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    files: list[str],
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["explain", *files, "-p", "fifo", "--at", "2m"]) == 0
    printed = capsys.readouterr()
    title, blank, *lines = printed.out.splitlines()
    assert (title[:9], blank) == ("At 2.0 mi", "")
    end = lines.index("")
    assert end == 3 * 3
    assert all(len(line) <= width for line in lines[:end])
    heads, rest = lines[0:end:3], [line for at, line in enumerate(lines[:end]) if at % 3]
    assert [line.split(":")[0] for line in heads] == ["long", "short", "part"]
    assert all(line.startswith("  ") for line in rest)
    assert ("--verbose shows what was left out" in printed.err) == (width < 80)


def test_one_job_in_full(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    arguments = ["explain", *files, "-p", "easy", "--at", "1m", "-v"]
    assert run([*arguments, "--job", "long"]) == 0
    first, token, remedy = capsys.readouterr().out.splitlines()
    assert first == "long: 8 GPUs, submitted 0 s ago"
    assert token == "  no-free-devices: Needs 8 of the 16 GPUs; none is free."
    assert remedy == "  Wait: expected to start in about 29.0 min, by the running jobs' estimates."
    assert run([*arguments, "--job", "a"]) == 0
    assert "running: Does not wait: has run on n0 for 60 s" in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    assert run(["explain", *files, "-p", "sjf", "--at", "0.05h", "--json"]) == 0
    report: Any = json.loads(capsys.readouterr().out)
    assert (report["policy"], report["at_s"], report["decided_s"]) == ("sjf", 180, 60)
    assert report["running"] == 2
    assert report["tokens"] == {"behind-head": 2, "no-free-devices": 1}
    first = report["jobs"][0]
    assert first["job"] == "short"
    assert (first["submit_s"], first["waits_s"], first["status"]) == (60, 0, "pending")
    assert first["numbers"]["expected_in_s"] == 1740
    assert set(first) == {
        "job", "devices", "gpu_milli", "status", "submit_s", "waits_s", "token", "sentence",
        "remedy", "numbers",
    }  # fmt: skip


def test_knobs_and_effects(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    arguments = ["explain", *files, "-p", "srtf", "--set", "margin_s=1", "--at", "70", "--json"]
    arguments += ["--estimates", "noisy:0.1", "--mtbf-h", "100000", "--seed", "3"]
    assert run(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"]


def test_bad_input(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    assert "did you mean 'short'?" in refused(capsys, [*files, "--at", "1m", "--job", "shorts"])
    assert "its jobs are a to part" in refused(capsys, [*files, "--at", "1m", "--job", "#"])
    assert "--at 'noon' is not a time" in refused(capsys, [*files, "--at", "noon"])
    assert "name one" in refused(capsys, [*files, "--at", "1m", "--policy", "fifo,easy"])
    assert "did you mean 'easy'?" in refused(capsys, [*files, "--at", "1m", "--policy", "esay"])
    assert "--most 0 is out of range" in refused(capsys, [*files, "--at", "1m", "--most", "0"])
    assert "--at" in refused(capsys, files)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"]) == 0
    assert "  flyball explain jobs.csv" in capsys.readouterr().out
    assert run(["--help"]) == 0
    assert "explain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("1.5h", 5400),
        ("30m", 1800),
        ("2min", 120),
        ("2D", 172800),
        ("1h30m", 5400),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-5", "nan", "inf", "1e300", "3w", "1h30x"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(BadInput):
        seconds_of(text)
