"""A recording is of real processes, has a card with its origin, and can be read back."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flyball.bench.predict.targets import utilisation
from flyball.cli.predict import load
from flyball.core.errors import BadInput, UnknownName
from flyball.predict.load import workloads
from flyball.predict.load.record import card_of, record, shipped, use_of, write
from flyball.predict.load.table import read_series

app = typer.Typer()
app.command("record")(load.record)
app.command("other")(lambda: None)


def test_a_workload_is_run_and_read_back(tmp_path: Path) -> None:
    rows = record(["iterative"], 0.8)
    assert 1 <= len(rows) <= 16
    assert {kind for kind, _, _ in rows} == {"iterative"}
    assert all(use >= 0.0 for _, _, use in rows)
    path = tmp_path / "use.csv.gz"
    card = json.loads(write(path, rows, card_of(rows, 0.8, 0.05, 1)).read_text())
    assert card["rows"] == len(rows)
    assert "cores" in card["machine"]
    series = read_series(path, "use_percent", where={"workload": "iterative"}, step_s=0.05)
    assert series.step_s == 0.05
    before = path.read_bytes()
    write(path, rows, {})
    assert path.read_bytes() == before
    assert gzip.decompress(before).startswith(b"workload,time_s,use_percent")


def test_this_process_spins_and_is_seen() -> None:
    rows = use_of(os.getpid(), 0.2, 0.02)
    assert len(rows) <= 10
    assert all(0.0 < at <= 0.22 for at, _ in rows)
    began = time.thread_time()
    workloads.spin(0.01)
    assert time.thread_time() - began >= 0.01


def test_a_reading_that_comes_late_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third sleep lasts five steps too long; the process always uses half a core."""
    now = [100.0]
    sleeps = [0]

    def sleep(seconds: float) -> None:
        sleeps[0] += 1
        now[0] += seconds + (0.25 if sleeps[0] % 3 == 0 else 0.0)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.clock_gettime", lambda _clock: now[0] / 2)
    rows = use_of(1, 4.0, 0.05)
    assert 10 < len(rows) < 40
    assert {round(use) for _, use in rows} == {50}
    assert all(abs(at / 0.05 - round(at / 0.05)) < 0.01 for at, _ in rows)


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown workload 'burst'; did you mean 'bursty'"):
        record(["burst"], 1.0)
    with pytest.raises(BadInput, match=r"record 0\.01 s or more"):
        use_of(1, 1.0, 0.001)
    with pytest.raises(BadInput, match="no process 4194999"):
        use_of(4_194_999, 1.0)


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "me.csv"
    arguments = ["record", str(out), "--pid", str(os.getpid()), "--for", "200ms"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "rows in" in result.stdout
    assert (tmp_path / "me.json").exists()


def test_workloads_draw_their_lengths_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(Exception):
        pass

    def lengths(kind: str) -> list[float]:
        seen: list[float] = []

        def keep(seconds: float) -> None:
            seen.append(seconds)
            if len(seen) > 100:
                raise Enough

        monkeypatch.setattr(workloads, "spin", keep)
        monkeypatch.setattr("time.sleep", keep)
        with pytest.raises(Enough):
            workloads.KINDS[kind](random.Random(1))
        return seen

    for kind in workloads.KINDS:
        assert lengths(kind) == lengths(kind)
        assert min(lengths(kind)) > 0
    assert workloads.CHECK_S in lengths("iterative")


def test_the_shipped_recording_holds_both_workloads() -> None:
    for kind in workloads.KINDS:
        (series,) = utilisation(kind)
        assert series.step_s == 0.05
        assert len(series) > 4_000
    card = json.loads(shipped().with_name("utilisation_50ms.json").read_text())
    assert {"recorded", "machine", "counter"} <= set(card)
