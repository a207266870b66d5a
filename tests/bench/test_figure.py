"""Figures decide by their bars, and the rows that benchmarks write keep their keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from flyball.bench import parts, shares, starts, stepping, twin
from flyball.bench.figure import NO_BAR, Bar, Figure, figure_of, number_text
from flyball.bench.monitor import cost
from flyball.bench.monitor.agreement import AGREE
from flyball.bench.predict.starts import StartForecast, Tally, table
from flyball.bench.predict.targets import row_of
from flyball.bench.submit.rows import at_least
from flyball.bench.tune import speed
from flyball.cli.bench import figures as printer
from flyball.control.ask.start_bands import Edges


@pytest.mark.parametrize(
    ("bar", "value", "holds"),
    [
        (Bar.at_most(5.0), 5.0, True),
        (Bar.at_most(5.0), 5.1, False),
        (Bar.at_least(5.0), 5.0, True),
        (Bar.at_least(5.0), 4.9, False),
        (Bar(80.0, 97.0), 97.0, True),
        (Bar(80.0, 97.0), 97.5, False),
        (Bar(80.0, 97.0), 79.0, False),
        (Bar.at_least(0.0), -1.0, False),
        (Bar.at_most(5.0), math.nan, False),
        (Bar.at_most(None), 5.0, None),
        (NO_BAR, 5.0, None),
    ],
)
def test_a_bar_holds_or_not(bar: Bar, value: float, holds: bool | None) -> None:
    assert Figure("x", value, bar=bar).holds is holds


def test_bars_for_json_and_for_people() -> None:
    bars = (Bar.at_most(5.0), Bar.at_least(10_000.0), Bar(80.0, 97.0), NO_BAR)
    assert [bar.as_json() for bar in bars] == [5.0, 10_000.0, [80.0, 97.0], None]
    assert [bar.text for bar in bars] == ["at most 5", "at least 10,000", "80 to 97", ""]


def test_texts() -> None:
    assert number_text(1_234_567.8) == "1,234,568"
    assert number_text(0.0123456) == "0.01235"
    figure = Figure("speed", 99.25, "%", Bar.at_least(99.0), 98.5, 100.0)
    assert (figure.value_text, figure.interval_text) == ("99.25 %", "98.5 to 100")
    assert Figure("x", None).value_text == "no data here"


@pytest.mark.parametrize(
    ("value", "bar", "holds", "text"),
    [
        (4.0, 5.0, True, "at most 5"),
        (6.0, 5.0, False, "at most 5"),
        (6.0, 5.0, True, "at least 5"),
        (4.0, 5.0, False, "at least 5"),
        (5.0, 5.0, True, "5"),
        (1.0, [0.0, 2.0], True, "0 to 2"),
        (1.0, None, None, ""),
    ],
)
def test_a_row_is_read_back_with_its_verdict(
    value: float, bar: Any, holds: bool | None, text: str
) -> None:
    figure = figure_of({"name": "x", "value": value, "bar": bar, "holds": holds}, "name")
    assert (figure.holds, figure.bar.text) == (holds, text)


def test_one_printer(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Figure("rate", 512.5, "jobs/s", Bar.at_least(500.0), 500.0, 525.0, ("easy",)),
        Figure("time", 7.0, "s", Bar.at_most(5.0), labels=("fifo",)),
    ]
    printer.print_figures("Speeds", rows, ("policy",))
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert lines[1] == ["policy", "figure", "value", "bar", "interval", "holds"]
    assert " ".join(lines[3]) == "easy rate 512.5 jobs/s at least 500 500 to 525 yes"
    assert " ".join(lines[4]) == "fifo time 7 s at most 5 NO"
    printer.print_figures("Speeds", [Figure("rate", 512.5)])
    assert "interval" not in capsys.readouterr().out


# The rows of every benchmark as programs read them ----------------------------------------


def test_keys_of_rows_stay() -> None:
    part = parts.TimedPart("x", "", 1.0, lambda *_: int)
    row = parts.measured(part, parts.Sizes(), 1, lambda _: None)
    assert list(row) == ["part", "value", "unit", "bar", "holds"]
    row = at_least("rate", 5.0, "jobs/s", 4.0, about="five")
    assert list(row) == ["figure", "value", "unit", "bar", "holds", "load_1m", "about"]
    assert (row["bar"], row["holds"]) == (4.0, True)
    usual = {"cpu_percent_of_core": 2.0, "pss_mb": 50.0, "mb_per_hour_total": 5.0}
    usual["mb_per_hour"] = dict.fromkeys(cost.FAMILY_BARS_MB, 1.0)  # type: ignore[assignment]
    figures = {"modes": {"default": usual}, "agreement": dict.fromkeys(AGREE, 0.5)}
    rows = cost.bar_rows(figures)
    assert rows[0] == {
        "name": "CPU at default rates, % of one core", "value": 2.0, "bar": 1.5, "holds": False,
    }  # fmt: skip
    assert all(list(row) == ["name", "value", "bar", "holds"] for row in rows)
    row = starts.bar_row("p90 kept %", 90.0, starts.P90_BAR, None)
    assert row == {
        "name": "p90 kept %", "value": 90.0, "bar": [80.0, 97.0], "holds": True, "baseline": None,
    }  # fmt: skip
    row = row_of("rMAE", 0.9, (0.0, 1.0), "last", 3)
    assert row == {
        "metric": "rMAE", "value": 0.9, "bar": [0.0, 1.0], "baseline": "last", "n": 3,
        "holds": True,
    }  # fmt: skip
    assert row_of("accuracy %", 90.0, 95.0, "", 3, most=False)["holds"] is False
    assert row_of("rMAE", 0.9, None, "", 3)["holds"] is None
    row = table("x", Tally([StartForecast(Edges(1.0, 2.0), Edges(1.0, 2.0), 1.5)], 0))[0]
    assert list(row) == ["target", "horizon", "metric", "value", "bar", "holds", "baseline", "n"]
    assert row["bar"] == [45.0, 55.0]
    row = speed.speed_row("x", "round_ms", 2.0, [1.0, 3.0], 100.0)
    assert row == {
        "case": "1,000 nodes, x", "load": None, "baseline": None, "metric": "round_ms",
        "value": 2.0, "low": 1.0, "high": 3.0, "bar": 100.0,
    }  # fmt: skip


CASE = {"name": "a", "nodes": 10, "pending_mean": 5.5, "events": 7, "events_per_s": 1e6}


RATE = {
    "size": "64 GPUs",
    "policy": "easy",
    "twins": 2,
    "pending_mean": 5.0,
    "events_per_step": 50.0,
    "plain_events_per_s": 1e6,
    "stepped_events_per_s": 8e5,
    "cost_percent": 25.0,
}
FORK = {"active": 10, "held": 20, "fork_us": 50.0, "clone_us": 40.0}


def test_the_twin_reports_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin, "first_compile_s", lambda: 40.0)
    monkeypatch.setattr(twin, "warm", lambda note: None)
    monkeypatch.setattr(twin, "measure", lambda case: CASE)
    monkeypatch.setattr(twin, "reference_ratio", lambda: 1e4)
    clone = dict.fromkeys(("clone_us_1k", "clone_fresh_us_1k", "clone_kib"), 1.0)
    monkeypatch.setattr(twin, "clone_us", lambda: {**clone, "clone_jobs": 3, "clone_running": 2})
    monkeypatch.setattr(twin, "million_jobs_cpu_s", lambda: 1.0)
    none = {"philly_a_fifo_cpu_s": None, "philly_a_read_cpu_s": None}
    monkeypatch.setattr(twin, "philly_a", lambda: none)
    monkeypatch.setattr(stepping, "measure", lambda size, policy: RATE)
    monkeypatch.setattr(stepping, "thread_speedup", lambda: {"speedup": 1.9, "cores": 2.0})
    monkeypatch.setattr(stepping, "fork_cost", lambda jobs: {**FORK, "jobs": jobs})
    done: list[str] = []
    result = twin.run(lambda _: None, done.append)
    assert len(done) == twin.STEPS
    assert list(result) == [
        "first_compile_s", "cases", "ns_per_event_by_pending", "reference_ratio", "clone_us_1k",
        "clone_fresh_us_1k", "clone_kib", "clone_jobs", "clone_running", "million_jobs_cpu_s",
        "philly_a_fifo_cpu_s", "philly_a_read_cpu_s", "stepping",
    ]  # fmt: skip
    figures = {figure.name: figure for figure in twin.figures(result)}
    assert figures["64 GPUs, easy, 5 pending: cost of steps"].value_text == "25 %"
    assert figures["fork: 500,000 over 20,000 jobs"].value_text == "1 x"
    assert figures["first compile"].value_text == "40 s"
    assert figures["static order, 1,000 nodes, 10,000 pending"].value_text == "1,000 ns/event"
    assert figures["reading Philly A"].value_text == "no data here"


def test_shares_report_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "warm", lambda note: None)
    monkeypatch.setattr(shares, "SIZES", (20, 30))
    monkeypatch.setattr(shares, "REPEATS", 1)
    monkeypatch.setattr(shares, "WEEK_JOBS", 30)
    policies, done = shares.share_policies("max-min,easy"), list[str]()
    result = shares.run(policies, lambda _: None, done.append)
    assert len(done) == shares.steps(policies) == 3
    assert [list(row) for row in result["decisions"]] == [
        ["policy", "active", "decision_ms", "targets_ms"]
    ] * 2
    assert list(result["weeks"][0]) == [
        "policy", "jobs", "wall_s", "decisions", "completion_h", "utilisation", "preemptions",
    ]  # fmt: skip
    names = [figure.name for figure in shares.figures(result)]
    assert names[0] == "decision with 20 active jobs"
    assert "week of 30 jobs: mean completion" in names
    assert len(names) == 4 + 5


def test_parts_report_every_step(tmp_path: Path) -> None:
    done: list[str] = []
    sizes = parts.Sizes(jobs=20, batch=20)
    parts.run(lambda _: None, ("batch", "generate"), sizes, 1, done.append)
    assert done == ["batch", "generate"]
