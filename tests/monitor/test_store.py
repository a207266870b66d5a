"""Spools, segments, hours, retention: what goes in comes out, and damage is passed over."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.protocols import Sample
from flyball.monitor import segments
from flyball.monitor.keep import Keep
from flyball.monitor.reader import Telemetry
from flyball.monitor.spool import Row, Spool, read_spool, spans
from flyball.monitor.store import MOST_TRIES, main, size_by_family, tidy

HOUR = 1_700_002_800
"""The beginning of an hour."""
assert HOUR % 3600 == 0


def fill(folder: Path, start_s: float, seconds: int, family: str = "compute") -> None:
    """One sample a second of a percentage and a total."""
    spool = Spool(folder / family)
    for at in range(seconds):
        values = {"total_percent": 12.34 + at % 7, "switches_total": 1000.0 + 3 * at}
        spool.add(Sample(family, start_s + at, values))
    spool.close()


def test_a_spool_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add(Sample("a", 100.5, {"x": 1.0, "y": 2.0}))
    spool.add(Sample("b", 100.6, {}))  # nothing seen, nothing kept
    spool.add(Sample("a", 100.7, {"x": 3.0}))
    spool.flush()
    (path,) = spans(tmp_path, ".live").values()
    rows = [Row(100.5, ("a.x", "a.y"), (1.0, 2.0)), Row(100.7, ("a.x",), (3.0,))]
    assert list(read_spool(path)) == rows
    spool.add(Sample("a", 120.0, {"x": 5.0}))
    spool.close()
    assert list(spans(tmp_path, ".live")) == [100, 120]  # a new one at the full minute
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_second_agent_within_a_second(tmp_path: Path) -> None:
    for _ in range(2):
        spool = Spool(tmp_path)
        spool.add(Sample("a", 100.5, {"x": 1.0}))
        spool.close()
    assert list(spans(tmp_path, ".live")) == [100, 101]


def test_a_full_disk_loses_samples_and_nothing_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add(Sample("a", 100.5, {"x": 1.0}))
    spool.flush()
    (path,) = spans(tmp_path, ".live").values()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        for at in range(5):
            spool.add(Sample("a", 101.0 + at, {"x": 2.0, "y": 2.0}))
        spool.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert spool.lost == 1
    spool.add(Sample("a", 110.0, {"x": 3.0, "y": 3.0}))
    spool.close()
    damage: list[Path] = []
    assert [row.time_s for row in read_spool(path, damage)] == [100.5, 110.0]
    assert not damage


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file")
    spool.add(Sample("a", 100.5, {"x": 1.0}))
    spool.close()
    assert spool.lost == 1


@given(cut=st.integers(0, 400))
def test_a_spool_cut_anywhere_gives_what_came_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    fill(folder, 600.0, 10)
    (path,) = spans(folder / "compute", ".live").values()
    all_rows = list(read_spool(path))
    path.write_bytes(path.read_bytes()[:cut])
    damage: list[Path] = []
    rows = list(read_spool(path, damage))
    assert rows == all_rows[: len(rows)]
    assert not damage


def test_damage_in_the_middle_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, 600.0, 10)
    (path,) = spans(tmp_path / "compute", ".live").values()
    data = bytearray(path.read_bytes())
    data[-31:-24] = b"\xff" * 7
    path.write_bytes(bytes(data))
    damage: list[Path] = []
    assert len(list(read_spool(path, damage))) == 9
    assert damage == [path]
    done = tidy(tmp_path, math.inf)
    assert (done.damaged, done.written) == (1, 1)  # and what was whole is kept


def test_round_trip(tmp_path: Path) -> None:
    columns = {
        "a.use_percent": np.array([0.0, 99.99, np.nan, 33.33]),
        "a.bytes_total": np.array([1e15, 1e15 + 1, 1e15 + 2, np.nan]),
        "a.loss": np.array([0.123456789, -1e-9, 1e200, np.nan]),
        "a.count": np.array([1.0, 2.0, np.nan, 4.0]),
        "a.huge_percent": np.array([1e18, 1.0, 2.0, 3.0]),
    }
    times = np.array([1.7e9, 1.7e9 + 0.01, 1.7e9 + 0.02, 1.7e9 + 60])
    path = tmp_path / "x.parquet"
    size = segments.write(path, segments.Segment(times, columns, [5]))
    assert size == path.stat().st_size
    back = segments.read(path)
    assert back.spans == [5]
    assert np.allclose(back.times_s, times, atol=1e-5, rtol=0)
    for name, values in columns.items():
        assert np.allclose(back.columns[name], values, rtol=1e-15, atol=1e-9, equal_nan=True)
    assert list(segments.read(path, ["a.loss", "a.other"]).columns) == ["a.loss"]
    assert segments.names_in(path) == sorted(columns)
    assert list(tmp_path.iterdir()) == [path]


VALUES = st.floats(-1e6, 1e6, allow_nan=False) | st.just(math.nan)


@given(table=st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=30))
def test_any_values_come_back_to_within_their_step(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[float, ...]]
) -> None:
    names = ("s.x_percent", "s.y_w", "s.z")
    rows = [Row(1000.0 + at, names, values) for at, values in enumerate(table)]
    path = tmp_path_factory.mktemp("any") / "1000.parquet"
    segments.write(path, segments.gather(rows, 1000))
    back = segments.read(path)
    for name, column, step in zip(names, zip(*table, strict=True), (0.01, 0.01, 0), strict=True):
        assert np.allclose(back.columns[name], column, rtol=1e-12, atol=step, equal_nan=True)


def test_sources_sampled_together_share_a_row() -> None:
    rows = [
        Row(1.0, ("a.x",), (1.0,)),
        Row(1.0, ("b.y",), (2.0,)),
        Row(2.0, ("b.y",), (3.0,)),
    ]
    segment = segments.gather(rows, 1)
    assert segment.times_s.tolist() == [1.0, 2.0]
    assert segment.columns["b.y"].tolist() == [2.0, 3.0]
    assert math.isnan(segment.columns["a.x"][1])
    assert segments.gather([], 1).columns == {}


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 nonsense PAR1", b"x" * 5000])
def test_damaged_files_are_passed_over(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path, HOUR, 60)
    tidy(tmp_path, HOUR + 60)
    bad = tmp_path / "compute" / f"{HOUR + 60}.parquet"
    bad.write_bytes(content)
    telemetry = Telemetry(tmp_path, now=lambda: HOUR + 100.0)
    assert len(telemetry.series("compute.total_percent", 200)[0]) == 60
    assert telemetry.damaged == {bad}
    assert "compute.total_percent" in telemetry.names()
    # The hour is made of the good ones; the bad one stays until it is too old.
    done = tidy(tmp_path, HOUR + 7200)
    assert (done.compacted, done.damaged) == (1, 1)
    assert tidy(tmp_path, HOUR + 7200).compacted == 0
    assert bad.exists()
    assert tidy(tmp_path, HOUR + 9 * 86400).removed == 2


def test_half_written_files_are_never_seen(tmp_path: Path) -> None:
    (tmp_path / "compute").mkdir()
    (tmp_path / "compute" / f".{HOUR}.parquet.tmp").write_bytes(b"half")
    telemetry = Telemetry(tmp_path, now=lambda: HOUR + 1.0)
    assert telemetry.names() == []
    assert not telemetry.damaged


def test_minutes_become_hours(tmp_path: Path) -> None:
    for minute in (0, 1, 59):
        fill(tmp_path, HOUR + 60 * minute, 60)
    fill(tmp_path, HOUR + 3600, 60)
    done = tidy(tmp_path, HOUR + 3660)
    assert (done.written, done.compacted, done.damaged) == (4, 1, 0)
    names = sorted(path.name for path in (tmp_path / "compute").iterdir())
    assert names == [f"{HOUR}.hour.parquet", f"{HOUR + 3600}.parquet"]
    telemetry = Telemetry(tmp_path, now=lambda: HOUR + 3660.0)
    times, values = telemetry.series("compute.total_percent", 7200)
    assert len(times) == 240
    assert np.all(np.diff(times) > 0)
    assert values[:3] == pytest.approx([12.34, 13.34, 14.34])
    assert len(telemetry.series("compute.total_percent", 59)[0]) == 59
    # A minute that turns up late joins the hour.
    fill(tmp_path, HOUR + 120, 60)
    assert tidy(tmp_path, HOUR + 3660).compacted == 1
    assert len(telemetry.series("compute.total_percent", 7200)[0]) == 300


def test_a_crash_between_hour_and_minutes_counts_nothing_twice(tmp_path: Path) -> None:
    fill(tmp_path, HOUR, 60)
    tidy(tmp_path, HOUR + 60)
    minute = tmp_path / "compute" / f"{HOUR}.parquet"
    left = minute.read_bytes()
    tidy(tmp_path, HOUR + 3600)
    minute.write_bytes(left)
    telemetry = Telemetry(tmp_path, now=lambda: HOUR + 3600.0)
    assert len(telemetry.series("compute.switches_total", 9999)[0]) == 60
    assert tidy(tmp_path, HOUR + 3600).compacted == 0
    assert not minute.exists()


def test_retention_by_size_and_age(tmp_path: Path) -> None:
    for day in range(4):
        fill(tmp_path, HOUR + day * 86_400, 30, family=("compute", "memory")[day % 2])
    tidy(tmp_path, HOUR + 60)
    now = HOUR + 3 * 86_400 + 60.0
    assert tidy(tmp_path, now, Keep(days=2.5)).removed == 1
    sizes = size_by_family(tmp_path)
    done = tidy(tmp_path, now, Keep(mib=(sum(sizes.values()) - 1) / 2**20))
    assert done.removed == 1  # the oldest, of whatever family
    assert done.size_bytes == sum(size_by_family(tmp_path).values())
    assert (tmp_path / "memory" / f"{HOUR + 3 * 86_400}.parquet").exists()


def test_on_a_full_disk_old_ones_still_go_and_spools_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = HOUR + 9 * 86_400 + 60
    fill(tmp_path, HOUR, 30)
    tidy(tmp_path, HOUR + 60)
    fill(tmp_path, now - 60, 30)
    fill(tmp_path, now - 60, 30, "memory")
    (tmp_path / "compute" / ".half.parquet.tmp").write_bytes(b"half")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for _ in range(MOST_TRIES + 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            done = tidy(tmp_path, now)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (done.failures, done.written) == (2, 0)
    names = sorted(path.name for path in tmp_path.glob("*/*"))
    assert names == [f"{now - 60}.live"] * 2  # the old one went, nothing is half there
    assert tidy(tmp_path, now).written == 2


def test_a_spool_that_cannot_be_converted_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, HOUR, 60)
    fill(tmp_path, HOUR + 60, 60)
    gather = segments.gather

    def fussy(rows: Iterable[Row], start_s: int) -> segments.Segment:
        if start_s == HOUR:
            raise ValueError("cannot be")
        return gather(rows, start_s)

    monkeypatch.setattr(segments, "gather", fussy)
    done = tidy(tmp_path, HOUR + 120)
    assert (done.failures, done.written) == (1, 1)  # those after it are stored
    assert "ValueError: cannot be" in done.messages[0]
    for _ in range(MOST_TRIES - 1):
        assert tidy(tmp_path, HOUR + 120).failures == 1
    assert tidy(tmp_path, HOUR + 120).failures == 0
    assert (tmp_path / "compute" / f"{HOUR}.live.bad").exists()
    assert tidy(tmp_path, HOUR + 8 * 86_400).removed >= 1  # and ages away


def test_spools_count_in_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, HOUR, 60)
    fill(tmp_path, HOUR + 60, 60)
    fill(tmp_path, HOUR + 120, 60)  # being written

    def never(*_: object) -> int:
        raise ValueError("cannot be")

    monkeypatch.setattr(segments, "write", never)
    done = tidy(tmp_path, HOUR + 120, Keep(mib=0.0))
    assert done.removed == 2
    assert list(spans(tmp_path / "compute", ".live")) == [HOUR + 120]
    assert done.size_bytes == (tmp_path / "compute" / f"{HOUR + 120}.live").stat().st_size


def test_what_failed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for minute in range(7):
        fill(tmp_path, HOUR + 60 * minute, 10)
    monkeypatch.setattr(os, "nice", lambda _by: 0)
    monkeypatch.setattr(segments, "write", lambda *_: 1 / 0)
    assert main([str(tmp_path), "--before", str(HOUR + 3600)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert "ZeroDivisionError" in lines[0]
    assert "7 failures in all" in lines[-1]


def test_the_spool_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, HOUR, 60)
    fill(tmp_path, HOUR + 60, 30)
    assert tidy(tmp_path, HOUR + 60.0).written == 1
    assert list(spans(tmp_path / "compute", ".live")) == [HOUR + 60]


def test_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "name the telemetry folder" in capsys.readouterr().err


def test_storing_loads_no_pandas(tmp_path: Path) -> None:
    """pyarrow would import it wherever it is installed, for half of the CPU time of storing."""
    fill(tmp_path, HOUR, 60)
    code = (
        "import sys; from flyball.monitor.store import main; main(sys.argv[1:]);"
        "print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "--before"]
    for before_s in (HOUR + 60, HOUR + 3600):  # to a segment, then to an hour
        done = subprocess.run([*command, str(before_s)], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["True", "False"]
    assert (tmp_path / "compute" / f"{HOUR}.hour.parquet").exists()


def test_steps() -> None:
    steps: Mapping[str, float] = {
        "a.use_percent": 0.01,
        "a.cpu_s_total": 1e-4,
        "a.energy_j_total": 1e-3,
        "a.x_bytes_total": 0.0,
        "a.zone_c": 0.1,
        "a.loss": 0.0,
        "a.clock_mhz": 1.0,
    }
    assert {name: segments.step_of(name) for name in steps} == steps
