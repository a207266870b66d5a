"""Readings of a Slurm site become forecasts, reasons, metrics and a cluster file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flyball.cli.main import run
from flyball.core.errors import BadInput, NotFound
from flyball.core.knobs import Backfill
from flyball.engines.slurm.accounting import EndedJob
from flyball.engines.slurm.poll import Reading
from flyball.engines.slurm.queue_text import QueuedJob, read_queue
from flyball.engines.slurm.records_text import (
    SlurmNode,
    read_nodes,
    read_partitions,
    read_settings,
    read_shares,
)
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.watch.adviser import Advice, Adviser, Start
from flyball.watch.report import as_json, cluster_text, metric_rows
from flyball.watch.rules import rules_of
from flyball.watch.why import changes_of, explain_slurm_job, meaning_of

RECORDED = Path(__file__).parents[1] / "engines" / "slurm" / "recorded" / "22.05"
NOW_S = 1_000_000.0


def recorded_reading() -> Reading:
    def text(name: str) -> bytes:
        return (RECORDED / name).read_bytes()

    jobs = read_queue(text("squeue.txt"))
    shares = read_shares(text("job3.txt"), 3)
    assert shares is not None
    return Reading(
        max(job.submit_s for job in jobs) + 5.0,
        0.03,
        jobs,
        read_nodes(text("nodes.txt")),
        read_partitions(text("partitions.txt")),
        read_settings(text("config.txt")),
        {3: shares},
    )


def node(name: str, cpus: int = 8, gpus: int = 0, gpu_type: str = "") -> SlurmNode:
    return SlurmNode(name, cpus, 64_000, gpus, gpu_type, "IDLE", True, ("main",), ())


def job(number: int, state: str = "PD", **values: object) -> QueuedJob:
    usual = QueuedJob(
        number, str(number), state, "Priority", 1000 - number, NOW_S - 100.0, None, None, None,
        600.0, 1, 1, 0, 0, "", False, ("main",), "ann", "", "", "", "", "", "train",
    )  # fmt: skip
    return usual._replace(**values)  # type: ignore[arg-type]  # names of its fields


def reading(nodes: list[SlurmNode], jobs: list[QueuedJob], **settings: str) -> Reading:
    usual = recorded_reading()
    return replace(
        usual, time_s=NOW_S, jobs=jobs, nodes=nodes, shares={},
        settings={**usual.settings, **settings},
    )  # fmt: skip


def starts_of(advice: Advice) -> dict[str, Start]:
    return {start.job.label: start for start in advice.starts}


def test_a_recorded_queue_is_forecast() -> None:
    starts = starts_of(Adviser().observe(recorded_reading()))
    assert set(starts) == {"4", "6_0", "6_1", "6_2", "6_3", "7", "8", "9", "10"}
    for label, word in (("7", "JobHeldUser"), ("9", "BeginTime")):
        assert starts[label].forecast is None and word in starts[label].why_none
    first, after = starts["4"].forecast, starts["8"].forecast
    assert first is not None and after is not None
    assert 0.0 < first.p50_s <= first.p90_s
    assert after.p50_s > 0.0  # not before job 1, on which it depends, has ended


def test_jobs_wait_for_the_devices_that_running_ones_hold() -> None:
    running = job(1, "R", cpus=8, start_s=NOW_S - 60.0, node_list="n1")
    small, large = job(2, cpus=1), job(3, cpus=16, nodes=2)
    both = reading([node("n1"), node("n2")], [running, small, large])
    starts = starts_of(Adviser().observe(both))
    assert starts["2"].forecast is not None and starts["2"].forecast.p90_s == 0.0
    assert starts["3"].forecast is not None and starts["3"].forecast.p50_s > 0.0


def test_higher_priority_goes_first_whenever_it_was_submitted() -> None:
    running = job(1, "R", cpus=8, start_s=NOW_S - 60.0, node_list="n1")
    early = job(2, cpus=8, priority=10)
    urgent = job(3, cpus=8, priority=20, submit_s=NOW_S - 1.0)
    advice = Adviser().observe(reading([node("n1")], [running, early, urgent]))
    assert [start.job.label for start in advice.starts] == ["3", "2"]
    starts = starts_of(advice)
    assert starts["2"].forecast is not None and starts["3"].forecast is not None
    assert starts["3"].forecast.p50_s < starts["2"].forecast.p50_s


def test_gpu_jobs_do_not_run_on_nodes_without_gpus() -> None:
    nodes = [node("c1"), node("g1", gpus=4, gpu_type="a100"), node("g2", gpus=4, gpu_type="h100")]
    taken = job(1, "R", gpus=4, gpu_type="a100", start_s=NOW_S - 60.0, node_list="g1")
    waits, fits = job(2, gpus=2, gpu_type="a100"), job(3, gpus=2, gpu_type="h100")
    cores, huge = job(4, cpus=8), job(5, gpus=64)
    starts = starts_of(Adviser().observe(reading(nodes, [taken, waits, fits, cores, huge])))
    assert starts["2"].forecast is not None and starts["2"].forecast.p50_s > 0.0
    for label in ("3", "4"):
        forecast = starts[label].forecast
        assert forecast is not None and forecast.p90_s == 0.0
    assert starts["5"].forecast is None and "could hold it" in starts["5"].why_none


def test_drained_nodes_take_no_jobs_and_their_jobs_free_nothing() -> None:
    drained = node("n1")._replace(state="MIXED+DRAIN", available=False)
    running = job(1, "R", cpus=4, start_s=NOW_S - 60.0, node_list="n1")
    starts = starts_of(Adviser().observe(reading([drained], [running, job(2)])))
    assert starts["2"].forecast is None and "never starts" in starts["2"].why_none


def test_a_job_on_unlike_nodes_holds_what_it_has_on_each() -> None:
    nodes = [node("c1", cpus=4), node("c2", cpus=8), node("g1", gpus=2, cpus=4)]
    wide = job(1, "R", cpus=16, nodes=3, start_s=NOW_S - 60.0, node_list="c1,c2,g1")
    starts = starts_of(Adviser().observe(reading(nodes, [wide, job(2, cpus=3)])))
    assert starts["2"].forecast is not None


def ended(number: int, ran_s: float) -> EndedJob:
    start_s = NOW_S - 90_000.0 + 1000.0 * number
    return EndedJob(
        str(9000 + number), "ann", "", ("main",), start_s - 5.0, start_s, start_s + ran_s, 600.0,
        "COMPLETED", 1, 0, 0, "", 0, "train",
    )  # fmt: skip


def test_run_times_are_learnt_from_accounts() -> None:
    running = job(1, "R", cpus=1, start_s=NOW_S - 1.0, node_list="n1")
    site = reading([node("n1", cpus=1)], [running, job(2)])
    plain = starts_of(Adviser().observe(site))["2"].forecast
    adviser = Adviser()
    assert adviser.learn([ended(number, 60.0) for number in range(30)], NOW_S) == 30
    learnt = starts_of(adviser.observe(site))["2"].forecast
    assert plain is not None and learnt is not None
    assert plain.p50_s > 200.0 > 120.0 > learnt.p50_s
    assert "jobs of the same owner and name" in learnt.method


def test_run_times_are_learnt_from_ends_that_squeue_shows() -> None:
    adviser = Adviser()
    done = [job(number, "CD", start_s=NOW_S - 90.0, end_s=NOW_S - 30.0) for number in range(10, 15)]
    running = job(1, "R", start_s=NOW_S - 1.0, node_list="n1")
    advice = adviser.observe(reading([node("n1", cpus=1)], [*done, running, job(2)]))
    adviser.observe(reading([node("n1", cpus=1)], [*done, running, job(2)]))
    forecast = starts_of(advice)["2"].forecast
    assert forecast is not None and forecast.p90_s < 120.0


def test_rules_are_mapped_to_knobs() -> None:
    settings = recorded_reading().settings
    assert rules_of(settings).knobs.backfill == Backfill.EASY
    assert rules_of(settings).knobs.depth == 2000 and not rules_of(settings).ages
    plain = {"schedulertype": "sched/builtin", "selecttype": "select/linear"}
    assert rules_of(plain).knobs.backfill == Backfill.STRICT and rules_of(plain).whole_nodes
    multifactor = {**settings, "prioritytype": "priority/multifactor", "preempttype": "preempt/qos"}
    assert rules_of(multifactor).ages
    assert "preempt/qos: not modelled" in rules_of(multifactor).sentences


def test_reasons_and_what_ifs() -> None:
    running = job(1, "R", gpus=2, start_s=NOW_S - 60.0, node_list="g1")
    site = reading([node("g1", gpus=4)], [running, job(2, gpus=4, reason="Resources")])
    adviser = Adviser()
    advice = adviser.observe(site)
    answer = explain_slurm_job(adviser, advice, "2", changes_of(["gpus=2", "time=5"]))
    assert answer["slurm_meaning"].startswith("it is next in line")
    assert "Needs 4" in answer["sentence"] and answer["p50_s"] > 0.0
    asked = answer["counterfactuals"][0]
    assert asked["change"] == "if it asked for 2 GPUs and a time limit of 5.0 min"
    assert asked["p50_s"] == 0.0
    with pytest.raises(NotFound, match="squeue lists no job 77"):
        explain_slurm_job(adviser, advice, "77", {})


@pytest.mark.parametrize("setting", ["gpus", "nodes=2", "gpus=many", "gpus=0", "time=soon"])
def test_what_ifs_that_are_not_understood(setting: str) -> None:
    with pytest.raises(BadInput, match="--if"):
        changes_of([setting])


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("QOSMaxGRESPerUser", "limit"), ("AssocGrpCpuLimit", "limit"), ("Priority", "ahead"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "down"),
        ("Nodes required for job are", "reserved"),
        ("SomethingNew", ""),
    ],
)  # fmt: skip
def test_reasons_of_slurm_are_explained(reason: str, word: str) -> None:
    assert word in meaning_of(reason).sentence
    assert bool(word) == bool(meaning_of(reason).sentence)


def test_json_and_metrics_hold_no_nan() -> None:
    advice = Adviser().observe(recorded_reading())
    text = json.dumps(as_json(advice), allow_nan=False)
    assert json.loads(text)["slurm_version"] == "22.05.8"
    names = {name for name, _labels, _value in metric_rows(advice, 3, 1)}
    assert "flyball_slurm_jobs_pending" in names
    assert metric_rows(None, 3, 1)[1] == ("flyball_slurm_poll_failures_total", {}, 1.0)


def test_the_sites_last_weeks_are_replayed_beside_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("c1"), *(node(f"g{at}", gpus=2, gpu_type="a100") for at in range(2))]
    path = tmp_path / "site.yaml"
    path.write_text(cluster_text("site", nodes))
    assert load_cluster(path).device_count == 4
    assert "1 nodes without GPUs are left out" in path.read_text()
    rows = ["JobID|User|Account|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|ReqTRES|AllocTRES"]
    for at in range(12):
        start = 1000 + 300 * (at // 2)
        rows.append(
            f"{at}|ann|lab|{1000 + at}|{start}|{start + 300}|300|10|COMPLETED||"
            "cpu=4,gres/gpu=2,gres/gpu:a100=2"
        )
    trace = tmp_path / "jobs.txt"
    trace.write_text("\n".join(rows) + "\n")
    assert run(["replay", str(trace), "--cluster", str(path), "-p", "easy", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["recorded"] and [row["policy"] for row in answer["results"]] == ["easy"]


def test_an_unknown_type_of_gpu_is_said_to_be_taken_as_another(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(cluster_text("site", [node("g1", gpus=2, gpu_type="zz9")]))
    assert "zz9: {like: V100}" in path.read_text()
    assert load_cluster(path).groups[0].device == "zz9"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json"], "--json needs --once or --why"),
        (["--if", "gpus=2"], "--if needs --why"),
        (["--every", "0"], "--every 0 is out of range"),
        (["--metrics", "99999"], "--metrics 99999 is out of range"),
        (["--write-cluster", "site.txt"], "cannot write this kind of file"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["watch", "slurm", *options]) == 2
    assert message in capsys.readouterr().err


def test_without_slurm_one_line_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["watch", "slurm", "--once"]) == 75
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "no squeue in PATH" in error
