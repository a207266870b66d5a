"""`sacct --parsable2`: golden sample, what is left out, local times, faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.workload import Workload
from flyball.twin.inputs.traces import detect, read_trace
from flyball.twin.inputs.traces.slurm import gpus_of, span_s

SAMPLE = Path(__file__).parent / "samples" / "sacct.txt"
WEDNESDAY_8_H = 2 * 86_400 + 8 * 3_600  # from Monday, 29 April 2024
HEADER = "JobID|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES"
GOOD = "1|COMPLETED|2024-05-01T08:00:00|2024-05-01T08:00:00|2024-05-01T09:00:00|3600|60|gres/gpu=1"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "jobs.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def names(workload: Workload, column: str, table: str) -> list[str | None]:
    labels = getattr(workload, table)
    return [labels[code] if code >= 0 else None for code in getattr(workload, column)]


def test_sample() -> None:
    notes: list[str] = []
    got = read_trace(SAMPLE, notes=notes)
    assert got.ids.tolist() == ["108", "100", "101_1", "101_2", "102", "103+0", "104"]
    minutes = np.array([-60, 0, 10, 10, 20, 30, 40])
    assert (got.submit_us / 1e6 - WEDNESDAY_8_H).tolist() == (minutes * 60).tolist()
    assert (got.duration_us / 1e6).tolist() == [90_001, 7200, 30, 600, 3630, 600, 45]
    assert got.devices.tolist() == [1, 2, 1, 1, 32, 4, 1]
    assert got.milli.tolist() == [1000, 1000, 1000, 1000, 1000, 1000, 285]  # two of seven parts
    assert got.memory_mib.tolist() == [0, 0, 0, 0, 0, 0, 10 * 1024]  # never ReqMem: the host's
    assert names(got, "device", "device_names") == [
        None, "A100", "V100-32GB", "V100-32GB", None, None, "A100",
    ]  # fmt: skip
    assert names(got, "tenant", "tenants") == [
        "chat", "vision", "vision", "vision", "speech", "speech", "chat",
    ]  # fmt: skip
    assert names(got, "user", "users") == ["eve", "ann", "ann", "ann", "bob", "bob", "eve"]
    estimates = [2 * 86_400, 86_400, 7200, 7200, 3600, np.nan, np.nan]
    assert np.array_equal(got.estimate_us / 1e6, estimates, equal_nan=True)
    assert (got.limit_us / 1e6).tolist() == [0, 0, 0, 0, 3600, 0, 0]  # only the one it killed
    assert got.priority.tolist() == [0] * 7
    assert [Outcome(code).name for code in got.outcome] == [
        "COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "FAILED", "FAILED", "FAILED",
    ]  # fmt: skip
    assert got.row.tolist() == [16, 2, 5, 6, 8, 9, 11]
    assert notes == [
        "sacct.txt: 2 jobs left out: no GPU, and the twin schedules devices",
        "sacct.txt: 1 jobs left out: never started",
        "sacct.txt: 1 jobs left out: not ended (pending)",
        "sacct.txt: 1 jobs left out: not ended (running)",
        "sacct.txt: 1 earlier attempts folded into the last one",
        "sacct.txt: 1 jobs could start only later than submitted (dependency, array limit or "
        "begin time); the twin takes them from submission",
        "sacct.txt: 1 parts of heterogeneous jobs taken as jobs of their own",
        "sacct.txt: jobs on devices the catalogue does not have: b300 (1); taken as jobs that "
        "name no device type",
    ]


def test_without_gpus_devices_are_cores(tmp_path: Path) -> None:
    notes: list[str] = []
    row = GOOD.replace("gres/gpu=1", "billing=8,cpu={},mem=4G")
    lines = [row.format(8), "2" + row.format(128)[1:], "3" + GOOD[1:].replace("gpu=1", "gpu=0")]
    got = read_trace(written(tmp_path, HEADER, *lines), notes=notes)
    assert got.devices.tolist() == [8, 128]
    assert names(got, "device", "device_names") == ["CPU1", "CPU1"]
    assert notes == [
        "jobs.txt: no job has a GPU: a device of a job is a core",
        "jobs.txt: 1 jobs left out: no GPU, and the twin schedules devices",
    ]
    notes.clear()
    mixed = read_trace(written(tmp_path, HEADER, *lines, "4" + GOOD[1:]), notes=notes)
    assert mixed.ids.tolist() == ["4"]
    assert notes == ["jobs.txt: 3 jobs left out: no GPU, and the twin schedules devices"]


def test_bars_at_the_end_of_lines(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "|", GOOD + "|")
    assert detect(path) == "sacct"
    assert read_trace(path).ids.tolist() == ["1"]


def test_seconds_since_1970(tmp_path: Path) -> None:
    row = "1|COMPLETED|1714550400|1714550400|1714554000|3600|60|gres/gpu=1"
    assert read_trace(written(tmp_path, HEADER, row)).submit_us[0] == WEDNESDAY_8_H * 1_000_000


@pytest.mark.parametrize(
    ("start", "end", "duration_s", "notes"),
    [
        ("08:00:00", "09:30:00", 5400, 0),
        ("02:50:00", "02:10:00", 1200, 1),  # 2:50 summer time to 2:10 winter time
        ("02:50:00", "03:10:00", 1200, 0),  # or 80 minutes: nobody can tell
    ],
)
def test_the_clock_is_set_back(
    tmp_path: Path, start: str, end: str, duration_s: int, notes: int
) -> None:
    day = "2024-10-27"
    path = written(
        tmp_path,
        "JobID|State|Submit|Start|End|AllocTRES",
        f"1|COMPLETED|{day}T02:55:00|{day}T{start}|{day}T{end}|gres/gpu=1",
    )
    said: list[str] = []
    assert read_trace(path, notes=said).duration_us[0] == duration_s * 1e6
    assert len(said) == notes


def test_elapsed_is_believed_before_the_clock(tmp_path: Path) -> None:
    row = (
        "1|COMPLETED|2024-10-27T02:00:00|2024-10-27T02:50:00|2024-10-27T02:10:00|1200|60|gres/gpu=1"
    )
    assert read_trace(written(tmp_path, HEADER, row)).duration_us[0] == 1200e6


def test_jobs_submitted_in_the_hour_that_comes_twice_are_sorted_as_printed(tmp_path: Path) -> None:
    first = GOOD.replace("2024-05-01T08:00:00", "2024-10-27T02:30:00")
    later = first.replace("1|", "2|", 1).replace("T02:30", "T02:10")
    got = read_trace(written(tmp_path, HEADER, first, later))
    assert got.ids.tolist() == ["2", "1"]


def test_a_requested_gpu_counts_where_none_was_recorded_as_allocated(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "JobIDRaw|State|Submit|Elapsed|ReqTRES|AllocTRES",
        "7|COMPLETED|2024-05-01T08:00:00|01:00|cpu=1,gres/gpu:t4=3|",
    )
    got = read_trace(path)
    assert got.devices.tolist() == [3]
    assert got.duration_us.tolist() == [60e6]
    assert names(got, "device", "device_names") == ["T4"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["JobID|Submit|State|AllocTRES"], "row 1: no column 'ElapsedRaw'"),
        (["JobID|Submit|Elapsed|AllocTRES"], "row 1: no column 'State'"),
        (["JobID|Submit|Elapsed|State"], "row 1: no column 'AllocTRES'"),
        ([HEADER + "|State"], "row 1: column 'state' appears twice"),
        ([HEADER], "has no GPU job that ran and ended"),
        ([HEADER, GOOD.replace("gpu=1", "gpu=0")], "1 jobs left out: no GPU"),
        ([HEADER, GOOD + "|more|yet"], "row 2: 10 fields, the header has 8"),
        ([HEADER, "", GOOD.replace("|2024-05-01T08", "|2024-05-41T08", 1)],
         "row 3: submit = '2024-05-41T08:00:00' is not a time"),
        ([HEADER, GOOD.replace("|3600|", "|-5|")], "row 2: elapsedraw = '-5' is not a number"),
        ([HEADER, GOOD.replace("|3600|", "|1e99|")], "row 2: elapsedraw = '1e99' is not a number"),
        ([HEADER, GOOD.replace("|3600|", "|999999999999|")],
         "row 2: run time = '999999999999.0' is outside"),
        ([HEADER, GOOD.replace("|60|", "|soon|")], "row 2: timelimitraw = 'soon' is not"),
        ([HEADER, GOOD.replace("gpu=1", "gpu=x")], "row 2: alloctres = 'gres/gpu=x' has a count"),
        ([HEADER, GOOD.replace("gpu=1", "gpu=9999999")], "row 2: devices = '9999999' is outside"),
        (["JobID|State|Submit|Start|End|AllocTRES",
          "1|FAILED|2024-05-01T08:00:00|2024-05-01T08:00:00|2024-05-01T06:00:00|gres/gpu=1"],
         "row 2: end = '2024-05-01T06:00:00' is before its start"),
        ([HEADER, GOOD.replace("1|", "|", 1)], "row 2: job = '' is not a printable name"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, *lines), "sacct")
    assert says in str(caught.value)
    assert "jobs.txt" in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-00:00:00", 86_400), ("2-01:02:03", 176_523), ("01:02:03", 3723), ("02:03", 123),
        ("00:01.500", 1.5), ("UNLIMITED", None), ("Partition_Limit", None), ("", None),
    ],
)  # fmt: skip
def test_spans(text: str, seconds: float | None) -> None:
    assert span_s(text) == seconds


def test_gpu_entries() -> None:
    assert gpus_of("billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,gres/gpumem=4,mem=64G") == (
        ("a100", 2),
        ("", 2),
    )
    assert gpus_of("cpu=8,node=1") == ()
