"""`flyball replay --pathways`: jobs on the pathways of their classes, with rows by class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run

KINDS = ("mixed", "latency-sensitive", "memory-bound", "")
GANGS = (4, 1, 4, 2)
MODELS = ("transformer", "", "", "")
ROWS = "job,submit_s,duration_s,num_gpus,model,class\n" + "".join(
    f"j{at},{20 * at},{400 + 97 * (at % 5)},{GANGS[at % 4]},{MODELS[at % 4]},{KINDS[at % 4]}\n"
    for at in range(24)
)
CLUSTER = """
nodes:
  - {name: v, count: 2, device: V100, devices: 4, cpus: 32}
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
    assert run([*replay(*arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def by_class(report: Any) -> dict[tuple[str, str], Any]:
    return {(row["class"], row["policy"]): row for row in report["classes"]}


def test_latency_sensitive_jobs_wait_less_on_their_pathway(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    report = json_of(capsys, "--pathways", "jobs")
    rows = by_class(report)
    assert [row["policy"] for row in report["rows"]] == ["easy", "easy+pathways"]
    assert report["rows"][1]["against"] == "easy"
    labels = ["compute-intensive", "memory-bound", "latency-sensitive", "mixed"]
    assert list(dict.fromkeys(label for label, _ in rows)) == labels
    assert sum(row["jobs"] for (_, policy), row in rows.items() if policy == "easy") == 24
    quick = rows["latency-sensitive", "easy+pathways"]
    assert quick["pathway"] == "priority"
    assert quick["wait_s"] < 0.5 * rows["latency-sensitive", "easy"]["wait_s"]
    assert quick["change"]["wait_s"]["percent"][0] < -50
    assert rows["latency-sensitive", "easy"]["change"] is None


def test_the_notes_say_what_the_classes_are(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    assert run(replay("--pathways", "cluster")) == 0
    shown = capsys.readouterr()
    assert "6 latency-sensitive" in shown.err
    assert "18 of 24 stated in the trace" in shown.err
    assert "pathway leads" in shown.err
    assert "By class" in shown.out


def test_the_cluster_takes_the_settings_of_the_leading_pathway(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    report = json_of(capsys, "--pathways", "cluster")
    assert report["tuning"]["easy"] is None
    tuners = report["tuning"]["easy+pathways"]["tuners"]
    assert list(tuners) == ["elastic", "share", "balance"], "no class has a majority"
    assert tuners["share"]["alone"] == [1, 2, 3]
    assert report["tuning"]["easy+pathways"]["every_s"] == 180.0


def test_a_class_with_most_of_the_time_leads(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    (files / "jobs.csv").write_text(ROWS.replace(",mixed", ",memory-bound"))
    report = json_of(capsys, "--pathways", "cluster")
    knobs = report["policies"]["easy+pathways"]
    assert (knobs["order"], knobs["preempt"]) == ("attained", "rounds")
    assert report["policies"]["easy"]["order"] != "attained"
    assert report["tuning"]["easy+pathways"] is None


def test_pathways_come_on_top_of_tuners(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    report = json_of(capsys, "--pathways", "jobs", "--tune", "balance")
    names = ["easy", "easy+balance", "easy+balance+pathways"]
    assert [row["policy"] for row in report["rows"]] == names
    assert [row["against"] for row in report["rows"]] == [None, "easy", "easy+balance"]


def test_fetching_off_the_devices_shortens_bandwidth_limited_jobs(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    (files / "jobs.csv").write_text(ROWS.replace(",mixed", ",bandwidth-limited"))
    rows = by_class(json_of(capsys, "--pathways", "jobs", "--fetch-share", 0.35))
    ours, theirs = (rows["bandwidth-limited", f"easy{end}"] for end in ("+pathways", ""))
    assert ours["jobs"] == theirs["jobs"] == 6, "transfers are not jobs of the trace"
    assert ours["completion_s"] < theirs["completion_s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pathways", "job"), "did you mean 'jobs'?"),
        (("--pathways", "named"), "known: cluster, jobs"),
        (("--pathways", "cluster", "--tune", "power"), "the leading pathway brings its tuners"),
        (("--pathways", "jobs", "--pareto", "energy,completion"), "do not go together"),
        (("--fetch-share", "0.3"), "--fetch-share needs --pathways"),
        (("--pathways", "jobs", "--fetch-share", "1"), "use 0 to 0.99"),
        (("--pathways", "cluster", "-p", "max-min"), "does not decide by knobs"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(
    capsys: pytest.CaptureFixture[str], files: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert run(replay(*arguments)) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "; " in shown.err
