"""`flyball bench monitor`: the real thing, short."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import typer

from flyball.bench.monitor import cost
from flyball.bench.monitor.agreement import AGREE, Reading, agreement
from flyball.bench.monitor.store import storing_share
from flyball.cli.bench import monitor
from flyball.core.errors import BadInput
from flyball.core.protocols import Sample
from flyball.experiments.part_runs import Outcome
from flyball.experiments.run_file import RunFile
from flyball.monitor import segments
from flyball.monitor.rates import FAMILIES
from flyball.monitor.reader import Telemetry
from flyball.monitor.spool import Spool

NOTES: list[str] = []


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two modes for a few seconds each, with windows to match."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WINDOW_S", 1.0)
        patch.setattr(cost, "SETTLE_S", 0.0)
        with RunFile(tmp_path_factory.mktemp("runs") / "runs.jsonl") as runs:
            outcome, figures = cost.run(NOTES.append, runs, 2.0, 2, 2)
    assert not outcome.not_run
    return figures


def test_figures(figures: dict[str, Any]) -> None:
    assert len(NOTES) == 2
    assert (figures["jobs"], figures["processes"]) == (2, 4)
    for mode in figures["modes"].values():
        assert 0.0 < mode["sampling_percent_of_core"] <= mode["cpu_percent_of_core"] < 100.0
        assert 5.0 < mode["pss_mb"] < 100.0
        assert set(mode["mb_per_hour"]) == set(cost.FAMILY_BARS_MB)
        assert all(size > 0 for size in mode["mb_per_hour"].values())
        assert mode["failures"] == 0
    assert figures["agreement"]["windows"] >= 1
    assert all(math.isfinite(figures["agreement"][name]) for name in AGREE)


def test_bars(figures: dict[str, Any]) -> None:
    assert len(figures["bars"]) == 14
    for row in figures["bars"]:
        assert row["holds"] == (row["value"] <= row["bar"])
    json.dumps(figures)


def test_windows_with_stolen_time_do_not_decide(tmp_path: Path) -> None:
    """Use is a tenth throughout; psutil misses some of it in the window with stolen time."""
    spool = Spool(tmp_path / "compute")
    for at in range(31):
        for source, values in (
            ("compute", {"total_percent": 10.0, "user_s_total": 2.0 * at, "system_s_total": 0.0}),
            ("memory", {"available_bytes": 50.0, "total_bytes": 100.0}),
            ("network", {"lo.rx_bytes_total": 5.0 * at}),
            ("disk", {"written_bytes_total": 5.0 * at}),
        ):
            spool.add(Sample(source, 1000.0 + at, values))
    spool.close()
    telemetry = Telemetry(tmp_path, now=lambda: 1031.0)

    def reading(at: float, busy_s: float, stolen_s: float) -> Reading:
        return Reading(1000.0 + at, busy_s, 2.0 * at, stolen_s, 20.0 * at, 50, int(5 * at), 0)

    seen = [reading(0, 0, 0), reading(10, 20, 1), reading(20, 36, 21), reading(30, 57, 22)]
    result = agreement(seen, telemetry)
    assert result["cpu_percent"] == pytest.approx(0.5)  # of the last window
    assert (result["windows"], result["cpu_windows"]) == (3, 2)
    assert result["cpu_stolen_percent"] == pytest.approx(0.5)
    assert result["cpu_percent_all_windows"] == pytest.approx(2.0)
    assert (
        result["cpu_ticks_percent"] == result["network_percent"] == result["memory_percent"] == 0.0
    )
    assert result["disk_percent"] == 5000.0  # psutil saw nothing of 50 bytes
    # With none calm, the calmest decides.
    assert agreement(seen[1:3], telemetry)["cpu_percent"] == pytest.approx(2.0)


def test_an_hour_is_stored_as_the_agent_would(tmp_path: Path) -> None:
    recorded, work = tmp_path / "recorded", tmp_path / "work"
    for family in FAMILIES:
        spool = Spool(recorded / family)
        for at in range(60):
            spool.add(Sample(family, 5000.0 + at, {"a_total": float(at), "b.c_percent": 1.0}))
        spool.close()
    assert 0.0 < storing_share(recorded, work) < 1.0
    for family in FAMILIES:
        assert [path.name for path in (work / "hour" / family).iterdir()] == ["0.hour.parquet"]
        hour = segments.read(work / "hour" / family / "0.hour.parquet")
        assert len(hour.times_s) == 3600
        assert set(hour.columns) == {f"{family}.a_total", f"{family}.b.c_percent"}
        assert [path.name for path in (work / "minute" / family).iterdir()] == ["0.parquet"]


def command(*arguments: str) -> None:
    """The command as a user calls it, whatever it is hooked into."""
    app = typer.Typer()
    app.command(epilog=monitor.EXAMPLES)(monitor.monitor)
    app([*arguments], standalone_mode=False)


def test_command(
    figures: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "run", lambda *_: (Outcome(), figures))
    command("--seconds", "60")
    shown = capsys.readouterr()
    assert "CPU at default rates, % of one core" in shown.out
    assert "not here: voltage" in shown.err or not figures["modes"]["default"]["absent"]
    command("--json")
    assert json.loads(capsys.readouterr().out)["jobs"] == 2


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="--seconds 5 is out of range"):
        command("--seconds", "5")
