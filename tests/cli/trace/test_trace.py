"""`flyball trace` with every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flyball.cli.main import run
from flyball.cli.options import FORMATS, WRITTEN
from flyball.twin.inputs.traces import READERS, WRITERS

SAMPLES = Path(__file__).parents[2] / "twin" / "inputs" / "traces" / "samples"


def test_help_lists_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(FORMATS) == set(READERS), "FORMATS in cli/options.py must name every reader"
    assert set(WRITTEN) == set(WRITERS), "WRITTEN in cli/options.py must name every writer"
    assert run(["trace", "convert", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{', '.join(FORMATS)}." in shown
    assert f"{', '.join(WRITTEN)}." in shown


def test_describe_shows_the_mix(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "describe", str(SAMPLES / "sacct.txt")]) == 0
    shown = capsys.readouterr()
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert "sacct.txt: 7 jobs" in lines
    assert "bandwidth-limited a gang of 32, more than one node of 8 14.3 % 51.9 % 0.97" in lines
    assert "compute-intensive nothing known that says otherwise 71.4 % 48.0 % 0.35" in lines
    assert "note: sacct.txt: 1 jobs left out: never started" in shown.err


def test_describe_as_json_has_the_mix(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "describe", str(SAMPLES / "kubernetes.jsonl"), "--json"]) == 0
    classes = json.loads(capsys.readouterr().out)["classes"]
    assert classes["latency-sensitive"]["jobs"] == pytest.approx(0.2)
    assert set(classes["latency-sensitive"]) == {"jobs", "device_time", "confidence", "reason"}


def test_a_single_job_can_be_described(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("job,submit_s,duration_s,num_gpus\na,0,0,1\n")
    assert run(["trace", "describe", str(path)]) == 0
    assert "nan" not in capsys.readouterr().out.split()


def test_what_jobs_run_on_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A trace that names GPU types has GPUs; one that names no type has devices."""
    path = tmp_path / "week.csv"
    assert run(["trace", "generate", "mixed", str(path), "--days", "1"]) == 0
    assert run(["trace", "describe", str(path)]) == 0
    assert "GPUs needed on average" in capsys.readouterr().out
    path.write_text("job,submit_s,duration_s,num_gpus\na,0,60,1\nb,60,60,1\n")
    assert run(["trace", "describe", str(path)]) == 0
    assert "devices needed on average" in capsys.readouterr().out


@pytest.mark.parametrize("sample", ["sacct.txt", "sacct-json.json", "kubernetes.jsonl"])
@pytest.mark.parametrize("out", ["jobs.csv", "jobs.jsonl.gz", "jobs.swf"])
def test_convert(capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str, out: str) -> None:
    assert run(["trace", "convert", str(SAMPLES / sample), str(tmp_path / out)]) == 0
    assert f"jobs to {tmp_path / out}" in capsys.readouterr().err
    assert run(["trace", "describe", str(tmp_path / out), "--json"]) == 0


def test_a_format_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["trace", "convert", str(SAMPLES / "sacct.txt"), str(out)]
    assert run([*arguments, "--format", "sacct", "--to", "journal"]) == 0
    assert out.read_text().startswith('{"flyball_journal": 1')
    capsys.readouterr()
    assert run([*arguments, "--format", "sackt"]) == 2
    assert "did you mean 'sacct'?" in capsys.readouterr().err


def test_a_slurm_log_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", str(SAMPLES / "sacct.txt"), "-c", "philly-8x8", "-p", "easy", "--json"]
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["trace"]["jobs"] == 7


def test_batch_growth_is_refused_or_taken_as_static(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, out = tmp_path / "shockwave.trace", tmp_path / "jobs.csv"
    path.write_text("A3C\tcommand\trl\t--max-steps\t0\t7\t1\tgns\t1\t-1.000000\t999\t55\n")
    assert run(["trace", "convert", str(path), str(out)]) == 2
    assert "1 of 1 jobs change their batch size" in capsys.readouterr().err
    assert not out.exists()
    assert run(["trace", "convert", str(path), str(out), "--static-batch"]) == 0
    assert "read as if they kept it" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 2
    assert run(["trace", "describe", str(path), "--static-batch"]) == 0
    assert run(["replay", str(path), "-c", "philly-8x8", "-p", "fifo", "--static-batch"]) == 0
    at = ["--at", "1h", "--static-batch"]
    assert run(["explain", str(path), "-c", "philly-8x8", *at]) == 0
