"""User errors give one line and exit code 2, no traceback and no partial files."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.named_pipes import open_for_reader
from tests.until import WAIT_S

from flyball.cli.main import run

HEADER = "job,submit_s,duration_s,num_gpus"
GOOD = f"{HEADER}\na,0,10,1\nb,5,10,2\n"


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """Return the one line on stderr of a command that must fail."""
    assert run([str(argument) for argument in arguments]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1, shown.err
    assert shown.err.startswith("flyball: ")
    return shown.err


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,submit_s,num_gpus\na,0,1\n", ["duration_s"]),
        (f"{HEADER}\na,-5,10,1\n", ["row 2", "submit_s"]),
        (f"{HEADER}\na,0,-10,1\n", ["row 2", "duration_s"]),
        (f"{HEADER}\na,0,nan,1\n", ["row 2", "duration_s"]),
        (f"{HEADER}\na,0,inf,1\n", ["row 2", "duration_s"]),
        (f"{HEADER}\na,0,ten,1\n", ["row 2", "duration_s"]),
        (f"{HEADER}\na,0,10,0\n", ["row 2", "num_gpus"]),
        (f"{HEADER}\na,0,10,1\na,1,10,1\n", ["row 3", "a"]),
        (f"{HEADER},after\na,0,10,1,b\nb,0,10,1,a\n", ["a -> b -> a"]),
        (f"{HEADER},after\na,0,10,1,zz\n", ["row 2", "zz"]),
        (f"{HEADER}\na,0,10,9\n", ["job a", "9 GPUs"]),
        (f"{HEADER}\na,0,10,1000000000000\n", []),
        (f"{HEADER}\n", []),
        ("", []),
        ("\x00\x01\x02", []),
    ],
)
def test_bad_traces(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: list[str]
) -> None:
    path, out = tmp_path / "jobs.csv", tmp_path / "out.csv"
    path.write_text(text)
    cluster = tmp_path / "c.yaml"
    cluster.write_text("nodes: [{device: V100, devices: 8}]")
    line = refused(capsys, "replay", path, "-c", cluster, "-p", "fifo", "--per-job", out)
    assert "jobs.csv" in line
    for word in words:
        assert word in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml", "jobs.csv"]


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = refused(capsys, "replay", tmp_path / "gone.csv", "-c", "five-mixed", "-p", "fifo")
    assert "gone.csv" in line
    line = refused(capsys, "trace", "describe", tmp_path)
    assert str(tmp_path) in line


def test_a_truncated_gzip(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    rows = "".join(f"j{i},{i},{i % 97},1\n" for i in range(5000))
    packed = gzip.compress(f"{HEADER}\n{rows}".encode())
    path.write_bytes(packed[: len(packed) // 2])
    out = tmp_path / "out.csv"
    assert "jobs.csv.gz" in refused(capsys, "trace", "convert", path, out)
    assert not out.exists()


def test_a_claim_of_a_billion_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text("; MaxJobs: 1000000000\n; MaxRecords: 1000000000\n")
    assert "jobs.swf" in refused(capsys, "replay", path, "-c", "five-mixed", "-p", "fifo")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-p", "fifi"], "did you mean 'fifo'"),
        (["-p", "fifo", "--set", "dept=3"], "did you mean 'depth'"),
        (["-p", "fifo", "--set", "depth"], "write --set knob=value"),
        (["-p", "fifo", "--set", "depth=0"], "out of range"),
        (["-p", "srtf", "--set", "place=hold"], "does not go with"),
        (["-p", "fifo", "--seeds", "0"], "--seeds 0 is out of range"),
        (["-p", "fifo", "--seeds", "many"], "--seeds"),
        (["-p", "fifo", "--estimates", "perfect"], "noisy:0.5"),
        (["-p", "fifo", "--estimates", "noisy:nan"], "noisy:0.5"),
        (["-p", "fifo", "--mtbf-h", "-1"], "mtbf_h"),
        (["-p", "fifo", "--load", "0"], "--load"),
        (["-p", "fifo", "--load", "nan"], "--load"),
        (["-p", "fifo", "--limit-jobs", "0"], "--limit-jobs"),
        (["-p", "fifo", "--workers", "-1"], "--workers"),
        (["-p", "fifo", "--format", "swff"], "did you mean 'swf'"),
        (["-p", "fifo", "--figure", "out.gif"], "use .png or .svg or .pdf"),
        (["-p", "fifo", "--per-job", "no/such/folder/out.csv"], "no folder"),
        (["-p", "fifo", "--polcy", "x"], "--policy"),
    ],
)
def test_bad_options(
    capsys: pytest.CaptureFixture[str], trace: Path, options: list[str], words: str
) -> None:
    assert words in refused(capsys, "replay", trace, "-c", "five-mixed", *options)


def test_bad_clusters(capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path) -> None:
    line = refused(capsys, "replay", trace, "-c", "five-mixd", "-p", "fifo")
    assert "did you mean 'five-mixed'" in line
    bad = tmp_path / "bad.yaml"
    bad.write_text("nodes:\n- {device: V100\n- 5")
    line = refused(capsys, "replay", trace, "-c", bad, "-p", "fifo")
    assert "bad.yaml line" in line
    assert "--cluster" in refused(capsys, "replay", trace)


def test_outputs_that_cannot_be(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    line = refused(capsys, "replay", trace, "-c", "five-mixed", "--per-job", tmp_path)
    assert "is a folder" in line
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name in ("--per-job", "--figure"):
        refused(capsys, "replay", trace, "-c", "five-mixed", name, pipe)
    assert "ordinary file" in refused(capsys, "trace", "convert", trace, pipe)
    assert pipe.is_fifo()
    assert "known:" in refused(capsys, "trace", "generate", "no-such", tmp_path / "x.csv")
    assert "--days" not in refused(capsys, "nonsense")
    for option in (("--days", "-1"), ("--days", "nan"), ("--devices", "0"), ("--seed", "-1")):
        refused(capsys, "trace", "generate", "mixed", tmp_path / "x.csv", *option)
    assert not (tmp_path / "x.csv").exists()
    blocked = tmp_path / "file"
    blocked.write_text("")
    refused(capsys, "demo", "--out", blocked / "sub")


def test_a_failed_run_leaves_an_old_file_as_it_was(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, out = tmp_path / "jobs.csv", tmp_path / "out.csv"
    path.write_text(f"{HEADER}\na,0,10,99\n")
    out.write_text("precious")
    refused(capsys, "replay", path, "-c", "philly-8x8", "-p", "fifo", "--per-job", out)
    assert out.read_text() == "precious"


def test_names_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "trace", "describe", "x\nflyball: all is well\x1b[31m")
    assert "\x1b" not in line


@pytest.mark.parametrize("arguments", [["policies"], ["clusters", "--json"]])
def test_a_broken_pipe_is_silent(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "flyball", *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


def test_control_c_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)  # whoever reads this waits for ever
    command = [sys.executable, "-m", "flyball", "trace", "describe", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        writer = open_for_reader(path)
        time.sleep(0.2)  # it is about to read
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    os.close(writer)
    assert process.returncode == 130
    assert said == ""
