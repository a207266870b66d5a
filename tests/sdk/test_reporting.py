"""`flyball.report`: never in the way of the job."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.until import WAIT_S

from flyball.monitor.collectors.application import bound, parsed
from flyball.sdk import reporting

CODE = """
import flyball
for step in range(50):
    flyball.report(step=step, loss=1 / (step + 1), **{"val/Acc": 0.5})
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of job 7's second attempt."""
    for name, value in (("JOB_ID", "7"), ("ATTEMPT", "2"), ("STATE", str(tmp_path))):
        monkeypatch.setenv(f"FLYBALL_{name}", value)
    monkeypatch.setattr(reporting, "_pending", {})
    monkeypatch.setattr(reporting, "_next_s", 0.0)
    (tmp_path / "telemetry").mkdir()
    return tmp_path


def heard(receiver: socket.socket) -> list[dict[str, Any]]:
    """Everything that arrived, as the agent reads it."""
    reports: list[dict[str, Any]] = []
    while True:
        try:
            report = parsed(receiver.recv(9000))
        except BlockingIOError:
            return reports
        assert report is not None
        reports.append(report)


def test_a_program_reports(state: Path) -> None:
    with bound(state / "telemetry" / "report.sock") as receiver:
        subprocess.run([sys.executable, "-c", CODE], check=True)
        reports = heard(receiver)
    assert {message["job"] for message in reports} == {7}
    assert reports[0]["attempt"] == 2
    assert reports[0]["step"] == 0
    # Fifty in a moment are a few; the last one is not lost.
    assert 2 <= len(reports) < 50
    assert reports[-1]["step"] == 49
    assert reports[-1]["val_acc"] == 0.5


def test_a_path_too_long_for_a_socket(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = state / ("d" * 100) / ("e" * 100)
    (deep / "telemetry").mkdir(parents=True)
    monkeypatch.setenv("FLYBALL_STATE", str(deep))
    with bound(deep / "telemetry" / "report.sock") as receiver:
        reporting.report(step=1)
        assert [message["step"] for message in heard(receiver)] == [1]


def test_only_numbers_under_plain_names(state: Path) -> None:
    class Tensor:
        def __float__(self) -> float:
            return 2.5

    with bound(state / "telemetry" / "report.sock") as receiver:
        odd: dict[str, Any] = {
            "": 1,
            "1st": 1,
            "job": 99,
            "x" * 50: 1,
            "text": "a",
            "ok": True,
            "t": Tensor(),
        }
        reporting.report(loss=float("nan"), lr=float("inf"), **odd)
        (report,) = heard(receiver)
    assert report["job"] == 7
    assert set(report) == {"job", "attempt", "time", "x" * 32, "ok", "t"}
    assert (report["ok"], report["t"]) == (1, 2.5)


def test_it_never_raises_and_never_waits(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __float__(self) -> float:
            raise RuntimeError("no")

    def many() -> None:
        for step in range(3000):
            reporting.report(step=step)

    monkeypatch.setattr(reporting, "SPACING_S", 0.0)
    reporting.report(step=1)  # nobody listens
    reporting.report(bad=Broken())
    with bound(state / "telemetry" / "report.sock"):
        thread = threading.Thread(target=many, daemon=True)
        thread.start()
        thread.join(WAIT_S)
        assert not thread.is_alive(), "nobody reads, the socket is full, and it waits"
    monkeypatch.setenv("FLYBALL_JOB_ID", "x")
    reporting.report(step=1)
    monkeypatch.delenv("FLYBALL_STATE")
    reporting.report(step=1)
    reporting.flush()


def test_many_values_fit_one_report(state: Path) -> None:
    with bound(state / "telemetry" / "report.sock") as receiver:
        reporting.report(**{f"v{'x' * 29}{i}": 0.123456789012345 for i in range(100)})
        (report,) = heard(receiver)
    assert len(json.dumps(report)) < 8192
    assert len(report) == 31
