"""The latest values and series, across spools and segments."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from flyball.core.protocols import Sample
from flyball.monitor.publish import Outlet
from flyball.monitor.reader import Telemetry
from flyball.monitor.store import tidy

START = 1_700_000_040.0
assert START % 60 == 0


def filled(folder: Path, seconds: int, publish: bool = True) -> Outlet:
    outlet = Outlet(folder)
    folder.mkdir(exist_ok=True)
    for at in range(seconds):
        now = START + at
        outlet.add("compute", Sample("compute", now, {"total_percent": float(at % 10)}))
        outlet.add("network", Sample("network", now, {"rx_bytes_total": 1000.0 * at}))
        if publish:
            outlet.publish(now, {"pid": 1, "sensors": {}})
    return outlet


def test_latest_has_rates(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    telemetry = Telemetry(tmp_path)
    assert telemetry.latest() == {
        "compute.total_percent": 2.0,
        "network.rx_bytes_total": 2000.0,
        "network.rx_bytes_per_s": 1000.0,
    }
    assert telemetry.status()["time_s"] == START + 2
    assert (tmp_path / "latest.json").stat().st_mode & 0o777 == 0o600


def test_old_values_are_not_the_latest(tmp_path: Path) -> None:
    outlet = filled(tmp_path, 2)
    outlet.add("compute", Sample("compute", START + 40, {"other_percent": 5.0}))
    outlet.publish(START + 40, {})
    assert Telemetry(tmp_path).latest() == {"compute.other_percent": 5.0}
    os.utime(tmp_path / "latest.json", (START, START))
    telemetry = Telemetry(tmp_path, now=lambda: START + 60)
    assert telemetry.age_s() == 60.0
    assert telemetry.latest() == {}
    assert telemetry.latest(max_age_s=61.0)


def test_what_a_job_said_stays_while_it_runs(tmp_path: Path) -> None:
    """Many jobs report once an epoch, and the total number of steps only once."""
    outlet = Outlet(tmp_path)
    first = {"1.total_steps": 90.0, "1.steps_per_s": 2.0, "2.step": 5.0, "reports_total": 1.0}
    outlet.add("application", Sample("application", START, first))
    outlet.add("application", Sample("application", START + 1, {"1.step": 3.0}))
    for at in (0, 31, 600):
        outlet.add("application", Sample("jobs", START + at, {"running": 1, "1.attempt": 1}))
        outlet.publish(START + at, {})
    values = Telemetry(tmp_path).latest()
    reported = {name: x for name, x in values.items() if name.startswith("application.")}
    assert reported == {"application.1.total_steps": 90.0, "application.1.step": 3.0}
    outlet.publish(START + 620, {})
    assert "application.1.step" in Telemetry(tmp_path).latest(), "it has just ended"
    outlet.publish(START + 631, {})
    assert Telemetry(tmp_path).latest() == {}


def test_values_that_json_cannot_hold_are_left_out(tmp_path: Path) -> None:
    outlet = Outlet(tmp_path)
    outlet.add("compute", Sample("a", START, {"x": float("nan"), "y": 1.0}))
    outlet.publish(START, {})
    assert json.loads((tmp_path / "latest.json").read_text())["values"] == {"a.y": 1.0}


def test_a_folder_that_has_gone_is_counted(tmp_path: Path) -> None:
    outlet = Outlet(tmp_path / "gone")
    outlet.publish(START, {})
    assert outlet.lost == 1


def test_nothing_there(tmp_path: Path) -> None:
    telemetry = Telemetry(tmp_path / "none")
    assert (telemetry.latest(), telemetry.status(), telemetry.names()) == ({}, {}, [])
    assert telemetry.age_s() == float("inf")
    times, values = telemetry.series("compute.total_percent", 60)
    assert len(times) == len(values) == 0
    (tmp_path / "none").mkdir()
    (tmp_path / "none/latest.json").write_text("{half")
    assert telemetry.status() == {}


def test_series_over_spools_and_segments(tmp_path: Path) -> None:
    filled(tmp_path, 150)
    assert tidy(tmp_path, START + 120).written == 4
    telemetry = Telemetry(tmp_path)
    times, values = telemetry.series("compute.total_percent", 1000)
    assert len(times) == 150
    assert np.allclose(np.diff(times), 1.0)
    assert np.allclose(values, np.arange(150) % 10)
    assert len(telemetry.series("compute.total_percent", 75)[0]) == 76
    _, rates = telemetry.series("network.rx_bytes_per_s", 1000)
    assert rates == pytest.approx([1000.0] * 149)
    assert telemetry.names() == [
        "compute.total_percent",
        "network.rx_bytes_per_s",
        "network.rx_bytes_total",
    ]
    assert len(telemetry.series("no.such_name", 60)[0]) == 0


def test_features(tmp_path: Path) -> None:
    filled(tmp_path, 61)
    one, ten, sixty = Telemetry(tmp_path).features("compute.total_percent")
    assert (one.samples, ten.samples, sixty.samples) == (1, 10, 60)
    assert ten.mean == pytest.approx(4.5)


def test_asking_for_the_fastest(tmp_path: Path) -> None:
    Telemetry(tmp_path).ask_fast(30.0)
    assert (tmp_path / "fast").read_text() == "30"
    assert [path.name for path in tmp_path.iterdir()] == ["fast"]
