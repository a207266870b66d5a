"""The output of jobs: logs, rotation, error files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.engines.rig import SLEEP, Rig
from tests.until import until

from flyball.engines.local import proc
from flyball.engines.local.request import Logs


def test_logs_are_turned_over(tmp_path: Path) -> None:
    rig = Rig(tmp_path, logs=Logs(most_bytes=10_000, keep=2))
    rig.launch("sh", "-c", "seq 1 7000; echo end >&2")
    rig.ended()
    logs = [tmp_path / "logs" / f"1.1.out{end}" for end in ("", ".1", ".2", ".3")]
    assert [path.exists() for path in logs] == [True, True, True, False]
    sizes = [path.stat().st_size for path in logs[:3]]
    assert sizes[1:] == [10_000, 10_000]
    assert sizes[0] <= 10_000
    printed = "".join(str(i) + "\n" for i in range(1, 7001)) + "end\n"
    assert "".join(path.read_text() for path in reversed(logs[:3])) == printed[-sum(sizes) :]
    rig.close()


def test_output_where_the_job_wants_it(rig: Rig, tmp_path: Path) -> None:
    shared = tmp_path / "mine.txt"
    shared.write_text("before\n")
    for job in (1, 2):
        rig.launch("echo", "hello", job=job, stdout=str(shared))
        rig.ended(job=job)
    rig.launch("echo", "nobody reads this", job=3, stdout=os.devnull)
    assert rig.ended(job=3)["exit_code"] == 0
    assert shared.read_text() == "before\nhello\nhello\n"
    assert rig.output() == ""


def test_error_output_in_a_file_of_its_own(rig: Rig, tmp_path: Path) -> None:
    errors = tmp_path / "job.err"
    rig.launch("sh", "-c", "echo out; echo err >&2", stderr=str(errors))
    rig.ended()
    assert (rig.output(), errors.read_text()) == ("out\n", "err\n")
    both = str(tmp_path / "both.txt")
    rig.launch("sh", "-c", "echo 1; echo 2 >&2; echo 3", job=2, stdout=both, stderr=both)
    rig.ended(job=2)
    assert Path(both).read_text() == "1\n2\n3\n"


def test_both_outputs_are_logged_while_the_job_runs(rig: Rig, tmp_path: Path) -> None:
    errors = tmp_path / "job.err"
    text = "for i in $(seq 2000); do echo out $i; echo err $i >&2; done; sleep 600"
    rig.launch("sh", "-c", text, stderr=str(errors))
    rig.until_prints("out 2000")
    until(lambda: errors.read_text().endswith("err 2000\n"))
    assert errors.read_text().count("\n") == 2000


def test_an_error_file_that_cannot_be_made(rig: Rig, tmp_path: Path) -> None:
    rig.launch("true", stdout=str(tmp_path / "out"), stderr="/no/such/folder/err")
    end = rig.ended()
    assert (end["why"], end["exit_code"]) == ("boot", 127)
    assert "'/no/such/folder/err': No such file" in end["message"]


def test_why_it_could_not_start_is_in_the_error_file(rig: Rig, tmp_path: Path) -> None:
    errors = tmp_path / "job.err"
    rig.launch("no-such-program", stderr=str(errors))
    rig.ended()
    assert "could not start: no-such-program" in errors.read_text()


def test_a_closed_output_costs_nothing(rig: Rig) -> None:
    rig.launch("sh", "-c", "exec >&- 2>&-; sleep 3600")
    assert_sleeps(rig.claim().pid)
    rig.stop()
    assert rig.ended()["why"] == "stopped"


def test_an_idle_supervisor_sleeps(rig: Rig) -> None:
    rig.launch(*SLEEP)
    supervisor = rig.claim().pid
    assert_sleeps(supervisor)
    assert proc.pss_mib(supervisor) < 12  # with fifty of them, each has 1.6


def assert_sleeps(supervisor: int) -> None:
    """Once at rest it wakes up only to count the job's processes, at most four times a second."""
    until(lambda: wakeups(supervisor, 0.5) <= 4)


def wakeups(pid: int, window_s: float) -> int:
    before = switches(pid)
    time.sleep(window_s)
    return switches(pid) - before


def switches(pid: int) -> int:
    """Return how often a process has gone to sleep."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    raise AssertionError(pid)


def test_a_job_whose_children_end_all_the_time(rig: Rig) -> None:
    """Orphans that end while the program ends: no end is missed."""
    for job in range(1, 6):
        rig.launch("sh", "-c", "for i in $(seq 30); do (true & true) & done; wait", job=job)
    for job in range(1, 6):
        assert rig.ended(job=job)["exit_code"] == 0
