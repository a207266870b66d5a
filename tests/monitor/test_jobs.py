"""Claims, the processes of their sessions, and what they use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.monitor.site import absent, claim, frozen, opened

from flyball.bench.monitor.cost import write_claim
from flyball.monitor.claims import PAGE_BYTES, TICKS_PER_S
from flyball.monitor.sensor import Site


def test_golden(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.2", 100, 9000)
    jobs = opened("jobs", site)
    assert jobs.collect(1.0).values == {
        "running": 1,
        "ended_total": 0,
        "7.attempt": 2,
        "7.processes": 2,
        "7.memory_bytes": 250_000 * PAGE_BYTES,  # without the supervisor's 1000 pages
        "7.cpu_s_total": 1350 / TICKS_PER_S,
    }
    assert jobs.pids == {100, 101}


def test_claims_that_do_not_count(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "1.1", 0, 0)  # void
    claim(site, "2.1", 100, 9000, boot="another")
    claim(site, "3.1", 100, 9000, end='{"exit_code": 0}')
    claim(site, "4.1", 100, 1234)  # the number is another process's now
    claim(site, "5.1", 4711, 1)  # gone
    assert site.state is not None
    (site.state / "engine" / "6.1").write_text(" " * 4096)
    (site.state / "engine" / "spawner.sock").write_text("")
    (site.state / "engine" / "8.1").write_text("[1, 2]")
    (site.state / "engine" / "9.1").mkdir()
    os.mkfifo(site.state / "engine" / "10.1")
    spoilt = ('"x"', "null", "Infinity", "NaN", "[]", "1e400", "-1", "[" * 900)
    for number, pid in enumerate(spoilt, 20):
        text = f'{{"job": 1, "attempt": 1, "pid": {pid}, "start": 9000}}'
        (site.state / "engine" / f"{number}.1").write_text(text.ljust(1024))
    claim(site, "40.1", 100, 9000, cpu_s=float("nan"))
    assert opened("jobs", site).collect(1.0).values == {"running": 0, "ended_total": 0}


def test_of_one_supervisor_only_the_newest_attempt_runs(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000, time_us=5)
    jobs = opened("jobs", site)
    used = jobs.collect(1.0).values["7.cpu_s_total"]
    claim(site, "8.1", 100, 9000, time_us=6, cpu_s=used - 0.25)
    values = jobs.collect(2.0).values
    assert (values["running"], values["ended_total"]) == (1, 1)
    assert "7.processes" not in values
    assert values["8.cpu_s_total"] == 0.25  # what was used before it began is not its own


def test_an_ended_job_is_counted_and_forgotten(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    path = claim(site, "7.1", 100, 9000)
    jobs = opened("jobs", site)
    jobs.collect(1.0)
    path.unlink()
    assert jobs.collect(2.0).values == {"running": 0, "ended_total": 1}
    assert jobs.pids == frozenset()


def test_processes_come_and_go(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    jobs = opened("jobs", site)
    used = jobs.collect(1.0).values["7.cpu_s_total"]
    proc = site.root / "proc"
    _forked(site, 102)
    assert jobs.collect(2.0).values["7.processes"] == 3
    (proc / "102/stat").unlink()
    (proc / "102").rmdir()
    values = jobs.collect(3.0).values
    assert values["7.processes"] == 2
    # What it used went with it, but a total does not go back.
    assert values["7.cpu_s_total"] > used


def test_processes_are_listed_only_when_there_may_be_new_ones(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    jobs = opened("jobs", site)
    load = site.proc("loadavg").read_text()
    assert jobs.collect(1.0).values["7.processes"] == 2
    _forked(site, 102)
    site.proc("loadavg").write_text(load)  # as if no number had been given since
    assert jobs.collect(2.0).values["7.processes"] == 2
    assert jobs.collect(32.0).values["7.processes"] == 3  # all are asked anew
    _forked(site, 103)
    assert jobs.collect(33.0).values["7.processes"] == 4


def test_a_process_that_was_known_before_it_led_a_session(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    _forked(site, 102)
    jobs = opened("jobs", site)
    assert jobs.collect(1.0).values["7.processes"] == 3
    stat = site.root / "proc/102/stat"
    stat.write_text(stat.read_text().replace("S 1 100 100", "S 1 102 102"))
    start = int(stat.read_text().rpartition(")")[2].split()[19])
    claim(site, "8.1", 102, start)
    assert jobs.collect(2.0).values["8.processes"] == 1


def test_without_a_last_number_processes_are_listed_each_time(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    site.proc("loadavg").unlink()
    claim(site, "7.1", 100, 9000)
    jobs = opened("jobs", site)
    assert jobs.collect(1.0).values["7.processes"] == 2
    _forked(site, 102)
    assert jobs.collect(2.0).values["7.processes"] == 3


def _forked(site: Site, pid: int) -> None:
    """Another process of the session of 101, and the number that the kernel gave last."""
    proc = site.root / "proc"
    (proc / str(pid)).mkdir()
    text = (proc / "101/stat").read_text()
    (proc / f"{pid}/stat").write_text(text.replace("101 (train)", f"{pid} (more)", 1))
    (proc / "loadavg").write_text(f"0.50 0.40 0.30 3/200 {pid}\n")


def test_a_process_that_leaves_the_session(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    jobs = opened("jobs", site)
    jobs.collect(1.0)
    stat = site.root / "proc/101/stat"
    stat.write_text(stat.read_text().replace("S 1 100 100", "S 1 101 101"))
    assert jobs.collect(2.0).values["7.processes"] == 1
    assert jobs.collect(99.0).values["7.processes"] == 1  # also when all are asked anew


def _worker(site: Site, pid: int, parent: int) -> None:
    """A process that began a session of its own, as the workers of torchrun do."""
    _forked(site, pid)
    stat = site.root / f"proc/{pid}/stat"
    stat.write_text(stat.read_text().replace("S 1 100 100", f"S {parent} {pid} {pid}"))


def test_workers_in_sessions_of_their_own_are_the_jobs(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    _worker(site, 102, 101)
    _worker(site, 103, 102)
    _worker(site, 104, 1)  # somebody else's
    _worker(site, 105, 104)
    claim(site, "7.1", 100, 9000)
    jobs = opened("jobs", site)
    values = jobs.collect(1.0).values
    assert jobs.pids == {100, 101, 102, 103}
    assert values["7.processes"] == 4
    assert values["7.cpu_s_total"] == (100 + 3 * 1250) / TICKS_PER_S
    assert values["7.memory_bytes"] == 750_000 * PAGE_BYTES


def test_a_worker_whose_launcher_ends_stays_the_jobs(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    _worker(site, 102, 101)
    jobs = opened("jobs", site)
    jobs.collect(1.0)
    _forked(site, 106)
    shutil.rmtree(site.root / "proc/101")
    stat = site.root / "proc/102/stat"
    stat.write_text(stat.read_text().replace("S 101 102", "S 100 102"))  # taken in
    jobs.collect(2.0)
    assert jobs.pids == {100, 102, 106}
    jobs.collect(99.0)  # all are asked anew
    assert jobs.pids == {100, 102, 106}


def test_a_job_inside_a_job_is_its_own(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    _worker(site, 102, 101)
    _worker(site, 103, 102)
    jobs = opened("jobs", site)
    assert jobs.collect(1.0).values["7.processes"] == 4
    start = int((site.root / "proc/102/stat").read_text().rpartition(")")[2].split()[19])
    inner = claim(site, "8.1", 102, start)
    values = jobs.collect(2.0).values
    assert (values["7.processes"], values["8.processes"]) == (2, 2)
    inner.unlink()
    assert jobs.collect(3.0).values["7.processes"] == 4


def test_numbers_that_lead_in_a_circle(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    _worker(site, 102, 103)
    _worker(site, 103, 102)
    assert opened("jobs", site).collect(1.0).values["7.processes"] == 2


def test_a_real_child_that_begins_a_session(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    jobs = opened("jobs", Site(state=tmp_path))
    code = (
        "import subprocess, time; p = subprocess.Popen(['sleep', '60'], start_new_session=True);"
        "print(p.pid, flush=True); p.wait()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as launcher:
        assert launcher.stdout is not None
        worker = int(launcher.stdout.readline())
        try:
            write_claim(tmp_path / "engine", 7, 1, launcher.pid)
            assert jobs.collect(1.0).values["7.processes"] == 2
            assert jobs.pids == {launcher.pid, worker}
        finally:
            os.kill(worker, signal.SIGKILL)


SHARING = """
import os, sys
data = bytearray(os.urandom(1 << 20)) * 48
pids = [os.getpid()]
for _ in range(3):
    if (pid := os.fork()) == 0:
        sys.stdin.read()
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
"""


def test_pages_shared_by_a_jobs_processes_count_once(tmp_path: Path) -> None:
    """Four processes share 48 MiB: the job has 48 MiB and a little, not 192."""
    (tmp_path / "engine").mkdir()
    jobs = opened("jobs", Site(state=tmp_path))
    # The outer process leads the session, as a supervisor does.
    outer = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    command = [sys.executable, "-c", outer, SHARING]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        assert len(leader.stdout.readline().split()) == 4
        write_claim(tmp_path / "engine", 7, 1, leader.pid)
        values = jobs.collect(1.0).values
        assert leader.stdin is not None
        leader.stdin.close()  # all of them read until its end, then exit
    assert values["7.processes"] == 5
    assert 48 * 2**20 < values["7.memory_bytes"] < 96 * 2**20


def test_shared_pages_of_large_jobs_are_counted_less_often(tmp_path: Path) -> None:
    """Reading the page tables of 4 GiB takes tens of milliseconds: not every second."""
    site = frozen(tmp_path)
    claim(site, "7.1", 100, 9000)
    _forked(site, 102)  # 250,000 pages each: 1.9 GiB together
    for pid in (101, 102):
        (site.root / f"proc/{pid}/smaps_rollup").write_text("Rss: 1000000 kB\nPss: 500000 kB\n")
    jobs = opened("jobs", site)
    assert jobs.collect(1.0).values["7.memory_bytes"] == 1_000_000 * 1024
    (site.root / "proc/102/smaps_rollup").write_text("Pss: 300000 kB\n")
    assert jobs.collect(2.0).values["7.memory_bytes"] == 1_000_000 * 1024
    assert jobs.collect(3.0).values["7.memory_bytes"] == 800_000 * 1024


def test_no_state_folder(tmp_path: Path) -> None:
    assert "no state folder" in absent("jobs", Site())
    # A folder without an engine yet is a machine without jobs.
    assert opened("jobs", Site(state=tmp_path)).collect(1.0).values["running"] == 0
