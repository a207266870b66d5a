"""Long measurements: checked first, kept part by part, and not ended by one part's failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.bench.submit import server
from flyball.bench.submit.server import running, state_folder
from flyball.bench.tune import live, live_caps, live_runs, parts
from flyball.cli.main import run
from flyball.core.errors import DataAbsent, Unavailable
from flyball.experiments import part_runs
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile

ROW = {
    "case": "c", "load": 1.3, "baseline": "easy", "metric": "work_pct",
    "value": 30.0, "low": 28.0, "high": 32.0, "bar": 25.0,
}  # fmt: skip


def measured(path: Path, parts: dict[str, BenchPart], only: tuple[str, ...] = ()) -> Outcome:
    with RunFile(path) as runs:
        return run_parts(parts, only, lambda _text: None, runs)


def raising(error: Exception) -> Any:
    def part(_note: Any) -> None:
        raise error

    return part


@pytest.fixture
def few_parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`bench tune` of two quick parts and the one that needs torch, which is not there."""
    ran: list[str] = []

    def rows(name: str) -> Any:
        def measure(_note: Any) -> list[dict[str, Any]]:
            ran.append(name)
            return [{**ROW, "case": name}]

        return measure

    for name in ("caps", "live", "speed"):
        monkeypatch.setattr(f"flyball.{parts.PARTS[name].module}.rows", rows(name))
    kept = {name: parts.PARTS[name]._replace(data=()) for name in ("caps", "live", "speed")}
    monkeypatch.setattr(parts, "PARTS", kept)
    monkeypatch.setattr(part_runs, "find_spec", lambda name: None)
    return ran


def test_a_part_that_cannot_run_is_named_before_the_others_start(
    few_parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "tune", "--json"]) == 0
    shown = capsys.readouterr()
    content = json.loads(shown.out)
    assert [row["case"] for row in content["rows"]] == few_parts == ["caps", "speed"]
    assert content["not_run"][0]["part"] == "live"
    first = shown.err.splitlines()[0]
    assert first.startswith("live is left out: it needs torch")
    assert "pip install 'flyball[learn]'" in first


def test_a_part_asked_for_by_name_must_run(
    few_parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "tune", "--only", "live", "--only", "caps"]) == 75
    assert "caps" in capsys.readouterr().out, "what could run did"
    assert run(["bench", "tune", "--only", "live"]) == 75
    assert few_parts == ["caps"]


def test_a_failed_part_keeps_the_others_and_its_reason(
    few_parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    trouble = raising(Unavailable("job 3 ended as FAILED", "see its log"))
    monkeypatch.setattr("flyball.experiments.tuning.caps.rows", trouble)
    kept = tmp_path / "tune.jsonl"
    assert run(["bench", "tune", "--resume", str(kept)]) == 75
    shown = capsys.readouterr()
    assert "speed" in shown.out
    assert "not measured: caps: job 3 ended as FAILED; see its log" in shown.err
    assert f"continue with --resume {kept}" in shown.err
    # Mended: only what is missing is measured.
    monkeypatch.setattr(
        "flyball.experiments.tuning.caps.rows", lambda _note: [{**ROW, "case": "caps"}]
    )
    assert run(["bench", "tune", "--resume", str(kept), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["case"] for row in content["rows"]] == ["caps", "speed"]
    assert few_parts == ["speed"]


def test_without_a_file_nothing_is_lost_either(
    few_parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("flyball.bench.tune.speed.rows", raising(KeyboardInterrupt()))  # type: ignore[arg-type]
    assert run(["bench", "tune"]) == 130
    [kept] = tmp_path.iterdir()
    assert str(kept) in capsys.readouterr().err
    assert json.loads(kept.read_text())["part"] == "caps"
    kept.unlink()
    assert run(["bench", "tune", "--only", "caps"]) == 0
    assert list(tmp_path.iterdir()) == [], "a whole run leaves no file behind"


def test_exit_codes_and_faults_of_our_own(tmp_path: Path) -> None:
    parts = {
        "good": BenchPart(lambda _note: [1]),
        "bad": BenchPart(raising(ValueError("no such thing"))),
    }
    outcome = measured(tmp_path / "a.jsonl", parts)
    assert outcome.rows == [1]
    assert outcome.exit_code == 1
    assert outcome.not_run[0].reason.startswith("ValueError: no such thing (")
    absent = BenchPart(lambda _note: [2], data=(("no-such", "file"),))
    outcome = measured(tmp_path / "a.jsonl", {"good": parts["good"], "absent": absent})
    assert outcome.exit_code == 0
    assert "FLYBALL_DATA" in outcome.not_run[0].reason
    with pytest.raises(DataAbsent, match="nothing can be measured here: absent no no-such/file"):
        measured(tmp_path / "a.jsonl", {"absent": absent})


def test_a_file_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    assert run(["bench", "tune", "--only", "caps", "--resume", str(path)]) == 2
    assert "holds no finished parts" in capsys.readouterr().err
    assert path.read_text() == "my notes\n"


# Jobs that fail while somebody waits for them -----------------------------------------------


def test_a_failed_job_is_reported_as_failed_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_runs, "TRAINING", "flyball.no_such_training")
    with live_runs.stage() as here:
        job = here.train(10, 5, 0.0, cpus=1)
        with pytest.raises(Unavailable, match="ended as FAILED with exit code 1 before step 5"):
            here.until_step(job, 5)
        with pytest.raises(Unavailable, match="No module named"):
            live.undisturbed(here)


def test_a_cancelled_job_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with live_runs.stage() as here:
        job = here.submit(live_caps.BUSY)
        here.until(lambda: here.job(job).started_us, "its start", job)
        here.plane.cancel(job)
        assert here.ended(job).state == "CANCELLED"


def test_bench_submit_reports_a_failed_job(tmp_path: Path) -> None:
    with state_folder(tmp_path) as state, running(state) as up, up.client() as client:
        job = client.submit(["sh", "-c", "echo out of luck; exit 7"], cwd="/", cpus=1)
        client.wait(job, 60.0)
        with pytest.raises(Unavailable, match="FAILED with exit code 7: out of luck"):
            server.refuse_failed(client, job)
