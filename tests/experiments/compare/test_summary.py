"""Comparisons: each run once, the sums right on paper, the file read back as it was."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.until import WAIT_S

from flyball.app import policy_settings
from flyball.core.errors import BadInput, FlyballError, UnknownName
from flyball.core.metrics import finish_time_fairness
from flyball.experiments import run_file, workers
from flyball.experiments.compare import runs
from flyball.experiments.compare.figure import compare_figure
from flyball.experiments.compare.report import (
    change_table,
    fairness_table,
    markdown,
    relative_table,
    scenario_table,
)
from flyball.experiments.compare.runs import BOUND, ComparePlan, code_version, run_plan
from flyball.experiments.compare.summary import Comparison, compare, load_comparison, summary_of
from flyball.experiments.run_file import Record, RunFile
from flyball.experiments.scenarios import Scenario

NODES = {"nodes": [{"name": "a", "device": "V100", "devices": 8}]}
TINY = Scenario("tiny", "a small one", NODES, "mixed", 30, 0.9, effects={"estimate_sigma": 0.5})
HEAP = replace(TINY, name="heap", load=None)


def plan(policies: str = "fifo-skip,fifo,srtf", seeds: int = 3) -> ComparePlan:
    return ComparePlan((TINY, HEAP), tuple(policy_settings(policies, [])), tuple(range(seeds)))


def untimed(records: list[Record]) -> list[Record]:
    return [{name: value for name, value in r.items() if name != "run_s"} for r in records]


def run_in(path: Path, what: ComparePlan, **more: Any) -> list[Record]:
    with RunFile(path) as runs:
        return run_plan(what, runs, workers=1, **more)


# Runs -------------------------------------------------------------------------------


def test_every_run_and_a_bound_for_each_problem(tmp_path: Path) -> None:
    records = run_in(tmp_path / "runs.jsonl", plan())
    assert [(r["seed"], r["scenario"], r.get("policy")) for r in records] == [
        (seed, scenario, policy)
        for seed in range(3)
        for scenario in ("tiny", "heap")
        for policy in ("fifo-skip", "fifo", "srtf", None)
    ]
    assert all(("bounds" in r) != ("summary" in r) for r in records)
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records


def test_broken_off_and_gone_on_with(tmp_path: Path) -> None:
    whole = run_in(tmp_path / "whole.jsonl", plan())
    path, seen = tmp_path / "parts.jsonl", list[Record]()

    def stop_after_five(record: Record) -> None:
        seen.append(record)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in(path, plan(), done=stop_after_five)
    assert len(path.read_text().splitlines()) == 5
    records = list[Record]()
    assert untimed(run_in(path, plan(), done=records.append)) == untimed(whole)
    assert untimed(records) == untimed(whole)  # told of each, found or made
    lines = path.read_text().splitlines()
    assert len(lines) == len(whole)  # nothing was run twice
    assert [json.loads(line) for line in lines[:5]] == seen


def test_only_what_is_new_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    run_in(path, plan("fifo-skip,fifo", 2))
    run = ComparePlan.run
    calls: list[tuple[int, int, int]] = []

    def counted(self: ComparePlan, seed: int, scenario: int, arm: int) -> Record:
        calls.append((seed, scenario, arm))
        return run(self, seed, scenario, arm)

    monkeypatch.setattr(ComparePlan, "run", counted)
    run_in(path, plan("fifo-skip,fifo", 2))
    assert calls == []
    run_in(path, plan("fifo-skip,srtf,fifo", 2))  # one policy more, in between
    assert calls == [(seed, scenario, 1) for seed in range(2) for scenario in range(2)]


def test_a_damaged_line_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    whole = run_in(path, plan())
    text = path.read_text()
    path.write_text(text[: len(text) - 40])  # as a power cut leaves it
    notes: list[str] = []
    with RunFile(path, notes.append) as runs:
        assert len(runs.records) == len(whole) - 1
        assert untimed(run_plan(plan(), runs, 1)) == untimed(whole)
    assert len(notes) == 1
    assert f"{path} row {len(whole)} is damaged" in notes[0]
    # The damaged line stands alone; the run made again is on a line of its own.
    lines = path.read_text().splitlines()
    assert len(lines) == len(whole) + 1
    assert json.loads(lines[-1])["key"] == whole[-1]["key"]


def test_rubbish_is_not_a_run(tmp_path: Path) -> None:
    path, notes = tmp_path / "runs.jsonl", list[str]()
    path.write_bytes(b'[1, 2]\n{"no": "key"}\n\xff\xfe\n\n')
    with RunFile(path, notes.append) as runs:
        assert runs.records == {}
    assert "row 1, 2, 3 is damaged" in notes[0]
    with pytest.raises(BadInput, match="name another folder"):
        RunFile(tmp_path)


def test_keys_follow_all_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {plan().key(*task) for task in plan().tasks()}
    assert len(keys) == len(plan().tasks())
    first = plan().key(0, 0, 0)
    deeper = ComparePlan((TINY,), tuple(policy_settings("fifo-skip", ["depth=7"])), (0,))
    assert deeper.key(0, 0, 0) not in keys
    assert deeper.key(0, 0, BOUND) in keys
    longer = ComparePlan((replace(TINY, jobs=31),), plan().policies, (0,))
    assert longer.key(0, 0, 0) not in keys
    monkeypatch.setattr(runs, "code_version", lambda: "another")
    assert plan().key(0, 0, 0) != first


def test_the_code_version_follows_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_version().startswith("0.")
    (tmp_path / "schedule" / "policies").mkdir(parents=True)
    source = tmp_path / "schedule" / "policies" / "x.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(run_file, "PACKAGE", tmp_path)
    versions = []
    for text in ("a = 1\n", "a = 2\n"):
        source.write_text(text)
        run_file.source_version.cache_clear()
        versions.append(runs.code_version())
    run_file.source_version.cache_clear()
    assert versions[0] != versions[1]


def test_workers_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = run_in(tmp_path / "alone.jsonl", plan())
    monkeypatch.setattr(workers, "POOL_PAYS_S", -1.0)
    with RunFile(tmp_path / "together.jsonl") as runs:
        together = run_plan(plan(), runs, workers=2)
    assert untimed(alone) == untimed(together)


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    arguments = ["bench", "compare", "--scenarios", "batch", "--policies", "fifo,fifo-skip"]
    arguments += ["--seeds", "200", "--workers", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "flyball", *arguments], stderr=subprocess.DEVNULL
    )
    runs = tmp_path / "runs.jsonl"
    try:
        until = time.monotonic() + WAIT_S
        while not runs.exists() or runs.read_bytes().count(b"\n") < 4:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    whole = runs.read_bytes().count(b"\n")
    with RunFile(runs) as kept:
        assert len(kept.records) == whole >= 4


# What they come to ---------------------------------------------------------------------


def summary(mean_s: float) -> dict[str, Any]:
    """A run's summary with this mean completion time and little else."""
    times = {"mean": mean_s, "p50": mean_s, "p95": mean_s, "p99": mean_s}
    rest = {
        "makespan_s": 10.0, "work_per_window": 1.0, "jobs_per_window": 1, "utilisation": 0.5,
        "energy_kwh": 2.0, "energy_per_work": 2.0, "peak_power_kw": 1.0, "cost": 3.0,
        "balance": None, "preemptions": 0, "lost_work": 0.0, "fairness_jain": 1.0,
        "finish_fairness_p95": 1.0, "events": 3, "slowdown_p95": 2.0,
    }  # fmt: skip
    return {"jobs": 1, "completion_s": times, "wait_s": times, **rest}


def on_paper() -> Comparison:
    """Two scenarios, two seeds, two policies: fifo takes 2 and 8 times as long as fifo-skip."""
    means = {
        ("tiny", "fifo-skip"): (100.0, 200.0),
        ("tiny", "fifo"): (200.0, 400.0),
        ("heap", "fifo-skip"): (10.0, 20.0),
        ("heap", "fifo"): (80.0, 160.0),
    }
    records: list[Record] = [
        {"scenario": scenario, "seed": seed, "policy": policy, "summary": summary(m), "run_s": 0.1}
        for (scenario, policy), both in means.items()
        for seed, m in enumerate(both)
    ]
    for scenario, half in (("tiny", 50.0), ("heap", 5.0)):
        for seed in (0, 1):
            best = half * (1 + seed)
            bounds = {"solo_s": best, "shared_s": 0.0, "priced_s": 0.0, "best_s": best}
            records.append({"scenario": scenario, "seed": seed, "bounds": bounds, "run_s": 0.0})
    return compare(plan("fifo-skip,fifo", 2), records)


def test_sums_on_paper() -> None:
    comparison = on_paper()
    assert comparison.against == ["fifo-skip", "fifo"]
    assert [row["policy"] for row in comparison.overall] == ["fifo-skip", "fifo"]
    best, worst = comparison.overall
    assert best["relative"] == pytest.approx(1.0)
    assert worst["relative"] == pytest.approx(4.0)  # the geometric mean of 2 and 8
    assert best["regret"] == pytest.approx(1.0)  # twice the bound everywhere
    assert worst["regret"] == pytest.approx((3.0 + 15.0) / 2)
    assert worst["change"]["fifo-skip"] == pytest.approx([300.0, 300.0, 300.0])
    assert best["change"]["fifo"] == pytest.approx([-75.0, -75.0, -75.0])
    mean = comparison.mean("heap", "fifo")
    assert (mean["completion_s"], mean["regret"]) == (120.0, 15.0)
    assert mean["relative"] == pytest.approx(8.0)
    change = next(
        row for row in comparison.changes
        if row["scenario"] == "heap" and row["policy"] == "fifo" and row["against"] == "fifo-skip"
    )  # fmt: skip
    assert change["completion_s"]["mean"] == (70 + 140) / 2
    assert change["completion_s"]["percent"] == [700.0, 700.0, 700.0]


def test_tables_on_paper() -> None:
    comparison = on_paper()
    relative = relative_table(comparison)
    assert relative.header == ("policy", "tiny (x)", "heap (x)", "overall (x)", "regret (%)")
    assert relative.rows == [
        ("fifo-skip", "1.00", "1.00", "1.00", "100"),
        ("fifo", "2.00", "8.00", "4.00", "900"),
        ("lower bound", "0.50", "0.50", "0.50", ""),
    ]
    assert change_table(comparison).header == ("policy", "from fifo-skip (%)", "from fifo (%)")
    assert change_table(comparison).rows[1] == ("fifo", "+300 (+300..+300)", "-")
    heap = scenario_table(comparison, "heap")
    assert "all at time 0" in heap.title
    assert heap.rows[1][-2:] == ("1500", "+700 (+700..+700)")
    page = markdown(comparison, "the command", "compare.png")
    assert "| fifo | 2.00 | 8.00 | 4.00 | 900 |" in page
    assert "`the command`" in page


@pytest.mark.parametrize(
    ("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_figure(kind: str, magic: bytes) -> None:
    image = compare_figure(on_paper(), kind)
    assert image.startswith(magic)
    assert len(image) > 5_000


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    one = plan("fifo-skip,fifo", 1)
    comparison = compare(one, run_in(tmp_path / "runs.jsonl", one))
    fifo = next(row for row in comparison.overall if row["policy"] == "fifo")
    mean, low, high = fifo["change"]["fifo-skip"]
    assert math.isnan(low)
    assert math.isnan(high)
    assert ("fifo", f"{mean:+.0f}", "-") in change_table(comparison).rows
    assert compare_figure(comparison).startswith(b"\x89PNG")


def test_read_back_as_written(tmp_path: Path) -> None:
    comparison = compare(plan(), run_in(tmp_path / "runs.jsonl", plan()))
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(comparison.as_dict(), allow_nan=False))
    again = load_comparison(tmp_path)
    assert again.as_dict() == comparison.as_dict()
    assert again.overall[0]["policy"] == "srtf"
    promised = {"relative", "regret", "completion_s", "makespan_s", "utilisation", "run_s"}
    assert promised <= set(again.means[0])
    assert {"solo_s", "shared_s", "priced_s", "best_s"} <= set(again.scenarios["tiny"]["bounds"][0])
    assert relative_table(again) == relative_table(comparison)
    assert compare_figure(again) == compare_figure(comparison)


def test_regret_is_never_negative(tmp_path: Path) -> None:
    comparison = compare(plan(), run_in(tmp_path / "runs.jsonl", plan()))
    assert min(row["regret"] for row in comparison.results) >= 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a comparison"),
        ('{"format": 99}', "not a comparison of format 1"),
        ('{"format": 1}', "has no 'code'"),
    ],
)
def test_not_a_comparison(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "compare.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        load_comparison(path)
    with pytest.raises(BadInput, match="flyball bench compare"):
        load_comparison(tmp_path / "gone.json")


def test_a_baseline_must_be_there() -> None:
    with pytest.raises(UnknownName, match="easy"):
        compare(plan("fifo-skip,fifo"), [], "easy")


def test_summaries_survive_json() -> None:
    run = TINY.case(plan().policies[0], 0).run(0, 0)
    assert summary_of(json.loads(json.dumps(run.summary.as_dict()))) == run.summary


def test_a_policy_that_a_scenario_refuses_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(TINY, name="slow", effects={"checkpoint_s": 1e6})
    what = ComparePlan((TINY, slow), tuple(policy_settings("fifo-skip,srtf", [])), (0, 1))
    failed: dict[str, str] = {}
    with RunFile(tmp_path / "runs.jsonl") as runs:
        records = run_plan(what, runs, 1, failed=failed)
    assert list(failed) == ["srtf"]
    assert failed["srtf"].startswith("on slow: ")
    assert {record.get("policy", "bound") for record in records} == {"fifo-skip", "bound"}
    assert [row["policy"] for row in compare(what.without(failed), records, "fifo-skip").overall]
    with RunFile(tmp_path / "other.jsonl") as runs, pytest.raises(FlyballError):
        run_plan(what, runs, 1)


# Fairness -----------------------------------------------------------------------------


def test_fairness_is_that_of_all_jobs_together(tmp_path: Path) -> None:
    what = plan("fifo-skip,tuned", seeds=2)
    records = run_in(tmp_path / "runs.jsonl", what)
    comparison = compare(what, records)
    rows = {row["policy"]: row for row in comparison.fairness}
    assert set(rows) == {"fifo-skip", "tuned"}
    everything: list[float] = []
    preemptions: list[int] = []
    for scenario in (TINY, HEAP):
        for seed in range(2):
            case = replace(scenario.case(policy_settings("tuned", [])[0], seed), keep="all")
            results = case.run(0, 0).results
            assert results is not None
            everything += finish_time_fairness(results).tolist()
            preemptions += results.preemptions.tolist()
    row = rows["tuned"]
    assert row["finish_fairness_p95"] == pytest.approx(np.quantile(everything, 0.95), rel=0.05)
    assert row["finish_fairness_p50"] == pytest.approx(np.quantile(everything, 0.5), rel=0.05)
    assert row["preemptions_per_job"] == pytest.approx(np.mean(preemptions))
    assert row["most_preemptions"] == max(preemptions)
    assert rows["fifo-skip"]["most_preemptions"] == rows["fifo-skip"]["most_moves"] == 0
    table = fairness_table(comparison)
    assert [line[0] for line in table.rows] == [line["policy"] for line in comparison.overall]
    assert table.title in markdown(comparison, "x", "y.png")


def test_files_of_older_versions_have_no_fairness(tmp_path: Path) -> None:
    what = plan("fifo-skip", seeds=1)
    content = compare(what, run_in(tmp_path / "runs.jsonl", what)).as_dict()
    del content["fairness"]
    (tmp_path / "compare.json").write_text(json.dumps(content))
    assert load_comparison(tmp_path).fairness == []
