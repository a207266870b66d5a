from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data


def test_found_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gavel").mkdir()
    monkeypatch.setenv("FLYBALL_DATA", str(tmp_path))
    assert shared_data("gavel") == tmp_path / "gavel"
    with pytest.raises(DataAbsent, match=r"no gavel/speeds\.csv in .*; set FLYBALL_DATA"):
        shared_data("gavel", "speeds.csv")


def test_looked_for_beside_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYBALL_DATA", raising=False)
    with pytest.raises(DataAbsent, match=r"shared/data; set FLYBALL_DATA"):
        shared_data("no such folder")
