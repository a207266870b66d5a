"""Every fault of a trace gives one clear error with a place and a remedy."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from flyball.core.errors import BadInput, UnknownName
from flyball.core.workload import Workload
from flyball.twin.inputs.traces import READERS, WRITERS, detect, read_trace, table, write_trace
from flyball.twin.inputs.traces.links import find_cycle

HEADER = "job,submit_s,duration_s,num_gpus"
GOOD = "a,0,10,1"


def refused(path: Path, format: str | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        read_trace(path, format)
    message = str(caught.value)
    assert path.name in message
    assert caught.value.remedy
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (HEADER, "has a header but no jobs"),
        (f"{HEADER}\n\n\n", "has a header but no jobs"),
        ("job,submit_s,duration,num_gpus\na,0,1,1", "is it the column 'duration'?"),
        ("job,submit_s,num_gpus\na,0,1", "row 1: no column 'duration_s'"),
        (f"{HEADER},job\n{GOOD},b", "column 'job' appears twice"),
        (f"{HEADER}\n{GOOD}\nb,-5,10,1", "row 3: submit_s = '-5' is negative"),
        (f"{HEADER}\n\na,0,-1,1", "row 3: duration_s = '-1' is negative"),
        (f"{HEADER}\na,0,10,0", "row 2: num_gpus = '0' asks for nothing"),
        (f"{HEADER},cpu_milli,host_gib\n{GOOD},,\nb,0,10,0,0,", "row 3: num_gpus = '0' asks for"),
        (f"{HEADER},cpu_milli\n{GOOD},1.5", "row 2: cpu_milli = '1.5' is not a whole number"),
        (f"{HEADER},host_gib\n{GOOD},-1", "row 2: host_gib = '-1' is negative"),
        (f"{HEADER}\na,0,10,-2", "row 2: num_gpus = '-2' is negative"),
        (f"{HEADER}\na,0,10,1.5", "row 2: num_gpus = '1.5' is not a whole number"),
        (f"{HEADER}\na,0,10,1000001", "row 2: num_gpus = '1000001' is outside"),
        (f"{HEADER}\na,nan,10,1", "row 2: submit_s = 'nan' is not a number"),
        (f"{HEADER}\na,0,inf,1", "row 2: duration_s = 'inf' is not a number"),
        (f"{HEADER}\na,0,1e999,1", "row 2: duration_s = '1e999' is not a number"),
        (f"{HEADER}\na,0,ten,1", "row 2: duration_s = 'ten' is not a number"),
        (f"{HEADER}\na,0,,1", "row 2: duration_s = '' is empty"),
        (f"{HEADER}\na,0,  ,1", "row 2: duration_s = '  ' is not a number"),
        (f"{HEADER}\n,0,1,1", "row 2: job = '' is empty"),
        (f"{HEADER}\na,2e11,10,1", "row 2: submit_s = '2e11' is outside 0 to 1e+11"),
        (f"{HEADER}\n{GOOD}\n{GOOD}", "row 3: job = 'a' is also the id in row 2"),
        (f"{HEADER}\na b,0,1,1", "row 2: job = 'a b' has a space or a semicolon"),
        (f"{HEADER}\n{'x' * 101},0,1,1", "is not a printable name of at most 100"),
        (f"{HEADER}\na\x07,0,1,1", "is not a printable name"),
        (f"{HEADER}\na,0,10", "row 2: 3 fields, the header has 4"),
        (f"{HEADER}\n{GOOD}\nb,0,10,1,9", "row 3: 5 fields, the header has 4"),
        (f"{HEADER},gpu_milli\n{GOOD},0", "row 2: gpu_milli = '0' is outside 1 to 1000"),
        (f"{HEADER},gpu_milli\n{GOOD},1001", "row 2: gpu_milli = '1001' is outside"),
        (f"{HEADER},gpu_milli\n{GOOD},2.5", "row 2: gpu_milli = '2.5' is not a whole number"),
        (f"{HEADER},class\n{GOOD},compute", "did you mean 'compute-intensive'?"),
        (f"{HEADER},outcome\n{GOOD},fialed", "did you mean 'failed'?"),
        (f"{HEADER},memory_gib\n{GOOD},1e7", "row 2: memory_gib = '1e7' is outside"),
        (f"{HEADER},priority\n{GOOD},nan", "row 2: priority = 'nan' is not a number"),
        (f"{HEADER},after\n{GOOD},zz", "row 2: after = 'zz' is not the id of a job"),
        (f"{HEADER},after\njob-1,0,1,1,\nb,0,1,1,job-2", "did you mean 'job-1'?"),
        (f"{HEADER},after\n{GOOD},a", "in a cycle: a -> a"),
        (f"{HEADER},after\na,0,1,1,c\nb,0,1,1,a\nc,0,1,1,b\nd,0,1,1,a", "a -> c -> b -> a"),
        (f"{HEADER},array,array_limit\n{GOOD},x,0", "row 2: array_limit = '0' is outside"),
        (
            f"{HEADER},array,array_limit\n{GOOD},x,2\nb,0,1,1,x,3",
            "row 3: array_limit = '3' but an earlier row of array 'x' has 2",
        ),
        (f'{HEADER}\n"a,0,10,1', "row 2: 1 fields"),
        (f"{HEADER}\n" + "9" * 200_000, "row 2: 1 fields"),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert says in refused(path, "canonical")


def test_no_such_file(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.csv")


def test_a_directory(tmp_path: Path) -> None:
    assert "is a directory" in refused(tmp_path)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(f"{HEADER}\n".encode() + b"caf\xe9,0,1,1\n")
    assert "is not UTF-8 text (byte 0xe9)" in refused(path)


@pytest.mark.parametrize("keep", [3, 12, 60, -9, -1])
def test_cut_gzip(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.csv.gz"
    rows = "\n".join(f"j{i},{i},{i * 7919 % 1000},1" for i in range(500))
    path.write_bytes(gzip.compress(f"{HEADER}\n{rows}\n".encode())[:keep])
    assert "is damaged gzip" in refused(path)


def test_wrong_bytes_in_gzip(tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv.gz"
    data = bytearray(gzip.compress(f"{HEADER}\n{GOOD}\n".encode() * 50))
    data[20] ^= 0xFF
    path.write_bytes(bytes(data))
    refused(path)


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    path = tmp_path / "plain-name.csv"
    path.write_bytes(gzip.compress(f"{HEADER}\n{GOOD}\n".encode()))
    assert len(read_trace(path)) == 1


def test_rows_are_limited_while_streaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_ROWS", 25)
    monkeypatch.setattr(table, "CHUNK_ROWS", 10)
    path = tmp_path / "long.csv"
    path.write_text(HEADER + "".join(f"\nj{i},0,1,1" for i in range(26)))
    assert "26 jobs or more" in refused(path)


def test_chunks_join_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CHUNK_ROWS", 3)
    path = tmp_path / "chunks.csv"
    rows = "".join(f"\nj{i},{i},1,1,t{i % 4}" for i in range(10))
    path.write_text(f"{HEADER},tenant{rows}\nlast,x,1,1,t0")
    assert "row 12: submit_s = 'x'" in refused(path)
    path.write_text(f"{HEADER},tenant{rows}")
    got = read_trace(path)
    assert [got.tenants[code] for code in got.tenant] == [f"t{i % 4}" for i in range(10)]


def test_an_endless_line_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as out:
        for _ in range(64):
            out.write(b"a" * 2**20)
    refused(path)


def test_unknown_formats() -> None:
    with pytest.raises(UnknownName, match="did you mean 'philly'"):
        read_trace("x.csv", "phily")
    with pytest.raises(UnknownName, match="known: canonical, journal, swf"):
        write_trace(Workload.of("x", [0], [1]), "x.csv", "philly")


def test_registries_name_functions_that_exist() -> None:
    from importlib import import_module

    for entry in (*READERS.values(), *WRITERS.values()):
        module, _, function = entry.partition(":")
        assert callable(getattr(import_module(module), function))


def test_detection(tmp_path: Path) -> None:
    samples = Path(__file__).parent / "samples"
    assert detect(samples / "jobs.csv") == "canonical"
    assert detect(samples / "philly.csv") == "philly"
    assert detect(samples / "log.swf") == "swf"


def test_philly_sample() -> None:
    got = read_trace(Path(__file__).parent / "samples" / "philly.csv")
    assert got.ids.tolist() == ["j1", "j0", "j2"]
    assert got.submit_us.tolist() == [10e6, 100e6, 120e6]
    assert got.devices.tolist() == [4, 1, 8]
    assert [got.tenants[code] for code in got.tenant] == ["beta", "alpha", "alpha"]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.csv"
    write_trace(Workload.of("x", [0], [1]), path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="No space left"):
        write_trace(Workload.of("y", [0, 1], [1, 1]), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["jobs.csv"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written"):
        write_trace(Workload.of("x", [0], [1]), tmp_path / "no" / "jobs.csv")


def test_cycles() -> None:
    def pairs(*edges: tuple[int, int]) -> list[int]:
        array = np.array(edges, np.int64).reshape(-1, 2)
        return find_cycle(array[:, 0], array[:, 1])

    assert pairs() == []
    assert pairs((1, 0), (2, 1), (2, 0)) == []
    assert sorted(pairs((0, 1), (1, 2), (2, 0), (3, 0), (0, 9))) == [0, 1, 2]
    chain = [(i + 1, i) for i in range(50_000)]
    assert pairs(*chain) == []
    assert len(pairs(*chain, (0, 50_000))) == 50_001
