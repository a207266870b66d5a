"""The canonical trace: golden sample, round trips, speed of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.workload import COLUMNS, JobClass, Workload
from flyball.twin.inputs.traces import read_trace, write_trace

SAMPLES = Path(__file__).parent / "samples"


def same(one: Workload, other: Workload) -> bool:
    """Equal to the last bit but for rows of files; codes compared by the names they stand for."""
    for name in COLUMNS:
        if name not in ("model", "device", "tenant", "user", "group", "row"):
            left, right = getattr(one, name), getattr(other, name)
            if not np.array_equal(left, right, equal_nan=name == "estimate_us"):
                return False
    return named(one) == named(other) and waits(one) == waits(other)


def named(workload: Workload) -> list[list[str | None]]:
    pairs = (
        (workload.model, workload.models),
        (workload.device, workload.device_names),
        (workload.tenant, workload.tenants),
        (workload.user, workload.users),
    )
    return [[names[code] if code >= 0 else None for code in codes] for codes, names in pairs]


def waits(workload: Workload) -> list[tuple[int, int]]:
    return sorted(zip(workload.after_job.tolist(), workload.after_on.tolist(), strict=True))


def groups(workload: Workload) -> list[tuple[int, ...]]:
    """The members of each group with its limit first."""
    return sorted(
        (limit, *np.flatnonzero(workload.group == group).tolist())
        for group, limit in enumerate(workload.group_limits)
        if (workload.group == group).any()
    )


def test_sample_is_read_in_full() -> None:
    got = read_trace(SAMPLES / "jobs.csv")
    assert got.name == "jobs.csv"
    assert got.ids.tolist() == ["small", "big", "train", "t1", "t2", "t3"]
    assert got.submit_us.tolist() == [0, 60e6, 120.5e6, 200e6, 200e6, 200e6]
    assert got.duration_us.tolist() == [30.25e6, 7200e6, 600e6, 10e6, 10e6, 10e6]
    assert got.devices.tolist() == [1, 8, 2, 1, 1, 1]
    assert got.milli.tolist() == [250, 1000, 1000, 1000, 1000, 1000]
    assert got.memory_mib.tolist() == [1024, 14848, 0, 0, 0, 0]
    assert got.priority.tolist() == [0, 2, -1.5, 0, 0, 0]
    assert got.limit_us.tolist() == [60_000_000, 0, 0, 0, 0, 0]
    assert got.estimate_us[1] == 9000e6
    assert np.isnan(got.estimate_us[[0, 2, 3, 4, 5]]).all()
    assert got.kind.tolist() == [
        JobClass.LATENCY_SENSITIVE, JobClass.COMPUTE_INTENSIVE, JobClass.BANDWIDTH_LIMITED,
        -1, -1, -1,
    ]  # fmt: skip
    assert got.outcome.tolist() == [
        Outcome.COMPLETED, Outcome.FAILED, Outcome.COMPLETED, Outcome.CANCELLED,
        Outcome.COMPLETED, Outcome.COMPLETED,
    ]  # fmt: skip
    assert named(got) == [
        [None, "ResNet-50 (batch size 64)", "LM (batch size 20)", None, None, None],
        [None, "V100", "P100", None, None, None],
        ["chat", "vision, main", "chat", None, None, None],
        ["bob", "ann", "bob", None, None, None],
    ]
    assert waits(got) == [(2, 0), (2, 1), (3, 1), (3, 2)]
    assert got.group.tolist() == [-1, -1, -1, 0, 0, -1]  # an array without a limit is no group
    assert got.group_limits == (2,)


@pytest.mark.parametrize("name", ["again.csv", "again.csv.gz"])
def test_sample_goes_out_and_comes_back(tmp_path: Path, name: str) -> None:
    first = read_trace(SAMPLES / "jobs.csv")
    write_trace(first, tmp_path / name)
    again = read_trace(tmp_path / name)
    assert same(first, again)
    assert groups(first) == groups(again)


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    write_trace(Workload.of("plain", [0, 1.5], [10, 20], [1, 2]), tmp_path / "plain.csv")
    text = (tmp_path / "plain.csv").read_text()
    assert text == "job,submit_s,duration_s,num_gpus\nj0,0,10,1\nj1,1.5,20,2\n"


def test_a_job_for_the_host_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.csv"
    path.write_text(
        "job,submit_s,duration_s,num_gpus,cpu_milli,host_gib\na,0,1,0,1500,\nb,0,1,2,,0.5\n"
    )
    got = read_trace(path)
    assert got.devices.tolist() == [0, 2]
    assert got.cpu_milli.tolist() == [1500, 0]
    assert got.host_mib.tolist() == [0, 512]
    write_trace(got, tmp_path / "again.csv")
    assert same(got, read_trace(tmp_path / "again.csv"))


def test_same_workload_same_bytes(tmp_path: Path) -> None:
    workload = read_trace(SAMPLES / "jobs.csv")
    for name in ("a.csv.gz", "b.csv.gz"):
        write_trace(workload, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_bytes(b"\xef\xbb\xbfjob,submit_s,duration_s,num_gpus\r\na,0,1,2.0\r\n\r\n")
    assert read_trace(path).devices.tolist() == [2]


def test_ids_that_after_cannot_name_are_not_written(tmp_path: Path) -> None:
    odd = Workload.of("odd", [0], [1], 1, ids=["a b"])
    with pytest.raises(BadInput, match="space or a semicolon"):
        write_trace(odd, tmp_path / "odd.csv")
    assert list(tmp_path.iterdir()) == []


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=8)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    size = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    tenants = tuple(draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)))
    limits = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    after = draw(
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=9)
    )
    pairs = sorted({(job, on) for job, on in after if job > on})
    return Workload.of(
        "drawn",
        np.array(column(st.integers(0, 10**15))) / 1e6,
        0.0,
        column(st.integers(1, 1_000_000)),
        duration_us=column(st.integers(0, 10**15)),
        milli=column(st.integers(1, 1000)),
        memory_mib=column(st.integers(0, 10**9)),
        cpu_milli=column(st.integers(0, 10**12)),
        host_mib=column(st.integers(0, 10**9)),
        kind=column(st.integers(-1, 4)),
        tenant=column(st.integers(-1, len(tenants) - 1)),
        tenants=tenants,
        priority=column(st.floats(-1e9, 1e9)),
        estimate_us=column(st.just(float("nan")) | st.integers(0, 10**15)),
        limit_us=column(st.integers(0, 10**15)),
        group=column(st.integers(-1, len(limits) - 1)),
        group_limits=limits,
        outcome=column(st.integers(0, 2)),
        after_job=np.array([job for job, _ in pairs], np.int64),
        after_on=np.array([on for _, on in pairs], np.int64),
    )


@given(workloads())
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload
) -> None:
    path = tmp_path_factory.mktemp("trip") / "trip.csv"
    write_trace(workload, path)
    again = read_trace(path, "canonical")
    assert same(workload, again)
    assert groups(workload) == groups(again)


def test_two_hundred_thousand_rows(tmp_path: Path) -> None:
    """How long it takes is in `flyball bench parts`."""
    many = Workload.of("many", np.arange(200_000), 60.0, 1)
    path = tmp_path / "many.csv"
    write_trace(many, path)
    assert same(many, read_trace(path))
