"""The row `recorded`: the trace's history, next to the twin's result of each policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.app import build_twin, policy_settings
from flyball.cli.main import run
from flyball.core.effects import Effects
from flyball.core.workload import Workload
from flyball.twin.generate import generate
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.traces import write_trace
from flyball.twin.inputs.traces.journal_write import write

Captured = pytest.CaptureFixture[str]
CLUSTER = "philly-8x8"

SACCT = """JobID|Submit|Start|ElapsedRaw|State|AllocTRES
1|2024-05-01T08:00:00|2024-05-01T08:00:00|7200|COMPLETED|gres/gpu:v100=64
2|2024-05-01T08:30:00|2024-05-01T11:00:00|600|COMPLETED|gres/gpu:v100=8
3|2024-05-01T12:00:00|Unknown|600|COMPLETED|gres/gpu:v100=8
"""


@pytest.fixture(scope="module")
def workload() -> Workload:
    return generate("philly-like", 1, jobs=400, load=1.3, devices=64)


@pytest.fixture(scope="module")
def history(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the journal of a cluster that runs `easy`."""
    cluster = load_cluster(CLUSTER)
    twin = build_twin(cluster, workload, policy_settings("easy", [])[0], Effects())
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    write(workload, path, twin.replay(), cluster)
    return path


def json_of(capsys: Captured, *arguments: object) -> Any:
    assert run(["replay", *map(str, arguments), "-c", CLUSTER, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def text_of(capsys: Captured, *arguments: object) -> str:
    assert run(["replay", *map(str, arguments), "-c", CLUSTER]) == 0
    return capsys.readouterr().out


def test_record_of_a_run_is_that_run(capsys: Captured, history: Path) -> None:
    report = json_of(capsys, history, "-p", "fifo,easy,sjf")
    easy = next(result for result in report["results"] if result["policy"] == "easy")
    recorded = report["recorded"]
    assert recorded["jobs"] == recorded["of"] == 400
    assert recorded["closest"] == "easy"
    assert recorded["policies"]["easy"]["start_error_s"] == 0
    assert recorded["policies"]["easy"]["distance"] == 0
    assert recorded["policies"]["fifo"]["start_error_s"] > 0
    for metric in ("completion_s", "wait_s"):
        assert recorded[metric] == pytest.approx(easy[metric])
    assert recorded["utilisation"] == pytest.approx(easy["utilisation"])
    assert recorded["makespan_s"] == pytest.approx(easy["makespan_s"])


def test_policy_is_found_though_its_estimates_were_others(capsys: Captured, tmp_path: Path) -> None:
    # The site's users misjudge their jobs; the twin, which knows no estimates, takes them as exact.
    workload = generate("philly-like", 1, jobs=2000, load=0.9, devices=64)
    cluster, effects = load_cluster(CLUSTER), Effects(estimate_sigma=1.0, seed=7)
    twin = build_twin(cluster, workload, policy_settings("easy", [])[0], effects)
    path = tmp_path / "history.jsonl"
    write(workload, path, twin.replay(), cluster)
    recorded = json_of(capsys, path, "-p", "fifo,easy,sjf,saf")["recorded"]
    assert recorded["policies"]["easy"]["start_error_s"] > 0
    assert recorded["closest"] == "easy"


def test_tables_and_sentence(capsys: Captured, history: Path) -> None:
    shown = text_of(capsys, history, "-p", "fifo,easy")
    lines = [line.split() for line in shown.splitlines()]
    rows = [words for words in lines if words and words[0] in ("recorded", "easy")]
    assert [row[0] for row in rows] == ["recorded", "easy"] * 2
    assert rows[0][1:9] == rows[1][1:9]  # completion, p50, p95 and wait, each with a unit
    assert rows[0][-1] == "-"
    assert "closest to the record: easy, mean wait" in shown
    assert "starts are off by 0 s in the median" in shown


def test_site_policy_is_shown_beside_the_closest(capsys: Captured, history: Path) -> None:
    shown = text_of(capsys, history, "-p", "fifo,easy", "--site-policy", "fifo")
    assert "the site's own policy: fifo, mean wait" in shown
    assert "closest to the record: easy" in shown


def test_unknown_site_policy_is_refused(capsys: Captured, history: Path) -> None:
    command = ["replay", str(history), "-c", CLUSTER, "-p", "easy", "--site-policy", "fifo"]
    assert run(command) == 2
    assert "unknown policy of this run 'fifo'" in capsys.readouterr().err


def test_sacct_history_and_jobs_not_on_record(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(SACCT)
    recorded = json_of(capsys, path, "-p", "fifo")["recorded"]
    assert (recorded["jobs"], recorded["of"]) == (2, 3)
    assert recorded["wait_s"]["mean"] == 9000 / 2  # 0 h and 2.5 h
    assert recorded["policies"]["fifo"]["start_error_s"] == 3600 / 2  # it could start at 10 h
    shown = text_of(capsys, path, "-p", "fifo")
    assert "2 of 3 jobs are on record" in shown


@pytest.mark.parametrize("option", [["--no-record"], ["--load", "0.5"]])
def test_no_row_where_switched_off_or_arrivals_changed(
    capsys: Captured, history: Path, option: list[str]
) -> None:
    assert "recorded" not in json_of(capsys, history, "-p", "fifo", *option)
    shown = text_of(capsys, history, "-p", "fifo", *option)
    assert not any(line.split()[:1] == ["recorded"] for line in shown.splitlines())
    assert "closest to the record" not in shown


def test_trace_without_starts_has_no_row(
    capsys: Captured, workload: Workload, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.csv"
    write_trace(workload, path)
    assert "recorded" not in json_of(capsys, path, "-p", "fifo")
    command = ["replay", str(path), "-c", CLUSTER, "-p", "fifo", "--site-policy", "fifo"]
    assert run(command) == 2
    assert "has no start times" in capsys.readouterr().err


def test_figure_and_per_job_go_with_a_record(
    capsys: Captured, history: Path, tmp_path: Path
) -> None:
    figure, per_job = tmp_path / "out.png", tmp_path / "out.csv"
    text_of(capsys, history, "-p", "fifo,easy", "--figure", figure, "--per-job", per_job)
    assert figure.stat().st_size > 10_000
    assert len(per_job.read_text().splitlines()) == 1 + 2 * 400


def test_tuned_runs_show_the_record_too(capsys: Captured, history: Path) -> None:
    shown = text_of(capsys, history, "-p", "easy", "--tune", "power", "--limit-jobs", 50)
    assert "What the trace recorded" in shown
    assert "closest to the record" in shown
