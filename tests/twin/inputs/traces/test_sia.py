"""Workloads of Pollux and Sia: run times worked out by hand, parts, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.errors import BadInput, DataAbsent
from flyball.core.shared_data import shared_data
from flyball.twin.inputs.traces import detect, read_trace

SAMPLES = Path(__file__).parent / "samples"
HEADER = "name,time,application,num_replicas,batch_size"
GOOD = "a,0,bert,2,48"


def test_sample_is_read_in_full() -> None:
    assert detect(SAMPLES / "sia.csv") == "sia"
    got = read_trace(SAMPLES / "sia.csv")
    assert got.name == "sia.csv"
    assert got.ids.tolist() == ["text-0", "speech-1", "film-2", "text-3"]
    assert got.submit_us.tolist() == [10e6, 30.5e6, 90e6, 95e6]
    assert got.devices.tolist() == [8, 1, 1, 8]
    assert [got.models[code] for code in got.model] == [
        "bert (batch size 384)",
        "deepspeech2 (batch size 320)",
        "ncf (batch size 32768)",
        "bert (batch size 384)",
    ]
    assert [got.device_names[code] for code in got.device] == ["T4"] * 4
    assert got.row.tolist() == [3, 2, 4, 5]
    # Steps at the first batch size over the gain, times the time of a step.
    bert_s = 14774 * (755 * 12 / 384 + 1) / 756 * (3 * 0.9214 + 1.6800)
    speech_s = 28536 * (51.7 * 20 / 320 + 1) / 52.7 * 4 * (80 * 0.0335)
    film_s = 194174 * (5981 * 256 / 32768 + 1) / 5982 * (0.00753 + 32768 * 4.6e-7)
    assert got.duration_us / 1e6 == pytest.approx([bert_s, speech_s, film_s, bert_s], rel=1e-4)
    assert bert_s == pytest.approx(2140, abs=5)


def test_a_part_of_a_file_of_several() -> None:
    path = SAMPLES / "sia-parts.csv"
    assert detect(path) == "sia"
    got = read_trace(f"{path}#quiet/1")
    assert got.name == "sia-parts.csv#quiet/1"
    assert got.ids.tolist() == ["b", "a"]
    assert got.row.tolist() == [5, 2]
    assert got.models == ("cifar10 (batch size 128)", "imagenet (batch size 3200)")
    assert got.duration_us[1] / 1e6 == pytest.approx(39062 * (0.0081 + 128 * 0.000788))
    assert len(read_trace(f"{path}#busy/1")) == 1


def test_a_part_must_be_named_and_exist(tmp_path: Path) -> None:
    path = SAMPLES / "sia-parts.csv"
    with pytest.raises(BadInput) as none:
        read_trace(path)
    assert "holds 3 workloads; name one, e.g. sia-parts.csv#quiet/1" in str(none.value)
    assert "it has quiet/1, quiet/2, busy/1" in str(none.value)
    with pytest.raises(BadInput, match=r"unknown workload of .*did you mean 'busy/1'"):
        read_trace(f"{path}#busy/2")
    for one in ("sia.csv", "jobs.csv"):
        with pytest.raises(BadInput, match="is one workload and has no part 'a/1'"):
            read_trace(f"{SAMPLES / one}#a/1")
    with pytest.raises(BadInput, match=r"none\.csv does not exist"):
        read_trace(tmp_path / "none.csv#a/1")


def test_a_file_may_have_the_mark_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run#7.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n")
    assert read_trace(path).name == "run#7.csv"
    assert read_trace(path).ids.tolist() == ["a"]


def test_names_are_optional(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("time,application,num_replicas,batch_size\n9,bert,1,12\n4,bert,1,12\n")
    got = read_trace(path)
    assert got.ids.tolist() == ["j1", "j0"]
    assert got.duration_us[0] == pytest.approx(14774 * (0.223 + 12 * 0.0582) * 1e6, abs=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (HEADER, "has a header but no jobs"),
        (f"{HEADER.replace('time', 'when')}\n{GOOD}", "row 1: no column 'time'"),
        ("name,time,application,num_replicas\na,0,bert,2", "row 1: no column 'batch_size'"),
        (f"{HEADER}\n{GOOD}\nb,-1,bert,2,48", "row 3: time = '-1' is negative"),
        (f"{HEADER}\na,soon,bert,2,48", "row 2: time = 'soon' is not a number"),
        (f"{HEADER}\na,0,bert,0,48", "row 2: num_replicas = '0' is outside 1 to 1e+06"),
        (f"{HEADER}\na,0,bert,-2,48", "row 2: num_replicas = '-2' is negative"),
        (f"{HEADER}\na,0,bert,2,", "row 2: batch_size = '' is empty"),
        (f"{HEADER}\na,0,bert,2,4.5", "row 2: batch_size = '4.5' is not a whole number"),
        (f"{HEADER}\n{GOOD}\nb,0,bert,2,1000", "row 3: batch_size = '1000' is outside 12 to 384"),
        (f"{HEADER}\na,0,bert,2,8", "row 2: batch_size = '8' is outside 12 to 384"),
        (f"{HEADER}\n{GOOD}\nb,0,berd,2,48", "unknown application in "),
        (f"{HEADER}\n{GOOD}\nb,0,berd,2,48", "row 3 'berd'; did you mean 'bert'?"),
        (f"{HEADER}\na,0,ncf,2,256", "num_replicas = '2' but ncf was measured on one T4 only"),
        (f"{HEADER}\n{GOOD}\n{GOOD}", "row 3: name = 'a' is also the id in row 2"),
        (f"{HEADER}\n{GOOD}\nb,0,bert", "row 3: 3 fields, the header has 5"),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(path, "sia")
    message = str(caught.value)
    assert says in message
    assert "bad.csv" in message
    assert caught.value.remedy


def test_every_published_workload_is_read() -> None:
    try:
        path = shared_data("sia_pollux", "workloads.csv.gz")
    except DataAbsent as absent:
        pytest.skip(f"the workloads are not on this machine: {absent}")
    sizes = {"philly": (8, 160), "saturn": (10, 160), "newtrace": (10, 960)}
    for family, (count, jobs) in sizes.items():
        for number in range(1, count + 1):
            got = read_trace(f"{path}#{family}/{number}")
            assert len(got) == jobs
            assert (got.duration_us > 60e6).all()
            assert (got.duration_us < 48 * 3600e6).all()
