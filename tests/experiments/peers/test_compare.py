"""`flyball bench tune --only peers`: what is run, and the rows beside theirs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flyball.cli.main import run as command
from flyball.core.errors import BadInput, DataAbsent, UnknownName
from flyball.core.shared_data import shared_data
from flyball.experiments.held_out import held_out
from flyball.experiments.peers import compare, ground
from flyball.experiments.peers.arms import ARMS
from flyball.experiments.peers.compare import PeerPlan
from flyball.twin.ended import NOTHING_KNOWN_US


@pytest.fixture
def data() -> None:
    try:
        for path in ground.DATA:
            shared_data(*path)
    except DataAbsent as absent:
        pytest.skip(str(absent))


def test_workloads_that_are_judged_may_not_be_tuned_on() -> None:
    for peer in ground.PEERS.values():
        for family, numbers in peer.judged.items():
            assert set(numbers) <= set(held_out().workloads[family])


def test_what_cannot_be_run_is_refused_first(data: None) -> None:
    with pytest.raises(UnknownName, match="pollux"):
        PeerPlan(peers=("polux",)).check()
    with pytest.raises(UnknownName, match="philly"):
        PeerPlan(families=("phily",)).check()
    with pytest.raises(BadInput, match="numbers"):
        PeerPlan(peers=("pollux",), numbers=(9,)).check()
    for durations in ("all", "noisy", "noisy:x", "ended:1"):
        with pytest.raises(BadInput, match="durations"):
            PeerPlan(durations=durations).check()


def test_a_plan_runs_their_own_rules_first() -> None:
    tasks = PeerPlan(peers=("sia",), arms=("las",)).tasks()
    assert [task[1:4] for task in tasks[:3]] == [
        ("philly", 1, "gavel"), ("philly", 1, "las"), ("philly", 2, "gavel"),
    ]  # fmt: skip
    assert len(tasks) == 5 * 2
    # Where nothing was published there is nothing to check their rules by.
    assert [task[3] for task in PeerPlan(("sia",), ("newtrace",), (1,)).tasks()] == list(ARMS)


def test_rows_are_paired_by_job_and_then_by_workload(data: None) -> None:
    plan = PeerPlan(peers=("pollux",), numbers=(1, 2), arms=("las", "elastic"))
    results = {}
    for task in plan.tasks():
        jobs = ground.ground(task[0], task[1], task[2]).jobs
        policy = "tiresias" if task[3] == "tiresias" else "pollux"
        theirs = ground.theirs_s(*task[:3], policy, jobs)
        assert theirs is not None
        factor = {"tiresias": 0.95, "las": 1.2, "elastic": 0.9}[task[3]]
        results[task] = {
            "completion_s": (theirs * factor).tolist(),
            **dict.fromkeys(("wait_s", "fairness_p99", "mean_restarts", "most_restarts"), 1.0),
        }
    rows = {(row["case"], row["policy"]): row for row in compare.rows_of(plan, results)}
    first = rows["pollux: pollux/1", "elastic"]
    assert first["value"] == pytest.approx(-10.0)
    assert first["theirs_s"] == pytest.approx(2088.8, abs=0.1)
    assert first["low"] < -10.0 < first["high"]
    assert first["bar"] is None
    whole = rows["pollux: all", "elastic"]
    assert (whole["value"], whole["bar"], whole["workloads"]) == (pytest.approx(-10.0), 0.0, 2)
    assert whole["theirs_s"] == pytest.approx((2088.8 + 3322.9) / 2, abs=0.1)
    # By their own rules it is the size of the error that counts.
    checked = rows["pollux: pollux/2", "tiresias"]
    assert (checked["value"], checked["bar"]) == (pytest.approx(5.0), 10.0)
    assert checked["theirs_s"] == pytest.approx(5145.0, abs=0.1)


def test_without_published_figures_rows_are_against_a_plain_policy(data: None) -> None:
    plan = PeerPlan(("sia",), ("newtrace",), (1,), arms=("srtf", "elastic"))
    more = dict.fromkeys(("wait_s", "fairness_p99", "mean_restarts", "most_restarts"), 1.0)
    results = {
        task: {"completion_s": [100.0 if task[3] == "srtf" else 80.0] * 3, **more}
        for task in plan.tasks()
    }
    rows = {(row["case"], row["policy"]): row for row in compare.rows_of(plan, results)}
    row = rows["sia: all", "elastic"]
    assert (row["baseline"], row["value"], row["bar"]) == ("srtf", pytest.approx(-20.0), None)
    assert rows["sia: newtrace/1", "srtf"]["metric"] == "completion_pct srtf"


def test_the_ground_hides_run_times_unless_epochs_are_known(data: None) -> None:
    hidden = ground.ground("sia", "philly", 1)
    assert set(hidden.jobs.estimate_us) == {NOTHING_KNOWN_US}
    assert hidden.estimates is not None
    known = ground.ground("sia", "philly", 1, "epochs")
    assert np.isnan(known.jobs.estimate_us).all()
    assert known.estimates is None
    assert ground.ground("sia", "philly", 1, "noisy:0.5").effects.estimate_sigma == 0.5
    assert hidden.elastic.most.max() == 64
    assert (hidden.jobs.most == 0).all()
    one_device = ground.ground("pollux", "pollux", 1)
    ncf = [model.startswith("ncf") for model in one_device.jobs.models]
    assert (one_device.elastic.most[np.array(ncf)[one_device.jobs.model]] == 0).all()


def test_the_command_prints_a_row_for_each_workload_and_keeps_its_runs(
    data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "runs.jsonl"
    options = ["bench", "tune", "--only", "peers", "--costs", "pollux", "--family", "pollux"]
    options += ["--workloads", "3", "--policy", "las", "--workers", "1", "--resume", str(kept)]
    assert command([*options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["case"], row["policy"]) for row in rows] == [
        ("pollux: pollux/3", "tiresias"), ("pollux: pollux/3", "las"),
        ("pollux: all", "tiresias"), ("pollux: all", "las"),
    ]  # fmt: skip
    assert rows[0]["value"] < 10.0, "their rules give their mean"
    assert rows[0]["theirs_s"] == pytest.approx(3876.3, abs=0.1)
    assert rows[2]["low"] is None, "one workload has no interval"
    size = kept.stat().st_size
    assert command(options) == 0
    assert kept.stat().st_size == size, "nothing was run again"
    assert "3,876" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--costs", "sia"], "--only peers"),
        (["--only", "peers", "--load", "0.8"], "--load"),
        (["--only", "peers", "--costs", "sai"], "sia"),
        (["--only", "peers", "--policy", "strf"], "srtf"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], message: str, data: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["bench", "tune", *options]) == 2
    assert message in capsys.readouterr().err
