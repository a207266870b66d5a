"""Pods of openb: golden values, how unusual pods are read, errors with file and row."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.twin.inputs.traces import detect, read_trace

SAMPLE = Path(__file__).parent / "samples" / "openb.csv"
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time"
)
GOOD = "a,4000,1024,1,500,,LS,Succeeded,0,100,0"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "pods.csv"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_sample_is_read_in_full() -> None:
    assert detect(SAMPLE) == "openb"
    notes: list[str] = []
    got = read_trace(SAMPLE, notes=notes)
    assert got.name == "openb.csv"
    assert got.ids.tolist() == ["pod-a", "pod-b", "pod-c", "pod-d", "pod-e"]
    assert got.row.tolist() == [2, 3, 5, 4, 6]
    assert got.submit_us.tolist() == [0, 30e6, 45e6, 60e6, 75e6]
    # From scheduling to deletion; pod-c is there to the last deletion, pod-d never ran.
    assert got.duration_us.tolist() == [110e6, 299.5e6, 625e6, 30e6, 595e6]
    assert got.devices.tolist() == [1, 4, 2, 1, 0]
    assert got.milli.tolist() == [500, 1000, 250, 1000, 1000]
    assert got.cpu_milli.tolist() == [4000, 32000, 6000, 2000, 8000]
    assert got.host_mib.tolist() == [16384, 131072, 0, 8192, 32768]
    assert got.priority.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert got.outcome.tolist() == [
        *(Outcome.COMPLETED, Outcome.FAILED),
        *(Outcome.COMPLETED, Outcome.CANCELLED, Outcome.COMPLETED),
    ]
    assert notes == [
        "1 pods were never scheduled: kept as cancelled, with the time they were there as run time",
        "1 pods have no deletion: they end with the trace",
        "1 pods ask for no GPU: kept as jobs for the host alone",
        "1 pods name GPU models (gpu_spec): ignored",
    ]


def test_a_pod_without_a_gpu_is_a_job_for_the_host(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, GOOD, "b,8000,32768,0,0,,BE,Succeeded,45,645,50")
    notes: list[str] = []
    got = read_trace(path, notes=notes)
    assert got.devices.tolist() == [1, 0]
    assert got.milli.tolist() == [500, 1000]
    assert got.cpu_milli.tolist() == [4000, 8000]
    assert got.host_mib.tolist() == [1024, 32768]
    assert notes == ["1 pods ask for no GPU: kept as jobs for the host alone"]


def test_the_first_column_may_be_called_pod_and_others_be_absent(tmp_path: Path) -> None:
    header = "pod,cpu_milli,num_gpu,gpu_milli,creation_time"
    got = read_trace(written(tmp_path, header, "a,1000,1,300,5", "b,2000,2,1000,9"))
    assert got.ids.tolist() == ["a", "b"]
    assert got.host_mib.tolist() == [0, 0]
    assert got.priority.tolist() == [0.0, 0.0]
    assert got.outcome.tolist() == [Outcome.CANCELLED] * 2
    assert got.duration_us.tolist() == [4e6, 0.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("b,1,1,1,lots,,LS,Succeeded,0,9,0", "row 3: gpu_milli = 'lots'"),
        ("b,1,1,1,1001,,LS,Succeeded,0,9,0", "row 3: gpu_milli = '1001' is outside 0 to 1000"),
        ("b,1,1,1.5,500,,LS,Succeeded,0,9,0", "row 3: num_gpu = '1.5'"),
        ("b,-1,1,1,500,,LS,Succeeded,0,9,0", "row 3: cpu_milli = '-1'"),
        ("b,1,1,2,0,,LS,Succeeded,0,9,0", "row 3: gpu_milli = '0' of each GPU, and num_gpu is not"),
        ("b,0,0,0,0,,LS,Succeeded,0,9,0", "row 3: num_gpu = '0' asks for nothing"),
        ("b,1,1,1,500,,LS,Succeeded,20,9,20", "row 3: deletion_time = '9.0' is before the pod was"),
        ("b,1,1,1,500,,LS,Succeeded,,9,0", "row 3: creation_time"),
        ("a,1,1,1,500,,LS,Succeeded,0,9,0", "row 3: name = 'a'"),
        ("b,1,1,1", "row 3"),
    ],
)
def test_a_bad_value_is_named_with_file_and_row(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, HEADER, GOOD, row), "openb")
    assert f"pods.csv {message}" in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("column", ["name", "cpu_milli", "num_gpu", "gpu_milli", "creation_time"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, HEADER.replace(column, "else", 1), GOOD), "openb")
    assert "pods.csv" in str(caught.value)
    assert column in str(caught.value)


@pytest.mark.parametrize("lines", [(), (HEADER,)], ids=["nothing", "only a header"])
def test_an_empty_file_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=r"pods\.csv"):
        read_trace(written(tmp_path, *lines), "openb")
