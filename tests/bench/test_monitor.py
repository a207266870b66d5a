"""`flyball bench monitor`: the real thing, short."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import typer

from flyball.bench import monitor
from flyball.cli import bench_monitor
from flyball.core.errors import BadInput

NOTES: list[str] = []


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Two modes for a few seconds each, with windows to match."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor, "WINDOW_S", 1.0)
        patch.setattr(monitor, "SETTLE_S", 0.0)
        return monitor.run(NOTES.append, seconds=2.0, jobs=2, processes=2)


def test_figures(figures: dict[str, Any]) -> None:
    assert len(NOTES) == 2
    assert (figures["jobs"], figures["processes"]) == (2, 4)
    for mode in figures["modes"].values():
        assert 0.0 < mode["sampling_percent_of_core"] <= mode["cpu_percent_of_core"] < 100.0
        assert 5.0 < mode["pss_mb"] < 100.0
        assert set(mode["mb_per_hour"]) == set(monitor.FAMILY_BARS_MB)
        assert all(each > 0 for each in mode["mb_per_hour"].values())
        assert mode["failures"] == 0
    assert figures["agreement"]["windows"] >= 1
    assert all(math.isfinite(figures["agreement"][name]) for name in monitor.AGREE)


def test_bars(figures: dict[str, Any]) -> None:
    assert len(figures["bars"]) == 13
    for each in figures["bars"]:
        assert each["holds"] == (each["value"] <= each["bar"])
    json.dumps(figures)


def command(*arguments: str) -> None:
    """The command as a user calls it, whatever it is hooked into."""
    app = typer.Typer()
    app.command(epilog=bench_monitor.EXAMPLES)(bench_monitor.monitor)
    app([*arguments], standalone_mode=False)


def test_command(
    figures: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "run", lambda *_: figures)
    command("--seconds", "60")
    shown = capsys.readouterr()
    assert "CPU at default rates, % of one core" in shown.out
    assert "not here: voltage" in shown.err or not figures["modes"]["default"]["absent"]
    command("--json")
    assert json.loads(capsys.readouterr().out)["jobs"] == 2


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="--seconds 5 is out of range"):
        command("--seconds", "5")
