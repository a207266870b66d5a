"""`flyball replay` with tuners, `--without`, `--pareto` and `--adjustments`; `flyball tuners`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run
from flyball.tune.registry import settings

ROWS = "job,submit_s,duration_s,num_gpus,model\n" + "".join(
    f"j{at},{30 * at},{400 + 97 * (at % 5)},{(1, 2, 4, 1)[at % 4]},cifar10 (batch size 2048)\n"
    for at in range(16)
)
CLUSTER = """
nodes:
  - {name: t, count: 2, device: T4, devices: 4}
  - {name: a, count: 1, device: A100-40GB, devices: 4}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs.csv").write_text(ROWS)
    (tmp_path / "mine.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replay(*arguments: object) -> list[str]:
    return ["replay", "jobs.csv", "-c", "mine.yaml", *map(str, arguments)]


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Return the JSON of a command, which must be all of its stdout."""
    assert run([*replay(*arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(replay(*arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err


# --tune --------------------------------------------------------------------------------


def test_the_forecast_is_an_option(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    report = json_of(capsys, "--tune", "power", "--forecast")
    assert report["tuning"]["easy+power"]["forecast"] is True
    assert "--forecast needs tuners" in error_of(capsys, "--forecast", "-p", "easy")


def test_weights_are_settings_that_can_be_overridden(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    options = ("--tune", "elastic", "--weights", "completion=1", "--tune-set", "elastic.eta=0.3")
    elastic = json_of(capsys, *options)["tuning"]["easy+elastic"]["tuners"]["elastic"]
    assert (elastic["completion"], elastic["eta"]) == (1.0, 0.3)
    assert "changes none of the tuners" in error_of(capsys, "--weights", "work=1", "-p", "easy")


def test_tuned_beside_the_policy_alone(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    report = json_of(
        capsys, "--tune", "power,elastic", "--tune-set", "elastic.eta=0.7", "--seeds", 2,
        "--tune-every", 120, "--speed-error", 0.25, "--adaptive-batch",
    )  # fmt: skip
    name = "easy+elastic+power"
    assert list(report["policies"]) == ["easy", name]
    assert report["tuning"]["easy"] is None
    assert report["tuning"][name]["every_s"] == 120
    assert report["tuning"][name]["forecast"] is False, "no tuner that ships gains by it"
    assert report["tuning"][name]["tuners"]["elastic"]["eta"] == 0.7
    assert report["tuning"][name]["tuners"]["power"]["round_s"] == 120
    assert len(report["results"]) == 4
    before, after = report["rows"]
    assert before["change"] is None
    assert after["tuners"] == ["elastic", "power"]
    assert after["against"] == "easy"
    promised = {
        "completion_s", "wait_s", "work_per_window", "energy_per_work", "preemptions",
        "finish_fairness_p95",
    }  # fmt: skip
    assert promised <= set(after)
    gap = after["change"]["energy_per_work"]
    assert gap["low"] <= gap["mean"] <= gap["high"]
    assert gap["mean"] == pytest.approx(after["energy_per_work"] - before["energy_per_work"])
    energies = {
        result["energy_per_work"] for result in report["results"] if result["policy"] == name
    }
    assert len(energies) == 2  # each seed draws which jobs are elastic


def test_tuned_as_a_table(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    assert run(replay("--tune", "elastic", "-p", "easy,sjf", "--figure", "out.png")) == 0
    shown = capsys.readouterr().out
    for text in (
        "easy+elastic",
        "sjf+elastic",
        "kWh/dev-h",
        "finish fairness",
        "Change in percent",
    ):
        assert text in shown
    assert "nan" not in shown  # one seed has no interval
    assert (files / "out.png").read_bytes().startswith(b"\x89PNG")


def test_an_elastic_share_of_0_leaves_sizes_alone(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    written = files / "out.jsonl"
    common = ("--tune", "elastic", "--adjustments", written, "--elastic-share")
    json_of(capsys, *common, 0)
    assert not [line for line in lines(written) if line["reason"] in ("sized", "grew", "shrank")]
    json_of(capsys, *common, 1)
    assert [line for line in lines(written) if line["reason"] == "sized"]


def test_models_that_nobody_profiled(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    (files / "jobs.csv").write_text("job,submit_s,duration_s,num_gpus\na,0,100,1\nb,5,100,2\n")
    assert run(replay("--tune", "elastic")) == 0
    assert "no job's model has a known speed" in capsys.readouterr().err


def test_sharing_is_on_with_its_tuner(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    names = ("ResNet-18 (batch size 64)", "LM (batch size 5)", "Recommendation (batch size 2048)")
    lines_ = [f"j{at},{at},4000,1,{names[at % 3]}\n" for at in range(16)]
    (files / "jobs.csv").write_text("job,submit_s,duration_s,num_gpus,model\n" + "".join(lines_))
    (files / "mine.yaml").write_text("nodes: [{name: v, count: 1, device: V100, devices: 4}]\n")
    written = files / "out.jsonl"
    json_of(capsys, "--tune", "share", "--adjustments", written)
    assert any(line["action"] == "share" for line in lines(written))
    json_of(capsys, "--tune", "share", "--share-limit", 1, "--adjustments", written)
    assert not lines(written)


def test_all_policies_but_those_that_cannot_be_tuned(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    (files / "jobs.csv").write_text("".join(ROWS.splitlines(keepends=True)[:4]))
    assert run([*replay("--tune", "power", "-p", "all"), "--json"]) == 0
    shown = capsys.readouterr()
    policies = json.loads(shown.out)["policies"]
    assert "srtf+power" in policies
    assert "fair" not in policies
    assert "note: policy fair cannot be tuned" in shown.err


# --adjustments -------------------------------------------------------------------------


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_adjustment_has_its_reason_and_gain(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    written = files / "out.jsonl"
    json_of(capsys, "--tune", "elastic,power", "--adjustments", written, "--optimise")
    adjustments = lines(written)
    assert {line["action"] for line in adjustments} >= {"start", "cap", "sleep"}
    for line in adjustments:
        assert line["policy"] == "easy+elastic+power"
        assert line["seed"] == 0
        assert line["time_s"] % 60 == 0
        assert line["sentence"].endswith(".")
        assert line["from"] != line["to"]
        assert isinstance(line["gain"], float)
        assert line["unit"] in ("W", "reference devices")
    cap = next(line for line in adjustments if line["action"] == "cap" and line["from"])
    assert cap["from"]["cap"] != cap["to"]["cap"]
    assert {**cap["from"], "cap": 0} == {**cap["to"], "cap": 0}
    start = next(line for line in adjustments if line["reason"] == "sized")
    assert start["from"] is None
    assert set(start["to"]) == {"type", "devices", "nodes", "cap"}
    assert start["subject"].startswith("j")
    sleep = next(line for line in adjustments if line["action"] == "sleep")
    assert (sleep["from"], sleep["to"]) == ("awake", "asleep")
    assert sleep["subject"] in ("t0", "t1", "a0")


# --without -----------------------------------------------------------------------------


def test_ablation(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    report = json_of(capsys, "--tune", "elastic,power", "--without", "elastic,power", "--seeds", 2)
    assert [row["policy"] for row in report["rows"]] == [
        "easy", "easy+elastic+power", "without elastic", "without power",
    ]  # fmt: skip
    assert [row["left_out"] for row in report["rows"]] == [None, None, "elastic", "power"]
    assert [row["tuners"] for row in report["rows"][2:]] == [["power"], ["elastic"]]
    for row in report["rows"][2:]:
        assert row["against"] == "easy+elastic+power"
        mean, low, high = row["change"]["energy_per_work"]["percent"]
        assert low <= mean <= high
    # Caps and sleep save energy: leaving them out costs it.
    assert report["rows"][3]["change"]["energy_per_work"]["mean"] > 0


def test_ablation_of_all(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    assert run(replay("--without", "all", "--tune", "balance,power")) == 0
    shown = capsys.readouterr().out
    assert "without balance" in shown
    assert "without power" in shown


# --pareto ------------------------------------------------------------------------------


def test_front(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    report = json_of(capsys, "--pareto", "energy,completion", "--pareto-points", 7)
    assert report["aims"] == ["energy", "completion"]
    assert len(report["rows"]) == 8
    base, first = report["rows"][:2]
    assert (base["policy"], base["settings"]) == ("easy", {})
    assert first["settings"]["elastic.eta"] == settings("elastic")["eta"]
    front = [row for row in report["rows"] if row["on_front"]]
    assert front
    for row in front:
        for other in report["rows"]:
            better = (other["energy"] <= row["energy"], other["completion"] <= row["completion"])
            same = (other["energy"], other["completion"]) == (row["energy"], row["completion"])
            assert same or not all(better)
    assert (files / "pareto.png").read_bytes().startswith(b"\x89PNG")


def test_front_as_a_table(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    arguments = ("--pareto", "work,wait", "--pareto-points", 2, "--tune", "power")
    assert run(replay(*arguments, "--figure", "f.svg")) == 0
    shown = capsys.readouterr()
    for text in ("power.slowdown", "best if work weighs", "easy #1", "not tuned"):
        assert text in shown.out
    assert "figure: f.svg" in shown.err
    assert (files / "f.svg").read_text().startswith("<?xml")


# What is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--tune", "elastik"], "unknown tuner 'elastik'; did you mean 'elastic'?"),
        (["--tune", "replicas"], "tuner replicas needs a value for"),
        (["--tune", ","], "no tuner is named"),
        (["--tune", "elastic", "-p", "fair"], "policy fair cannot be tuned"),
        (["--tune", "elastic", "-p", "max-min"], "policy max-min cannot be tuned"),
        (["--tune", "share", "-p", "srtf"], "it preempts in rounds; leave share out"),
        (["--tune", "elastic", "--tune-every", "0.5"], "use 1 s or more"),
        (["--tune", "elastic", "--tune-set", "elastic.eta=x"], "give a number"),
        (["--tune", "elastic", "--elastic-share", "1.5"], "use 0 to 1"),
        (["--tune", "elastic", "--share-limit", "2"], "--share-limit needs the tuner share"),
        (["--tune", "share", "--share-limit", "0"], "use 1 to 64"),
        (["--tune", "elastic", "--speed-error", "-1"], "speed_error = -1.0 is out of range"),
        (["--tune-every", "30"], "--tune-every needs tuners; add e.g. --tune elastic,power"),
        (["--adaptive-batch"], "--adaptive-batch needs tuners"),
        (["--optimise"], "--optimise needs tuners"),
        (["--optimise", "--tune", "elastic"], "--optimise needs the tuner power; add it to --tune"),
        (["--adjustments", "a.jsonl"], "--adjustments needs tuners"),
        (["--tune", "elastic", "--without", "share"], "share cannot be left out"),
        (["--without", "power", "-p", "easy,sjf"], "--without takes one policy, not 2"),
        (["--pareto", "energy,completion", "-p", "easy,sjf"], "--pareto takes one policy"),
        (["--pareto", "energy"], "does not name two aims"),
        (["--pareto", "energy,speed"], "unknown aim 'speed'"),
        (["--pareto", "energy,wait", "--without", "power"], "do not go together"),
        (["--pareto", "energy,wait", "--pareto-points", "1"], "use 2 to 1000"),
        (["--pareto-points", "5"], "--pareto-points needs --pareto"),
        (["--tune", "elastic", "--adjustments", "no/where.jsonl"], "no folder 'no'"),
    ],
)
def test_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], files: Path, arguments: list[str], why: str
) -> None:
    assert why in error_of(capsys, *arguments)


# flyball tuners ------------------------------------------------------------------------


def test_tuners_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tuners"]) == 0
    shown = capsys.readouterr().out
    for name in ("elastic", "share", "balance", "power", "replicas"):
        assert name in shown
    assert run(["tuners", "power"]) == 0
    shown = capsys.readouterr().out
    assert "power.slowdown" in shown
    assert "how much longer a job may take" in shown
    assert run(["tuners", "--json"]) == 0
    tuners = json.loads(capsys.readouterr().out)["tuners"]
    assert [tuner["tuner"] for tuner in tuners[:2]] == ["defer", "elastic"]
    assert tuners[1]["settings"] == settings("elastic")
    assert "eta" in tuners[1]["meanings"]
    assert tuners[-1]["needs"]


def test_an_unknown_tuner(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tuners", "powr"]) == 2
    assert "did you mean 'power'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tuners", "replay"])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"  flyball {command}" in shown
    if command == "replay":
        assert "--tune elastic,power" in shown
        assert "--pareto energy,completion" in shown
