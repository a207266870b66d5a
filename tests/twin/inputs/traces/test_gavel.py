"""Gavel's traces: run times from the measured steps a second, both forms, errors."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from flyball.core.errors import BadInput, DataAbsent
from flyball.core.shared_data import shared_data
from flyball.physics import measured
from flyball.twin.inputs.traces import detect, read_trace

SAMPLES = Path(__file__).parent / "samples"
HEADER = "job,job_type,scale_factor,total_steps,submit_s"
GOOD = "a,A3C,1,100,0"
LINE = "A3C\tcommand\trl\t--max-steps\t0\t100\t1\t1\t-1.0\t0"


def test_own_form() -> None:
    assert detect(SAMPLES / "gavel.trace") == "gavel"
    got = read_trace(SAMPLES / "gavel.trace")
    assert got.ids.tolist() == ["j1", "j0", "j2"]
    assert got.submit_us.tolist() == [12.5e6, 40e6, 60e6]
    assert got.devices.tolist() == [4, 1, 1]
    names = [got.models[code] for code in got.model]
    assert names == ["LM (batch size 5)", "Transformer (batch size 128)", "A3C"]
    assert [got.device_names[code] for code in got.device] == ["V100"] * 3
    assert got.row.tolist() == [2, 1, 3]
    # 126,716 steps at 126.71572 a second, 54,461 at 5.44611, none.
    assert got.duration_us.tolist() == [1000002210, 9999981638, 0]


def test_older_form_and_shockwaves(tmp_path: Path) -> None:
    got = read_trace(SAMPLES / "gavel-older.trace")
    assert got.duration_us[0] == pytest.approx(44261 / 4.42609 * 1e6, abs=1)
    assert got.submit_us.tolist() == [3e6]
    path = tmp_path / "shockwave.trace"
    path.write_text("A3C\tcommand\trl\t--max-steps\t0\t7\t1\tstatic\t1\t-1.000000\t999\t55\n")
    again = read_trace(path)
    assert again.duration_us[0] == pytest.approx(7 / 7.17577 * 1e6, abs=1)
    assert again.submit_us.tolist() == [55e6]


def shockwave_lines(*modes: str) -> str:
    """Lines of Shockwave's form, one for each mode."""
    line = "LM (batch size 5)\tcommand\tlm\t--steps\t1\t126716\t4\t{}\t1\t-1.000000\t1000\t{}\n"
    return "".join(line.format(mode, row) for row, mode in enumerate(modes))


def test_jobs_that_grow_their_batch_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shockwave.trace"
    path.write_text(shockwave_lines("static", "gns", "accordion", "gns"))
    with pytest.raises(BadInput) as caught:
        read_trace(path)
    message = str(caught.value)
    assert "shockwave.trace: 3 of 4 jobs change their batch size as they train" in message
    assert "1 accordion, 2 gns; the first in row 2" in message
    assert "--static-batch" in caught.value.remedy


def test_growing_jobs_are_read_as_static_on_request(tmp_path: Path) -> None:
    path = tmp_path / "shockwave.trace"
    path.write_text(shockwave_lines("static", "gns", "accordion", "gns"))
    notes: list[str] = []
    got = read_trace(path, notes=notes, static_batch=True)
    assert got.duration_us.tolist() == [1000002210] * 4
    assert notes == [
        "shockwave.trace: 3 of 4 jobs change their batch size as they train (1 accordion, 2 gns): "
        "read as if they kept it, so their run times are not those of the recorded training"
    ]


def test_a_mode_without_growth_needs_no_option(tmp_path: Path) -> None:
    path = tmp_path / "shockwave.trace"
    path.write_text(shockwave_lines("static", "static"))
    notes: list[str] = []
    assert len(read_trace(path, notes=notes)) == 2
    assert notes == []


def test_unknown_mode_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shockwave.trace"
    path.write_text(shockwave_lines("static", "elastic"))
    with pytest.raises(BadInput, match="row 2: mode = 'elastic' is not known"):
        read_trace(path)


def test_static_batch_is_for_gavels_traces_only() -> None:
    with pytest.raises(BadInput, match="philly") as caught:
        read_trace(SAMPLES / "philly.csv", static_batch=True)
    assert "--static-batch" in str(caught.value)


def test_csv_form() -> None:
    assert detect(SAMPLES / "gavel.csv") == "gavel"
    got = read_trace(SAMPLES / "gavel.csv")
    assert got.ids.tolist() == ["3", "7"]
    assert got.devices.tolist() == [1, 2]
    assert got.duration_us / 1e6 == pytest.approx([71758 / 7.17577, 741359 / 74.13589])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (HEADER, "has a header but no jobs"),
        ("job,job_type,scale_factor,steps,submit_s\na,A3C,1,1,0", "no column 'total_steps'"),
        (f"{HEADER}\n{GOOD}\nb,A3C,1,many,0", "row 3: total_steps = 'many' is not a number"),
        (f"{HEADER}\na,A3C,1,-5,0", "row 2: total_steps = '-5' is negative"),
        (f"{HEADER}\na,A3C,0,5,0", "row 2: scale_factor = '0' is outside 1 to 1e+06"),
        (f"{HEADER}\n{GOOD}\nb,A4C,1,5,0", "row 3 'A4C'; did you mean 'A3C'?"),
        (f"{HEADER}\n{GOOD}\nb,LM (batch size 6),1,5,0", "unknown job type in "),
        (f"{HEADER}\n{GOOD}\nb,A3C,2,5,0", "but Gavel did not measure A3C on 2 V100; it did on 1"),
        (f"{HEADER}\na,LM:5,3,5,0", "on 3 V100; it did on 1, 2, 4, 8"),
        (f"{HEADER}\n{GOOD}\n{GOOD}", "row 3: job = 'a' is also the id in row 2"),
        (f"{HEADER}\n{GOOD}\nb,A3C", "row 3: 2 fields, the header has 5"),
        (f"{LINE}\n\n{LINE[:20]}", "row 3: 4 fields, a line has 10"),
        ("A3C\tcommand\t3", "row 1: 3 fields, a line has 9 to 12"),
        (f"{LINE}\n{LINE[:-1]}x", "row 2: submit_s = 'x' is not a number"),
        (f"{LINE}\n{LINE[:-1]}-3", "row 2: submit_s = '-3' is negative"),
        (f"{LINE}\n{LINE.replace('100', '')}", "row 2: total_steps = '' is not a number"),
        (f"{LINE}\n{LINE.replace('A3C', 'Llama')}", "row 2 'Llama'"),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(path, "gavel")
    message = str(caught.value)
    assert says in message
    assert "bad.csv" in message
    assert caught.value.remedy


def test_no_job_was_quicker_in_gavels_simulator_than_on_its_fastest_type() -> None:
    try:
        path = shared_data("peer_runs", "gavel_makespan100_jobs.csv.gz")
        times = shared_data("peer_runs", "gavel_makespan100_jct.csv.gz")
    except DataAbsent as absent:
        pytest.skip(f"peer runs are not on this machine: {absent}")
    got = read_trace(path)
    with gzip.open(times, "rt", encoding="utf-8", newline="") as file:
        rows = {
            row.pop("job"): [float(value) for value in row.values()] for row in csv.DictReader(file)
        }
    near = 0
    for i, job in enumerate(got.ids.tolist()):
        key = measured.model_key(got.models[got.model[i]])
        assert key is not None
        speeds = [
            measured.steps_per_s(device, key, int(got.devices[i])) or 0.0
            for device in ("v100", "p100", "k80")
        ]
        shortest_s = got.duration_us[i] / 1e6 * speeds[0] / max(speeds)
        assert min(rows[job]) > 0.999 * shortest_s
        near += min(rows[job]) < 1.05 * shortest_s
    assert near > 10  # and some ran undisturbed, so that the two agree
