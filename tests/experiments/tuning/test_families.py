"""`flyball bench tune --family`: gains on families that no setting was chosen on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.cli.main import run
from flyball.core.errors import BadInput, DataAbsent, UnknownName
from flyball.core.shared_data import shared_data
from flyball.experiments.run_file import RunFile
from flyball.experiments.tuning import families
from flyball.experiments.tuning.families import FamilyPlan, Task
from flyball.twin.inputs.traces import sia


@pytest.fixture
def data() -> None:
    try:
        for family in families.FAMILIES.values():
            shared_data(*family.path)
    except DataAbsent as absent:
        pytest.skip(str(absent))


def made_up(plan: FamilyPlan) -> dict[Task, dict[str, Any]]:
    """Results in which workload N gains N percent of work over EASY; `sjf` is 1 % above EASY."""
    out: dict[Task, dict[str, Any]] = {}
    for task in plan.tasks():
        base = {"work": 100.0, "energy_per_work": 1.0, "completion": 50.0}
        plain = {" ".join(policy): base for policy in families.BASELINES}
        plain["sjf"], plain["fifo"] = {**base, "work": 101.0}, {**base, "work": 50.0}
        tuned = {**base, "work": 100.0 + task[1][0], "energy_per_work": 0.7}
        out[task] = {"tuned": tuned, "plain": plain, "jobs": 1, "left_out": 0}
    return out


def test_every_family_has_its_rows_and_what_was_tuned_on_is_marked() -> None:
    plan = FamilyPlan(("philly", "newtrace"), loads=(1.3,), seeds=2)
    rows = families.rows_of(plan, made_up(plan))
    by = {(row["case"], row["baseline"], row["metric"]): row for row in rows}
    assert {row["case"] for row in rows} == {
        "philly (1-8)", "newtrace (1-5, set with)", "newtrace (6-10)",
        "all families (not set with)",
    }  # fmt: skip
    row = by["philly (1-8)", "easy", "work_pct"]
    assert (row["value"], row["least"], row["most"], row["n"]) == pytest.approx((4.5, 1, 8, 8))
    assert row["low"] < 4.5 < row["high"]
    assert by["philly (1-8)", "best plain: sjf", "work_pct"]["value"] < row["value"]
    assert by["philly (1-8)", "fifo", "work_pct"]["value"] == pytest.approx(109.0)
    # The family that settings were chosen on is no part of what is quoted.
    assert by["all families (not set with)", "easy", "work_pct"]["value"] == row["value"]


def test_joined_workloads_follow_each_other_and_keep_their_jobs(data: None) -> None:
    parts = [families.read_workload("philly", number) for number in (1, 2)]
    whole = families.join(parts)
    assert len(whole) == 320
    assert len(set(whole.ids)) == 320
    assert whole.span_us == sum(part.span_us for part in parts)
    assert (np.diff(whole.submit_us) >= 0).all()
    last = [parts[1].models[code] for code in parts[1].model]
    assert [whole.models[code] for code in whole.model[160:]] == last
    assert len(set(whole.models)) == len(whole.models)
    other = families.workload("philly", (1, 2, 3), 1.3, 1)
    assert len(other) == 480, "another seed joins them in another order"


def test_workloads_of_pollux_are_read_by_number(data: None) -> None:
    plan = FamilyPlan(("pollux",))
    assert plan.groups("pollux") == [(1,), (2,), (3,), (4,)]
    assert len(families.read_workload("pollux", 4)) == 160
    kept = families.fitting(families.read_workload("pollux", 1))
    assert kept.devices.max() <= 24, "the largest pool of the cluster"
    with pytest.raises(BadInput, match="holds 4 workloads"):
        sia.read(shared_data("pollux", "workloads.csv.gz"), [])


def test_what_cannot_be_run_is_refused_first(data: None) -> None:
    with pytest.raises(UnknownName, match="did you mean 'philly'"):
        FamilyPlan(("philli",)).check()
    with pytest.raises(BadInput, match="pollux has no workload 9"):
        FamilyPlan(("pollux",), (9,)).check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--joined"], "name one with --family"),
        (["--family", "philly", "--only", "mixed"], "do not go together"),
        (["--family", "philly", "--workloads", "six"], "use e.g. 1-6"),
        (["--family", "philly", "--workloads", "4-2"], "out of range"),
        (["--family", "philly", "--load", "0"], "--load '0' is out of range"),
        (["--family", "philly", "--seeds", "0"], "--seeds 0 is out of range"),
        (["--family", ","], "no family is named"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert run(["bench", "tune", *options]) == 2
    assert words in capsys.readouterr().err


def test_the_command_measures_and_goes_on(
    data: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ran: list[Task] = []

    def quick(_self: object, *task: Any) -> dict[str, Any]:
        ran.append(task)
        plan = FamilyPlan((task[0],), task[1], (task[2],), seeds=task[3] + 1)
        return made_up(plan)[task]

    monkeypatch.setattr(families.Runner, "run", quick)
    kept = tmp_path / "runs.jsonl"
    options = ["--family", "philly", "--load", "1.3", "--seeds", "1", "--workers", "1"]
    base = ["bench", "tune", *options, "--resume", str(kept), "--workloads"]
    assert run([*base, "1-2"]) == 0
    assert "philly (1-2)" in capsys.readouterr().out
    assert run([*base, "1-3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["case"] for row in rows} == {"philly (1-3)"}
    assert [task[1] for task in ran] == [(1,), (2,), (3,)], "what was finished is not run again"
    with RunFile(kept) as runs:
        assert len(runs.records) == 3
