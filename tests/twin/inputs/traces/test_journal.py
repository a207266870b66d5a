"""The journal: golden sample, exact round trips, a run of the twin, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.twin_cases import group, make

from flyball.core.cluster import Cluster
from flyball.core.codes import Outcome
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.workload import COLUMNS, JobClass, Workload
from flyball.twin.inputs.traces import detect, read_trace, write_trace
from flyball.twin.inputs.traces.journal_write import write

SAMPLES = Path(__file__).parent / "samples"
HEAD = '{"flyball_journal": 1}'
SUBMITTED = '{"event": "submitted", "time_s": 1, "job": "a", "devices": 1}'


def assert_same(one: Workload, other: Workload, *but: str) -> None:
    """Everything a workload holds, to the last bit, but the rows of files."""
    for name in COLUMNS:
        if name not in ("row", *but):
            left, right = getattr(one, name), getattr(other, name)
            assert left.dtype.kind == right.dtype.kind, name
            assert np.array_equal(left, right, equal_nan=name == "estimate_us"), name
    for name in ("name", "models", "device_names", "tenants", "users", "group_limits"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.after_job.tolist() == other.after_job.tolist()
    assert one.after_on.tolist() == other.after_on.tolist()


def test_sample() -> None:
    notes: list[str] = []
    got = read_trace(SAMPLES / "journal.jsonl", notes=notes)
    assert got.name == "a small day"
    assert got.ids.tolist() == ["a", "b", "c"]
    assert got.submit_us.tolist() == [0, 10_500_000, 20_000_000]
    # c ran 100 - 10, 30 - 30 and 50.5 seconds.
    assert got.duration_us.tolist() == [7_200_250_000, 30e6, 140_500_000]
    assert got.devices.tolist() == [8, 1, 2]
    assert got.milli.tolist() == [1000, 250, 1000]
    assert got.memory_mib.tolist() == [14_848, 0, 0]
    assert got.priority.tolist() == [2, 0, 0]
    assert got.kind.tolist() == [JobClass.COMPUTE_INTENSIVE, -1, -1]
    assert got.models == ("ResNet-50 (batch size 64)",)
    assert [got.device_names[code] if code >= 0 else None for code in got.device] == [
        "V100", None, "P100",
    ]  # fmt: skip
    assert got.tenants == ("vision", "chat", "new one")
    assert got.tenant.tolist() == [0, 1, 2]
    assert got.users == ("ann",)
    assert np.array_equal(got.estimate_us, [9000e6, np.nan, np.nan], equal_nan=True)
    assert got.limit_us.tolist() == [0, 60_000_000, 0]
    assert got.group.tolist() == [-1, 0, -1]
    assert got.group_limits == (2,)
    assert got.outcome.tolist() == [Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED]
    assert got.after_job.tolist() == [1, 1]
    assert got.after_on.tolist() == [0, 2]
    assert got.row.tolist() == [2, 3, 4]
    assert notes == [
        "journal.jsonl: 1 events skipped: unknown kind",
        "journal.jsonl: 1 jobs left out: not ended",
        "journal.jsonl: 1 jobs left out: never started",
    ]


@pytest.mark.parametrize("name", ["again.jsonl", "again.jsonl.gz"])
def test_a_canonical_trace_goes_out_and_comes_back(tmp_path: Path, name: str) -> None:
    first = read_trace(SAMPLES / "jobs.csv")
    write_trace(first, tmp_path / name)
    assert detect(tmp_path / name) == "journal"
    assert_same(first, read_trace(tmp_path / name))


def test_what_is_written(tmp_path: Path) -> None:
    workload = Workload.of(
        "two", [0, 1.5], [10, 0.1], [1, 2], tenant=[-1, 0], tenants=("vision",),
        outcome=[0, 2], after_job=np.array([1]), after_on=np.array([0]),
    )  # fmt: skip
    write_trace(workload, tmp_path / "two.jsonl")
    assert (tmp_path / "two.jsonl").read_text().splitlines() == [
        '{"flyball_journal": 1, "name": "two", "tenants": ["vision"]}',
        '{"event": "submitted", "time_s": 0, "job": "j0", "devices": 1, "duration_s": 10}',
        '{"event": "submitted", "time_s": 1.5, "job": "j1", "devices": 2, "duration_s": 0.1, '
        '"outcome": "cancelled", "after": ["j0"], "tenant": "vision"}',
    ]


NAMES = st.text(max_size=8)
IDS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF), min_size=1, max_size=8).filter(
    str.isprintable
)
BIG = 10**17


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    size = draw(st.integers(1, 10))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    named: dict[str, Any] = {}
    for code, table in (
        ("model", "models"), ("device", "device_names"), ("tenant", "tenants"), ("user", "users"),
    ):  # fmt: skip
        listed = tuple(draw(st.lists(NAMES, max_size=3, unique=True)))
        named |= {table: listed, code: column(st.integers(-1, len(listed) - 1))}
    limits = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    pairs = sorted({(job, on) for job, on in draw(st.lists(ends, max_size=9)) if job > on})
    return Workload.of(
        draw(st.text(min_size=1, max_size=20)),
        np.zeros(size),
        0.0,
        column(st.integers(1, 1_000_000)),
        submit_us=sorted(column(st.integers(0, BIG))),
        duration_us=column(st.floats(0, BIG)),
        ids=draw(st.lists(IDS, min_size=size, max_size=size, unique=True)),
        milli=column(st.integers(1, 1000)),
        memory_mib=column(st.integers(0, 10**9)),
        kind=column(st.integers(-1, 4)),
        priority=column(st.floats(-1e300, 1e300)),
        estimate_us=column(st.just(float("nan")) | st.floats(0, BIG)),
        limit_us=column(st.integers(0, BIG)),
        group=column(st.integers(-1, len(limits) - 1)),
        group_limits=limits,
        outcome=column(st.integers(0, 2)),
        start_us=column(st.integers(-1, BIG)),
        end_us=column(st.integers(-1, BIG)),
        after_job=np.array([job for job, _ in pairs], np.int64),
        after_on=np.array([on for _, on in pairs], np.int64),
        **named,
    )


@given(workloads())
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload
) -> None:
    path = tmp_path_factory.mktemp("trip") / "trip.jsonl"
    write_trace(workload, path)
    assert_same(workload, read_trace(path))


def test_a_run_of_the_twin(tmp_path: Path) -> None:
    # One device, shortest remaining first in rounds of 10 s: j0 gives way to j1 at 10 s and
    # goes on when j1's limit of 2 s has killed it; j2 takes no time at all.
    twin = make(
        [group()], [0, 5, 100], [30, 3, 0],
        knobs=Knobs(
            order=Order.REMAINING, backfill=Backfill.SKIP, preempt=Preempt.ROUNDS, round_s=10.0,
            margin_s=0.0,
        ),
        effects=Effects(restart_s=(0.0, 0.0, 0.0)), limit_us=[0, 2_000_000, 0],
    )  # fmt: skip
    results = twin.replay()
    workload = Workload.of(
        "case", [0, 5, 100], [30, 3, 0], 1, kind=JobClass.COMPUTE_INTENSIVE,
        limit_us=[0, 2_000_000, 0],
    )  # fmt: skip
    path = tmp_path / "run.jsonl"
    write(workload, path, results, Cluster("case", (group(),)))
    lines = [json.loads(line) for line in path.read_text().splitlines()][1:]
    events = [(line["event"], line["time_s"], line["job"]) for line in lines]
    assert events == [
        ("submitted", 0, "j0"), ("started", 0, "j0"), ("submitted", 5, "j1"),
        ("started", 10, "j1"), ("ended", 12, "j1"), ("ended", 32, "j0"),
        ("submitted", 100, "j2"), ("started", 100, "j2"), ("ended", 100, "j2"),
    ]  # fmt: skip
    assert lines[1] == {"event": "started", "time_s": 0, "job": "j0", "attempt": 1}
    assert lines[4] == {
        "event": "ended", "time_s": 12, "job": "j1", "outcome": "timeout", "attempts": 1,
        "preemptions": 0, "failures": 0, "pool": "n", "device": "V100",
    }  # fmt: skip
    assert lines[5]["attempts"] == 2
    assert lines[5]["preemptions"] == 1
    got = read_trace(path)
    assert_same(workload, got, "start_us", "end_us")
    assert got.start_us.tolist() == results.first_start_us.tolist()
    assert got.end_us.tolist() == results.end_us.tolist()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"flyball_journal": 2}'], "row 1: flyball_journal = '2' is not 1"),
        (["[]"], "row 1: is not an object"),
        ([HEAD], "has no job that ended"),
        ([HEAD, SUBMITTED], "has no job that ended"),
        ([HEAD, "{}"], "row 2: event = 'None' is not there"),
        ([HEAD, "", "{oops"], "row 3: is not JSON"),
        (['{"flyball_journal": 1, "users": [3]}'], "row 1: users = '[3]' is not a list of names"),
        (['{"flyball_journal": 1, "array_limits": [0]}'], "row 1: array_limits = '[0]'"),
        ([HEAD, SUBMITTED, SUBMITTED], "row 3: job = 'a' is also the id in row 2"),
        ([HEAD, SUBMITTED.replace('"a"', '""')], "row 2: job = '' is not a printable name"),
        ([HEAD, SUBMITTED.replace('"a"', "7")], "row 2: job = '7' is not a text"),
        ([HEAD, SUBMITTED.replace("1,", "-1,")], "row 2: time_s = '-1' is outside 0 to 1e+11"),
        ([HEAD, SUBMITTED.replace("1,", "1e9999,")], "row 2: time_s = '1E+9999' is outside"),
        ([HEAD, SUBMITTED.replace("1,", '"x",')], "row 2: time_s = 'x' is not a number"),
        ([HEAD, SUBMITTED.replace("1}", "-1}")], "row 2: devices = '-1' is outside 0 to 1e+06"),
        ([HEAD, SUBMITTED.replace("1}", "1.5}")], "row 2: devices = '1.5' is not a whole number"),
        ([HEAD, SUBMITTED.replace("1}", "true}")], "row 2: devices = 'True' is not a number"),
        ([HEAD, SUBMITTED.replace("}", ', "after": "a"}')], "after = 'a' is not a list of ids"),
        ([HEAD, SUBMITTED.replace("}", ', "after": ["zz"]}')],
         "row 2: after = 'zz' is not the id of a job"),
        ([HEAD, SUBMITTED.replace("}", ', "after": ["a"], "duration_s": 1}')], "cycle: a -> a"),
        ([HEAD, SUBMITTED.replace("}", ', "array": 0}')], "row 2: array = '0' is outside 0 to -1"),
        ([HEAD, SUBMITTED.replace("}", ', "class": "mixd"}')], "did you mean 'mixed'?"),
        ([HEAD, '{"event": "ended", "time_s": 1, "job": "a"}'], "row 2: job = 'a' was not submit"),
        ([HEAD, SUBMITTED, '{"event": "started", "time_s": 9, "job": "a"}',
          '{"event": "ended", "time_s": 8, "job": "a"}'], "row 4: time_s = '8' is before its"),
        ([HEAD, SUBMITTED, '{"event": "ended", "time_s": 9, "job": "a"}',
          '{"event": "started", "time_s": 9, "job": "a"}'], "row 4: job = 'a' has already ended"),
        ([HEAD, SUBMITTED, '{"event": "ended", "time_s": 9, "job": "a", "outcome": "fine"}'],
         "unknown outcome in"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, lines: list[str], says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(BadInput) as caught:
        read_trace(path, "journal")
    assert says in str(caught.value)
    assert "bad.jsonl" in str(caught.value)
    assert caught.value.remedy


def test_a_wait_on_a_job_left_out_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    other = SUBMITTED.replace('"a"', '"b"').replace("}", ', "duration_s": 5, "after": ["a"]}')
    path.write_text("\n".join([HEAD, SUBMITTED, other]))
    notes: list[str] = []
    assert read_trace(path, notes=notes).ids.tolist() == ["b"]
    assert notes == [
        "j.jsonl: 1 jobs left out: not ended",
        "j.jsonl: 1 waits on jobs left out dropped",
    ]
