"""Reports over the socket: taken, refused, and never trusted."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.monitor.site import absent, opened

from flyball.monitor.collectors.application import MOST_BYTES, parsed
from flyball.monitor.sensor import Site


def send(state: Path, *reports: Any) -> None:
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in reports]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\n".join(lines), str(state / "telemetry" / "report.sock"))


def test_reports(tmp_path: Path) -> None:
    application = opened("application", Site(state=tmp_path))
    assert application.collect(9.0).values == {"reports_total": 0, "rejected_total": 0}
    send(tmp_path, {"job": 17, "attempt": 1, "step": 100, "loss": 0.5, "time": 100.0})
    send(tmp_path, {"job": 17, "attempt": 1, "step": 150, "loss": 0.4, "time": 110.0})
    send(tmp_path, {"queue_length": 4, "completed_total": 90, "priority_max": 7.5})
    assert application.collect(10.0).values == {
        "17.step": 150,
        "17.loss": 0.4,
        "17.steps_per_s": 5.0,
        "queue_length": 4,
        "completed_total": 90,
        "priority_max": 7.5,
        "reports_total": 3,
        "rejected_total": 0,
    }
    assert application.collect(11.0).values == {"reports_total": 3, "rejected_total": 0}


def test_speed_without_a_time_of_their_own(tmp_path: Path) -> None:
    application = opened("application", Site(state=tmp_path))
    for now, step, speed in ((1.0, 10, None), (3.0, 30, 10.0), (4.0, 20, None), (5.0, 22, 2.0)):
        send(tmp_path, {"job": 1, "step": step})
        assert application.collect(now).values.get("1.steps_per_s") == speed


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[1]",
        b'"job"',
        b"\xff\xfe",
        b'{"job": "17"}',
        b'{"job": true}',
        b'{"job": -1}',
        b'{"job": 1, "time": "now"}',
        b'{"job": 1, "time": NaN}',
        b"[" * 5000,
        json.dumps({f"f{at}": at for at in range(40)}).encode(),
        b'{"a": "' + b"x" * MOST_BYTES + b'"}',
    ],
)
def test_what_is_no_report(line: bytes) -> None:
    assert parsed(line) is None


def test_only_numbers_under_plain_names(tmp_path: Path) -> None:
    application = opened("application", Site(state=tmp_path))
    odd = {"job": 3, "ok": 1, "Bad": 1, "../x": 1, "text": "a", "flag": True, "none": None}
    send(tmp_path, {**odd, "huge": 1e301, "list": [1], "a" * 40: 1}, b'{"job": 3, "nan": NaN}')
    values = application.collect(1.0).values
    assert values == {"3.ok": 1, "reports_total": 2, "rejected_total": 0}


def test_rejected_are_counted(tmp_path: Path) -> None:
    application = opened("application", Site(state=tmp_path))
    send(tmp_path, b"nonsense", {"job": 1, "loss": 1.0})
    values = application.collect(1.0).values
    assert (values["reports_total"], values["rejected_total"]) == (1, 1)


def test_a_former_socket_is_replaced_and_private(tmp_path: Path) -> None:
    first = opened("application", Site(state=tmp_path))
    second = opened("application", Site(state=tmp_path))
    send(tmp_path, {"job": 1, "loss": 1.0})
    assert second.collect(1.0).values["reports_total"] == 1
    assert first.collect(1.0).values["reports_total"] == 0
    assert (tmp_path / "telemetry/report.sock").stat().st_mode & 0o777 == 0o600


def test_long_paths_work(tmp_path: Path) -> None:
    state = tmp_path / ("x" * 120)
    application = opened("application", Site(state=state))
    short = tmp_path / "s"
    short.symlink_to(state)
    send(short, {"job": 1, "loss": 1.0})
    assert application.collect(1.0).values["reports_total"] == 1


def test_no_state_folder() -> None:
    assert "no state folder" in absent("application", Site())
