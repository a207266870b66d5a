"""Arguments of `resize`, `cap` and `checkpoint`, and tuning as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.jobs.test_queue import job

from flyball.cli.jobs import receipt, show, why
from flyball.cli.jobs.job_file import read_jobs
from flyball.cli.jobs.steer import share_of
from flyball.cli.main import run
from flyball.core.errors import BadInput
from flyball.live import make_tuners

LOG = [
    {"time": 110.0, "what": "resized", "before": 2, "after": 1, "reason": "shrank", "gain": 0.25,
     "who": "tuner", "measured": -0.41},
    {"time": 170.0, "what": "capped", "before": 1.0, "after": 0.5, "reason": "ordered"},
    {"time": 171.0, "what": "checkpointed", "before": None, "after": None, "who": "api ::1"},
    {"time": 230.0, "what": "capped", "before": 0.5, "after": 1.0},
]  # fmt: skip
TUNING = {"devices": 1, "share": 0.5, "by": "quota", "log": LOG}


def tuned(**more: Any) -> dict[str, Any]:
    return job(7, start_time=100.0, tuning=TUNING, elastic=[1, 4], **more)


@pytest.mark.parametrize(
    ("text", "share"), [("50%", 0.5), ("0.5", 0.5), ("100%", 1.0), ("1", 1.0), ("7.5%", 0.075)]
)
def test_shares(text: str, share: float) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["", "0", "4%", "101%", "2", "-1", "half", "50 %%", "nan", "1e0"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(BadInput, match="is not a share"):
        share_of(text)


@pytest.mark.parametrize("command", ["resize", "cap", "checkpoint"])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run([command, "--help"]) == 0
    assert f"flyball {command} 12" in capsys.readouterr().out


def test_what_was_measured_of_it() -> None:
    tuning = {**TUNING, "share": 1.0, "parallel": 0.72}
    facts = dict(show.facts(tuned() | {"tuning": tuning}, 300.0, {}))
    assert facts["has now"] == "1 core, cores share 72% of a step (measured)"


def test_show() -> None:
    facts = list(show.facts(tuned(), 300.0, {}))
    assert ("has now", "1 core, limited to 50% (quota)") in facts
    assert [value for name, value in facts if name == "tuned"] == [
        "after 0:10: from 2 to 1 core: shrank, predicted gain 0.25, measured -41% steps a second"
        " (tuner)",
        "after 1:10: cap of 50%: ordered",
        "after 1:11: asked for a checkpoint (api ::1)",
        "after 2:10: cap removed",
    ]
    assert "elastic from 1 to 4" in dict(facts)["asks for"]


def test_why() -> None:
    answer = {"token": "does-not-wait", "sentence": "Job 7 is running."}
    lines = list(why.lines(tuned(state="RUNNING") | answer))
    assert "  Tuned after 1:10: cap of 50%: ordered." in lines


def test_receipt() -> None:
    sizes = [
        {"time": 100.0, "devices": 2, "seconds": 10.0, "steps_per_s": 12.5},
        {"time": 110.0, "devices": 1, "seconds": 90.0, "steps_per_s": None},
    ]
    content = {
        "wait_s": 1.0, "attempts": 1, "run_s": 100.0, "device_hours": 0.03,
        "tuning": {"sizes": sizes, "log": LOG, "capped_s": 60.0, "cap_by": "quota",
                   "capped_share": 0.497},
    }  # fmt: skip
    text = "\n".join(receipt.lines(tuned() | content))
    assert "size         2 cores for 10 s, 12.5 steps a second" in text
    assert "size         1 core for 90 s\n" in text
    assert "capped       for 60 s by quota, used 50%" in text
    assert text.count("tuned ") == 4


def test_elastic_in_a_job_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "jobs:\n  - {command: [a], cpus: 2, elastic: 1-4}\n"
        "  - {command: [b], cpus: 2, least: 2, most: 8}\n"
    )
    sizes = [(draft.values["least"], draft.values["most"]) for draft in read_jobs(path)]
    assert sizes == [(1, 4), (2, 8)]


@pytest.mark.parametrize("text", ["4", "0-2", "4-1", "1-", "a-b", "1-2-3"])
def test_what_is_no_range(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"command: [a]\nelastic: {text}\n")
    with pytest.raises(BadInput, match="is not a range"):
        read_jobs(path)


def test_a_range_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: [a]\nelastic: 1-2\nleast: 1\n")
    with pytest.raises(BadInput, match="stated twice"):
        read_jobs(path)


def test_tuners_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert make_tuners([]) == {}
    assert run(["up", "--state", str(tmp_path), "--tune", "elastc"]) == 2
    said = capsys.readouterr().err
    assert "did you mean" in said
    assert "elastic" in said
    assert run(["up", "--state", str(tmp_path), "--tune", "share"]) == 2
    assert run(["up", "--state", str(tmp_path), "--tune-s", "0"]) == 2


@pytest.mark.parametrize(
    ("value", "text"), [(10600.0, "10,600"), (0.31, "0.31"), (1.0, "1"), (1e20, "1e+20")]
)
def test_steps_are_shown_in_full(value: float, text: str) -> None:
    assert show.progress_text({"progress": {"step": value}}) == f"step {text}"
