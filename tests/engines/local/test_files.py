"""Claims, logs and the watch over a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flyball.engines.local import claim
from flyball.engines.local.log import Log
from flyball.engines.local.watch import FolderWatch

HEAD = {"job": 17, "attempt": 2, "pid": 5, "start": 6, "boot": "b", "child": 0, "time_us": 9}
END = {
    "exit_code": 1, "signal": 0, "why": "exit", "message": "", "time_us": 10, "cpu_s": 0.5,
    "max_rss_mib": 1.5,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY)


def test_a_claim_has_its_size_from_the_first(folder: int, tmp_path: Path) -> None:
    assert claim.read(folder, 17, 2) is None
    file = claim.make(folder, HEAD)
    claim.make_durable(folder, HEAD, file)
    path = tmp_path / "17.2"
    assert path.stat().st_size == claim.SIZE
    record = claim.read(folder, 17, 2)
    assert record is not None
    assert (record.pid, record.start, record.boot, record.child) == (5, 6, "b", 0)
    assert record.exit is None
    assert not record.void
    claim.write_head(file, {**HEAD, "child": 7})
    claim.write_exit(file, END)
    os.close(file)
    record = claim.read(folder, 17, 2)
    assert record is not None
    assert (record.child, record.exit) == (7, END)
    assert path.stat().st_size == claim.SIZE
    first, second, rest = path.read_bytes().split(b"\n")
    assert (len(first), len(second), rest) == (1023, 3071, b"")


def test_a_claim_that_cannot_be_made_durable_is_removed(folder: int, tmp_path: Path) -> None:
    file = claim.make(folder, HEAD)
    other, end = os.pipe()  # which no disk keeps
    os.dup2(end, file)
    with pytest.raises(OSError):
        claim.make_durable(folder, HEAD, file)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError):
        os.fstat(file)
    os.close(other)
    os.close(end)


def test_a_claim_holds_the_longest_message(folder: int) -> None:
    file = claim.make(folder, HEAD)
    claim.write_exit(file, {**END, "message": "\U0001f600" * 5000})
    os.close(file)
    record = claim.read(folder, 17, 2)
    assert record is not None
    assert record.exit is not None
    assert record.exit["message"] == "\U0001f600" * 156
    assert {**record.exit, "message": ""} == END


def test_half_a_claim_is_a_blank_one(folder: int, tmp_path: Path) -> None:
    (tmp_path / "1.1").write_bytes(b"")
    (tmp_path / "1.2").write_bytes(b'{"job": 1, "att')
    for attempt in (1, 2):
        record = claim.read(folder, 1, attempt)
        assert record is not None
        assert record.blank
        assert not record.void


@pytest.mark.parametrize("name", ["1", "1.", ".1", "1.2.3", "a.1", "1.out", "-1.1", "spawner.lock"])
def test_what_is_no_claim(name: str) -> None:
    assert claim.token_of(name) is None


def test_a_log_is_cut_at_its_size(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"12345")
    log = Log(str(path), most_bytes=10, keep=1)
    log.write(b"6789")
    log.write(b"abcdefghijklmnopqrstuvwxyz")
    log.close()
    assert sorted(os.listdir(tmp_path)) == ["out", "out.1"]
    assert (tmp_path / "out.1").read_bytes() == b"lmnopqrstu"
    assert path.read_bytes() == b"vwxyz"


def test_a_log_of_which_nothing_is_kept(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "out"), most_bytes=4, keep=0)
    log.write(b"123456789")
    log.close()
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"9"


def test_a_log_without_a_limit(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "out"), most_bytes=0, keep=2)
    log.write(b"x" * 100_000)
    log.close()
    assert (tmp_path / "out").stat().st_size == 100_000


def test_output_that_cannot_be_kept_is_counted() -> None:
    log = Log("/dev/full", most_bytes=10, keep=2)
    log.write(b"x" * 100)
    log.close()
    assert (log.lost_bytes, log.error) == (100, "No space left on device")


def test_the_watch_names_what_was_written_and_closed(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path)
    assert watch.works
    assert watch.changed() == {}
    with open(tmp_path / "1.1", "w") as open_file, open(tmp_path / "1.2", "w") as closed_file:
        open_file.write("x")
        open_file.flush()
        closed_file.close()
        assert watch.changed() == {"1.1": False, "1.2": True}
    assert watch.changed() == {"1.1": True}
    watch.close()
    watch.close()
    assert watch.changed() is None


def test_a_watch_that_is_too_much_for_the_kernel(tmp_path: Path) -> None:
    """More events than its queue holds: it says so, and then goes on."""
    watch = FolderWatch(tmp_path)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    names = [tmp_path / "a", tmp_path / "b"]
    for i in range(most + 10):
        os.close(os.open(names[i % 2], os.O_WRONLY | os.O_CREAT))
    assert watch.changed() is None
    names[0].write_text("")
    assert watch.changed() == {"a": True}
    watch.close()
