"""`flyball bench gavel`, as users call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flyball.cli.main import run
from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data


def test_without_the_shared_data_it_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYBALL_DATA", str(tmp_path))
    assert run(["bench", "gavel"]) == 75
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


def test_an_unknown_policy_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "gavel", "--policies", "max-mni"]) == 2
    assert "max-min" in capsys.readouterr().err


def test_one_policy_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        shared_data("peer_runs")
    except DataAbsent as absent:
        pytest.skip(f"peer runs are not on this machine: {absent}")
    assert run(["bench", "gavel", "--policies", "fifo-fast", "--no-switches", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["policies"]
    assert row["holds"]
    assert row["mode_h"] == pytest.approx(row["theirs_h"], rel=1e-3)
