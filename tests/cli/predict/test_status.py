"""`flyball predict status`: the table, the sentences, and a server without a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.world import World

from flyball.cli.predict import status
from flyball.core.errors import Unavailable

LEAD = {
    "ahead_s": 3600.0,
    "model": "smoothing",
    "rmae": 0.912,
    "naive": "last",
    "coverage_90": 0.895,
    "n": 1240,
}
REPORT: dict[str, Any] = {
    "loads": [
        {"series": "running", "unit": "devices", "leads": [LEAD], "drift": [], "note": ""},
        {
            "series": "pending",
            "unit": "jobs",
            "leads": [],
            "drift": ["repeats every day (40%)"],
            "note": "too short to be fitted",
        },
    ],
    "run_times": {
        "n": 200,
        "learnt": 230,
        "model": "like jobs",
        "median_abs_log_error": 0.405,
        "within_2x": 0.64,
        "coverage_90": 0.9,
        "note": "the stored model is not used: bad",
        "fit_error": "",
    },
    "starts": {
        "coverage_p50": 0.5,
        "coverage_p90": None,
        "n_p50": 40,
        "n_p90": 0,
        "waiting": 1,
    },
    "worker": {"alive": True, "starts": 2, "last_end": "ended with -9"},
}


def test_a_line_for_each_time_ahead() -> None:
    rows = [row for series in REPORT["loads"] for row in status.load_rows(series)]
    assert rows == [("running", "60.0 min", "smoothing", "last", "0.91", "90%", "1,240")]


def test_sentences() -> None:
    assert list(status.lines(REPORT)) == [
        "running (devices): no pattern",
        "pending (jobs): too short to be fitted repeats every day (40%)",
        "run times: like jobs, learnt from 230 jobs; of 200 predictions: median error a factor of "
        "1.50, within 2x 64%, in band 90%",
        "  the stored model is not used: bad",
        "start times: p50 kept by 50% of 40, p90 by - of 0; 1 forecast open",
    ]
    assert status.worker_line(REPORT["worker"]) == (
        "worker: runs, started 2 times; the last one ended with -9"
    )
    assert status.worker_line({}) == "worker: none"


def test_of_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path / "state")
    with world.server():
        status.status(state=world.folder)
        assert "nothing is forecast" in capsys.readouterr().out
        world.plane.worker.receive({"status": REPORT})
        status.status(state=world.folder)
        out = capsys.readouterr().out
        assert "smoothing" in out
        assert "within 2x 64%" in out
        assert out.endswith("worker: none\n")
        status.status(as_json=True, state=world.folder)
        assert json.loads(capsys.readouterr().out)["run_times"]["n"] == 200
    world.plane.close()


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        status.status(state=tmp_path)
