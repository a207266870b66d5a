"""`flyball bench parts`: every part is measured; how long it takes is no matter here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.bench import parts
from flyball.cli.main import run
from flyball.core.codes import ActionKind
from flyball.core.errors import UnknownName

TINY = parts.Sizes(rows=20, jobs=20, classified=20, batch=20, nodes=10, series=3)


def test_rows() -> None:
    notes: list[str] = []
    rows = parts.run(notes.append, sizes=TINY, repeats=1)
    assert [row["part"] for row in rows] == notes
    assert len(rows) == len(parts.PARTS)
    for row in rows:
        assert row["value"] >= 0
        assert row["unit"] == "CPU s"
        assert row["holds"] == (row["value"] <= row["bar"])
    assert "reading 20 rows of a trace" in notes
    assert rows[0]["value"] > 0, "a process was started"


def test_the_work_is_done(tmp_path: Path) -> None:
    results: dict[str, Any] = {}
    for name in ("read", "generate", "classify", "batch", "power"):
        results[name] = parts.PARTS[name].prepare(40, tmp_path)()
    assert [len(results[name]) for name in ("read", "generate", "classify", "batch")] == [40] * 4
    jobs = 40 * parts.DEVICES_PER_NODE // 2 + 12
    assert sum(action.kind == ActionKind.CAP for action in results["power"]) == jobs


def test_the_quickest_counts_and_a_missed_bar_is_said() -> None:
    times = iter([0.0, 3.0, 10.0, 12.0])
    part = parts.TimedPart("counting to {size}", "batch", 1.0, lambda *_: int, lambda: next(times))
    assert parts.measured(part, TINY, 2, lambda _: None) == {
        "part": "counting to 20", "value": 2.0, "unit": "CPU s", "bar": 1.0, "holds": False,
    }  # fmt: skip


def test_only() -> None:
    rows = parts.run(lambda _: None, ("batch", "generate"), TINY, 1)
    assert [row["part"].split()[0] for row in rows] == ["reading", "generating"]
    with pytest.raises(UnknownName, match="did you mean 'start'"):
        parts.run(lambda _: None, ("strat",))


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    late = {"part": "counting", "value": 2.0, "unit": "CPU s", "bar": 1.0, "holds": False}
    monkeypatch.setattr(parts, "run", lambda note, only, done: [late])
    assert run(["bench", "parts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": [late]}
    assert run(["bench", "parts", "--only", "start"]) == 0, "a bar that is missed is no error"
    assert "NO" in capsys.readouterr().out
    assert run(["bench", "parts", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "  flyball bench parts" in shown
    assert f"Parts: {', '.join(parts.PARTS)}." in shown
