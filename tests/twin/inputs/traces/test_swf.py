"""SWF: golden sample, what is skipped, round trips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.workload import Workload
from flyball.twin.inputs.traces import read_trace, swf, write_trace

SAMPLE = Path(__file__).parent / "samples" / "log.swf"
LINE = "1 0 -1 10 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n"


def test_sample() -> None:
    notes: list[str] = []
    got = read_trace(SAMPLE, notes=notes)
    assert got.ids.tolist() == ["1", "2", "4"]
    assert got.submit_us.tolist() == [0, 10e6, 20e6]
    assert got.duration_us.tolist() == [100e6, 50e6, 0]
    assert got.devices.tolist() == [4, 2, 1]  # allocated, else requested
    assert got.estimate_us[[0, 2]].tolist() == [3600e6, 60e6]
    assert np.isnan(got.estimate_us[1])
    assert got.memory_mib.tolist() == [2048, 0, 2]
    assert got.outcome.tolist() == [Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED]
    assert [got.users[code] for code in got.user] == ["7", "7", "8"]
    assert got.tenant.tolist() == [0, -1, 1]
    assert got.tenants == ("2", "3")
    assert list(zip(got.after_job, got.after_on, strict=True)) == [(1, 0)]
    assert notes == [
        "log.swf: 1 lines skipped: parts of a job (status 2, 3, 4)",
        "log.swf: 2 lines skipped: never ran (run time or processors unknown)",
        "log.swf: 1 waits on skipped lines dropped",
    ]


@pytest.mark.parametrize("name", ["again.swf", "again.swf.gz"])
def test_sample_goes_out_and_comes_back(tmp_path: Path, name: str) -> None:
    first = read_trace(SAMPLE)
    write_trace(first, tmp_path / name)
    again = read_trace(tmp_path / name)
    for column in ("ids", "submit_us", "duration_us", "devices", "memory_mib", "outcome"):
        assert np.array_equal(getattr(first, column), getattr(again, column)), column
    assert np.array_equal(first.estimate_us, again.estimate_us, equal_nan=True)
    assert first.tenants == again.tenants
    assert first.tenant.tolist() == again.tenant.tolist()
    assert first.after_on.tolist() == again.after_on.tolist()


def test_written_lines_have_18_whole_numbers(tmp_path: Path) -> None:
    workload = Workload.of(
        "x", [0.4, 7.6], [1.5, 2], [1, 2], ids=["a", "b"], tenant=[0, -1], tenants=("vision",)
    )
    write_trace(workload, tmp_path / "x.swf")
    lines = (tmp_path / "x.swf").read_text().splitlines()
    assert lines[0] == "; Version: 2.2"
    assert "; Group: 1 vision" in lines
    assert lines[-2:] == [
        "1 0 -1 2 1 -1 -1 1 -1 -1 1 -1 1 -1 -1 -1 -1 -1",
        "2 8 -1 2 2 -1 -1 2 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
    ]


def test_content_is_recognised_without_the_name(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(LINE)
    assert read_trace(path).ids.tolist() == ["1"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**6),
            st.integers(0, 2), st.integers(0, 10**6),
        ),
        min_size=1,
        max_size=20,
    )
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_whole_seconds_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int, int]]
) -> None:
    submit, duration, devices, outcome, memory = zip(*rows, strict=True)
    first = Workload.of(
        "drawn", submit, duration, devices, outcome=outcome, memory_mib=memory,
        ids=[str(i + 1) for i in range(len(rows))],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("trip") / "trip.swf"
    write_trace(first, path)
    again = read_trace(path)
    for column in ("ids", "submit_us", "duration_us", "devices", "memory_mib", "outcome"):
        assert np.array_equal(getattr(first, column), getattr(again, column)), column


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("; MaxJobs: 1000000000\n" + LINE, "1,000,000,000 jobs or more, the limit is 20,000,000"),
        ("; only comments\n", "has no jobs"),
        ("1 2 3\n", "row 1: 3 fields, SWF has 18"),
        (LINE.replace("1 0 ", "1 -5 "), "row 1: submit time = '-5' is negative"),
        (LINE.replace("1 0 ", "1 x "), "row 1: submit time = 'x' is not a number"),
        (LINE.replace(" 10 ", " nan "), "row 1: run time = 'nan' is not a number"),
        (LINE.replace(" 10 ", " 1e12 "), "row 1: run time = '1e12' is outside -1 to 1e+11"),
        (LINE.replace(" 10 1 ", " 10 1.5 "), "allocated processors = '1.5' is not a whole number"),
        (LINE.replace(" 10 1 ", " 10 9999999 "), "allocated processors = '9999999' is outside"),
        (LINE.replace(" 10 ", " -1 "), "has no job that ran"),
        (LINE + LINE, "row 2: job number = '1' is also the id in row 1"),
        (LINE.replace("-1 -1\n", "77 -1\n"), "preceding job = '77' is not a job number"),
        (LINE.replace("-1 -1\n", "1 -1\n"), "wait for each other in a cycle: 1 -> 1"),
    ],
)
def test_bad_lines(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.swf"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(path)
    assert says in str(caught.value)
    assert "bad.swf" in str(caught.value)
    assert caught.value.remedy


def test_rows_are_limited_while_streaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swf, "MAX_ROWS", 5)
    path = tmp_path / "long.swf"
    path.write_text(LINE * 6)
    with pytest.raises(BadInput, match="the limit is"):
        read_trace(path)
