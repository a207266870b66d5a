"""`flyball queue`: its lines. Also defines the jobs that other tests use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from flyball.cli.jobs.queue import cells, grouped, label_of, nothing_text, print_jobs, summary
from flyball.cli.live import states_of
from flyball.cli.main import run
from flyball.core.errors import BadInput
from flyball.sdk.client import Client


def job(number: int, state: str = "PENDING", **more: Any) -> dict[str, Any]:
    """Return a job as a server returns it; `more` replaces defaults."""
    shown = {
        "id": number,
        "label": str(number),
        "name": f"job{number}",
        "state": state,
        "reason": "",
        "attempts": 0 if state == "PENDING" else 1,
        "submit_time": 1000.0,
        "start_time": None if state == "PENDING" else 1010.0,
        "end_time": None,
        "exit_code": None,
        "signal": None,
        "user": "ada",
        "tenant": "",
        "cpus": 1,
        "gpus": 0,
        "unit": "core",
        "memory_mib": 0,
        "node": "vm" if state == "RUNNING" else None,
        "array_id": None,
        "spec": {"argv": ["python", "train.py"]},
        "progress": None,
    }
    return shown | more


def task(array: int, index: int, state: str = "PENDING", **more: Any) -> dict[str, Any]:
    """Return a task of an array."""
    label = f"{array}_{index}"
    return job(array + index, state, label=label, array_id=array, name="sweep") | more


def test_lines() -> None:
    running = job(3, "RUNNING", gpus=2, memory_mib=4096, cpus=8)
    assert cells([running], 1100.0) == (
        *("3", "job3", "ada", "RUNNING", "vm", "1:30", "8", "2", "4.0G"),
    )
    waiting = job(4, reason="requeued-preempt")
    assert cells([waiting], 1100.0)[3:6] == ("PENDING", "(requeued-preempt)", "1:40")
    first = job(4, token="no-free-devices")
    assert cells([first], 1100.0)[4] == "(no-free-devices)"
    again = job(4, reason="requeued-lost", token="behind-head")
    assert cells([again], 1100.0)[4] == "(requeued-lost, behind-head)"
    over = job(5, "COMPLETED", end_time=1020.0, memory_mib=100)
    assert cells([over], 9000.0)[5:] == ("0:10", "1", "-", "100M")


def test_failed_jobs_show_their_exit_code_or_signal() -> None:
    failed = job(5, "FAILED", end_time=1020.0, exit_code=3)
    assert cells([failed], 9000.0)[4] == "(exit code 3)"
    killed = job(6, "FAILED", end_time=1020.0, exit_code=137, signal=9)
    assert cells([killed], 9000.0)[4] == "(SIGKILL)"
    stopped = job(7, "FAILED", end_time=1020.0, exit_code=143, reason="stopped-from-outside")
    assert cells([stopped], 9000.0)[4] == "(stopped-from-outside, exit code 143)"
    completed = job(8, "COMPLETED", end_time=1020.0, exit_code=0)
    assert cells([completed], 9000.0)[4] == ""


def test_words_of_a_job_do_not_steer_the_terminal() -> None:
    line = cells([job(3, name="a\x1b[2J\nb", user="x\u202ey")], 1100.0)
    assert line[1:3] == ("a?[2J b", "x?y")


def test_waiting_tasks_share_a_line() -> None:
    jobs = [
        task(10, 0, "RUNNING"),
        *(task(10, index) for index in (1, 2, 3, 5)),
        task(10, 6, reason="requeued-lost"),
        job(30),
        task(40, 0, token="no-free-devices"),
        *(task(40, index, token="behind-head") for index in (1, 2)),
    ]
    groups = grouped(jobs)
    assert [label_of(group) for group in groups] == [
        *("10_0", "10_[1-3,5]", "10_6", "30", "40_0", "40_[1-2]")
    ]
    assert sum(map(len, groups)) == len(jobs)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_jobs([job(1, "RUNNING"), job(2), job(3)])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == [
        *("job", "name", "user", "state", "node", "or", "reason", "time", "cpus", "gpus", "memory")
    ]
    assert shown[-1] == "2 PENDING, 1 RUNNING; flyball why 2 explains why 2 waits."


def test_a_long_table_is_the_same_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(1, "RUNNING", node="a-long-name"), job(22, name="名前", gpus=3), job(333, user="")]
    print_jobs(jobs)
    usual = capsys.readouterr().out
    monkeypatch.setattr("flyball.cli.output.MANY_ROWS", 2)
    print_jobs(jobs)
    assert capsys.readouterr().out == usual


def test_what_is_said_below() -> None:
    assert summary([job(2), job(1, "RUNNING")]) == (
        "1 PENDING, 1 RUNNING; flyball why 2 explains why 2 waits."
    )
    assert summary([job(1, "RUNNING"), job(2, "FAILED")]) == "1 RUNNING, 1 FAILED."


class Others:
    """Stands for a server with other jobs than those asked for."""

    def __init__(self, active: int, ended: int = 0) -> None:
        self.active, self.ended = active, ended

    def queue_page(self, limit: int = 1000) -> dict[str, Any]:
        return {"jobs": [], "total": self.active, "pending": 0, "next": None}

    def jobs(self, limit: int) -> Iterator[dict[str, Any]]:
        return (job(number) for number in range(self.active + self.ended))


def nothing(active: int, ended: int = 0, everything: bool = False, **filters: Any) -> str:
    usual: dict[str, Any] = {"user": None, "tenant": None, "name": None, "state": []}
    return nothing_text(cast(Client, Others(active, ended)), everything, usual | filters)


def test_nothing_there() -> None:
    assert nothing(0).startswith("No job runs or waits; flyball submit")
    assert nothing(0, everything=True).startswith("There are no jobs; ")


def test_nothing_of_one_user_says_how_many_others_there_are() -> None:
    assert nothing(3, user="bob") == (
        "No job of user bob runs or waits; 3 other jobs are there: flyball queue"
    )
    assert nothing(1, tenant="vision", state=["RUNNING"]) == (
        "No job on account vision in state RUNNING runs or waits; "
        "1 other job is there: flyball queue"
    )
    assert nothing(1, 4, everything=True, user="bob") == (
        "There are no jobs of user bob; 5 other jobs are there: flyball queue --all"
    )
    assert "1,000 or more other jobs" in nothing(0, 2000, everything=True, user="bob")
    assert nothing(0, user="bob").startswith("No job of user bob runs or waits; flyball submit")


def test_long_table_has_a_column_of_accounts(capsys: pytest.CaptureFixture[str]) -> None:
    print_jobs([job(1, "RUNNING", tenant="vision"), job(2)], long=True)
    header, _rule, first, second = capsys.readouterr().out.splitlines()[:4]
    assert header.split()[2:5] == ["user", "account", "state"]
    assert first.split()[2:5] == ["ada", "vision", "RUNNING"]
    assert second.split()[2:5] == ["ada", "-", "PENDING"]


def test_states() -> None:
    assert states_of(None) == []
    assert states_of("pd, RUNNING,oom") == ["PENDING", "RUNNING", "OUT_OF_MEMORY"]
    with pytest.raises(BadInput, match="unknown state 'lost'"):
        states_of("lost")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["queue", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert "use --states RUNNING" in refused(capsys, "--state", "RUNNING")
    assert "do not go together" in refused(capsys, "--watch", "--json")
    assert "--limit -1 is out of range" in refused(capsys, "--limit", "-1")
    assert "unknown state 'X'" in refused(capsys, "-t", "X")
