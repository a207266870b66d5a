"""What commands print and write when they succeed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run

TRACE = """job,submit_s,duration_s,num_gpus
a,0,100,1
b,0,50.5,2
c,10,20,1
d,200,30,4
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Return the JSON of a command, which must be all of its stdout."""
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_help_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in (
        "demo",
        "replay",
        "trace",
        "policies",
        "clusters",
        "devices",
        "bench",
        "doctor",
    ):
        assert command in shown


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "replay",
        "trace describe",
        "trace convert",
        "trace generate",
        "policies",
        "clusters",
        "devices",
        "bench twin",
        "doctor",
    ],
)
def test_every_command_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run([*command.split(), "--help"]) == 0
    assert f"  flyball {command}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("flyball 0.")


def test_replay_json(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    report = json_of(capsys, "replay", trace, "--cluster", "philly-8x8", "--policy", "fifo,easy")
    assert report["trace"]["jobs"] == 4
    assert report["cluster"] == {
        "name": "philly-8x8",
        "nodes": 8,
        "devices": 64,
        "power_budget_kw": None,
        "groups": [{"name": "n", "count": 8, "device": "V100", "devices": 8}],
    }
    assert [result["policy"] for result in report["results"]] == ["fifo", "easy"]
    promised = {
        "policy", "seed", "jobs", "completion_s", "wait_s", "slowdown_p95", "makespan_s",
        "work_per_window", "jobs_per_window", "utilisation", "energy_kwh", "energy_per_work",
        "peak_power_kw", "cost", "balance", "preemptions", "fairness_jain", "events", "run_s",
    }  # fmt: skip
    first = report["results"][0]
    assert promised <= set(first)
    assert first["completion_s"]["mean"] == pytest.approx((100 + 50.5 + 20 + 30) / 4)
    assert first["wait_s"]["p99"] == 0
    assert first["makespan_s"] == 230
    assert first["events"] == 12


def test_replay_table_and_files(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    rows, figure = tmp_path / "out.csv", tmp_path / "out.png"
    arguments = ["replay", str(trace), "-c", "five-mixed", "-p", "fifo,srtf", "--seeds", "2"]
    arguments += ["--per-job", str(rows), "--figure", str(figure), "--estimates", "noisy:0.5"]
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert "fifo" in shown.out
    assert "(5 nodes, 40 GPUs)" in shown.out
    assert "paired by seed" in shown.out
    assert figure.read_bytes().startswith(b"\x89PNG")
    with rows.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 * 2 * 4
    first = table[0]
    assert first["policy"] == "fifo"
    assert first["seed"] == "0"
    assert first["job"] == "a"
    assert first["submit_s"] == "0"
    assert first["start_s"] == "0"
    assert first["status"] == "done"
    assert first["pool"]
    assert {path.name for path in tmp_path.iterdir()} == {"jobs.csv", "out.csv", "out.png"}


def test_per_job_times_are_exact(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "out.csv"
    json_of(capsys, "replay", trace, "-c", "philly-8x8", "-p", "fifo", "--per-job", rows)
    with rows.open(newline="") as file:
        ends = {row["job"]: row["end_s"] for row in csv.DictReader(file)}
    assert ends == {"a": "100", "b": "50.5", "c": "30", "d": "230"}


def test_replay_settings_reach_the_twin(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    report = json_of(
        capsys, "replay", trace, "-c", "five-mixed", "-p", "easy", "--set", "depth=3",
        "--set", "place=spread", "--limit-jobs", 3, "--load", 0.1, "--restart-s", 1,
    )  # fmt: skip
    assert report["policies"]["easy"]["depth"] == 3
    assert report["policies"]["easy"]["place"] == "spread"
    assert report["trace"]["jobs"] == 3


def test_failures_are_drawn_by_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("job,submit_s,duration_s,num_gpus\na,0,90000,8\nb,90000,90000,8\n")
    report = json_of(
        capsys, "replay", path, "-c", "philly-8x8", "-p", "fifo", "--seeds", 3, "--mtbf-h", 10,
        "--repair-h", 1, "--checkpoint-every-s", 600, "--checkpoint-s", 5,
    )  # fmt: skip
    assert len({result["makespan_s"] for result in report["results"]}) > 1


def test_seeds_without_chance_run_once(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    command = ["replay", str(trace), "-c", "five-mixed", "-p", "fifo,easy", "--seeds", "3"]
    assert run(command) == 0
    shown = capsys.readouterr()
    assert "nothing here is random: all 3 seeds would give the same" in shown.err
    assert "95 %" not in shown.out and "seeds" not in shown.out
    assert run([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(result["policy"], result["seed"]) for result in report["results"]] == [
        ("fifo", 0),
        ("easy", 0),
    ]
    assert "differences" not in report
    assert any("nothing here is random" in text for text in report["notes"])


def test_tables_say_their_units_and_window(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    week = tmp_path / "week.csv"
    options = ("--days", "2", "--devices", "40", "--load", "0.5")
    assert run(["trace", "generate", "mixed", str(week), *options]) == 0
    command = ["replay", str(week), "-c", "five-mixed", "-p", "fifo,easy"]
    capsys.readouterr()
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "window of 10-100 % of the arrivals (4.8 h to 48.0 h)" in " ".join(shown.split())
    for heading in ("slowdown p95 (x)", "fairness (0..1)", "preempted (times)", "balance (cv)"):
        assert heading in shown
    window_s = json_of(capsys, *command)["trace"]["window_s"]
    assert window_s == pytest.approx([17_280, 172_800], rel=1e-3)


def test_exact_estimates_replace_the_traces(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "lies.csv"
    # The trace calls the long job short.
    path.write_text(
        "job,submit_s,duration_s,num_gpus,estimate_s\n"
        "first,0,10,8,10\nlong,1,1000,8,1\nshort,1,10,8,100\n"
    )
    cluster = tmp_path / "one.yaml"
    cluster.write_text("nodes: [{device: V100, devices: 8}]")
    common = ("replay", path, "-c", cluster, "-p", "sjf", "--estimates")
    as_stated = json_of(capsys, *common, "trace")["results"][0]["completion_s"]["mean"]
    exact = json_of(capsys, *common, "exact")["results"][0]["completion_s"]["mean"]
    assert exact < as_stated


def test_trace_round_trip(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    generated, swf, back = tmp_path / "w.csv.gz", tmp_path / "w.swf", tmp_path / "back.csv"
    generate = ["trace", "generate", "mixed", str(generated), "--days", "1", "--devices", "40"]
    assert run([*generate, "--load", "0.5", "--seed", "1"]) == 0
    assert run(["trace", "convert", str(generated), str(swf)]) == 0
    assert run(["trace", "convert", str(swf), str(back)]) == 0
    capsys.readouterr()
    jobs = [json_of(capsys, "trace", "describe", path)["jobs"] for path in (generated, swf, back)]
    assert jobs[0] == jobs[1] == jobs[2] > 10
    assert run(["trace", "describe", str(back)]) == 0
    assert "jobs per day" in capsys.readouterr().out


def test_generated_span_is_as_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    week = tmp_path / "week.csv"
    options = ("--days", "3", "--devices", "40", "--load", "1.3")
    assert run(["trace", "generate", "mixed", str(week), *options]) == 0
    said = capsys.readouterr().err
    assert "3.0 d" in said and "load 1.3 on 40 GPUs" in said
    facts = json_of(capsys, "trace", "describe", week)
    assert facts["span_s"] == pytest.approx(3 * 86_400, rel=1e-3)


def test_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "demo"
    assert run(["demo", "--out", str(out), "--days", "1", "--load", "0.4", "--seeds", "2"]) == 0
    shown = capsys.readouterr()
    assert "jobs over 24.0 h on five-mixed" in shown.out
    for policy in ("fifo", "easy", "ect", "srtf", "las"):
        assert policy in shown.out
    assert (out / "policies.png").read_bytes().startswith(b"\x89PNG")
    assert run(["trace", "describe", str(out / "trace.csv")]) == 0


def test_policies(capsys: pytest.CaptureFixture[str]) -> None:
    report = json_of(capsys, "policies")
    names = {policy["policy"] for policy in report["policies"]}
    assert {"fifo", "fifo-skip", "easy", "sjf", "saf", "srtf", "las", "ect"} <= names
    assert {"name", "unit", "low", "high", "meaning", "default"} == set(report["knobs"][0])
    assert run(["policies"]) == 0
    assert run(["policies", "--knobs"]) == 0
    shown = capsys.readouterr().out
    assert "backfill=strict" in shown
    assert "how far a backfill scan looks" in shown


def test_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    report = json_of(capsys, "clusters")
    five = next(cluster for cluster in report["clusters"] if cluster["cluster"] == "five-mixed")
    assert five["nodes"] == 5
    assert run(["clusters"]) == 0
    assert "gavel-mixed" in capsys.readouterr().out


def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    report = json_of(capsys, "devices")
    reference = next(device for device in report["devices"] if device["device"] == "V100")
    assert reference["acu"] == 1.0
    assert set(reference["acu_by_class"].values()) == {1.0}
    assert run(["devices"]) == 0
    assert "ACU" in capsys.readouterr().out


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    report = json_of(capsys, "doctor")
    names = {finding["name"] for finding in report["findings"]}
    assert {
        "python",
        "cores",
        "memory",
        "numba",
        "compiled kernels",
        "nvidia gpu",
        "slurm",
    } <= names
    for finding in report["findings"]:
        assert finding["state"] == "ok" or finding["remedy"]
    assert run(["doctor"]) == 0
    assert "This machine" in capsys.readouterr().out
