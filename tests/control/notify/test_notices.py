"""Targets are notified of every end of a job, once it is on record, and never delay the plane."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import Rig, env
from tests.hooks import Hook, hook_server
from tests.until import WAIT_S, until

from flyball.control.notify import deliver, notices
from flyball.control.notify.target import parse_target
from flyball.core.errors import BadInput
from flyball.core.jobs import JobState

WRITE = "import json,os,sys;json.dump([dict(os.environ),sys.stdin.read()],open(sys.argv[1],'w'))"


@pytest.fixture
def hook() -> Iterator[Hook]:
    with hook_server() as server:
        yield server


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    opened = Rig(tmp_path)
    yield opened
    opened.plane.notices.stop()


def results(rig: Rig, job: int) -> list[dict[str, Any]]:
    notified = rig.plane.ask.view(rig.job(job))["notify"]
    assert notified is not None
    return list(notified)


def until_notified(rig: Rig, *jobs: int) -> None:
    until(
        lambda: all(result["ok"] is not None for job in jobs for result in results(rig, job)),
        f"the targets of jobs {jobs}",
    )


def told(rig: Rig, *target: str, **asked: Any) -> dict[str, Any]:
    """Run a job to its end; return the outcome of its one target."""
    job = rig.submit(notify=(target,), **asked)
    rig.finish()
    until_notified(rig, job)
    (result,) = results(rig, job)
    return result


def test_url_gets_the_end_of_a_job(rig: Rig, hook: Hook) -> None:
    job = rig.submit(notify=((f"{hook.url}/ok?to=me",),), name="train", user="ada", env=env(5, 3))
    assert results(rig, job)[0]["ok"] is None
    rig.plane.notices.start()
    rig.finish()
    until_notified(rig, job)
    (posted,) = hook.posted
    assert posted.path == "/ok?to=me"
    assert posted.headers["Content-Type"] == "application/json"
    assert "Authorization" not in posted.headers
    ended = rig.job(job)
    assert posted.body == {
        "id": job, "label": str(job), "name": "train", "user": "ada", "tenant": "",
        "state": "FAILED", "exit_code": 3, "signal": None, "reason": ended.reason, "attempts": 1,
        "submit_time": ended.submit_us / 1e6, "start_time": ended.first_start_us / 1e6,
        "end_time": ended.end_us / 1e6,
    }  # fmt: skip
    (result,) = results(rig, job)
    assert (result["to"], result["ok"], result["message"]) == (f"{hook.url}/...", True, "HTTP 204")
    assert rig.verdict().differing == []


def test_every_final_state_is_notified(rig: Rig, hook: Hook) -> None:
    target = ((f"{hook.url}/ok",),)
    rig.plane.notices.start()
    pending = rig.submit(notify=target, hold=True)
    doomed = rig.submit(notify=target, after=(("afterok", pending),))
    running = rig.submit(notify=target, env=env(1e4))
    done = rig.submit(notify=target)
    failed = rig.submit(notify=target, env=env(5, 1))
    late = rig.submit(notify=target, limit_s=20.0, env=env(1e4))
    rig.settle()
    rig.plane.cancel_all([pending, running])
    rig.finish()
    jobs = [pending, doomed, running, done, failed, late]
    until_notified(rig, *jobs)
    assert {post.body["id"]: post.body["state"] for post in hook.posted} == {
        pending: "CANCELLED", doomed: "CANCELLED", running: "CANCELLED", done: "COMPLETED",
        failed: "FAILED", late: "TIMEOUT",
    }  # fmt: skip
    assert sorted(hook.ids()) == sorted(jobs)
    assert rig.verdict().differing == []


def test_command_gets_variables_and_json(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYBALL_TOKEN", "secret")
    rig.plane.notices.start()
    file = tmp_path / "with space; $(touch x)"
    job = rig.submit(
        notify=((sys.executable, "-c", WRITE, str(file)),), name="train", cwd=str(tmp_path),
        env={"MINE": "1", **env(5, 3)},
    )  # fmt: skip
    rig.finish()
    until_notified(rig, job)
    assert results(rig, job)[0]["message"] == "exit code 0"
    variables, stdin = json.loads(file.read_text())
    expected = {"FLYBALL_JOB_ID": str(job), "FLYBALL_JOB_NAME": "train", "MINE": "1"}
    expected |= {"FLYBALL_JOB_STATE": "FAILED", "FLYBALL_EXIT_CODE": "3", "FLYBALL_SIGNAL": ""}
    assert expected.items() <= variables.items()
    assert "secret" not in variables.values()
    assert json.loads(stdin)["state"] == "FAILED"
    assert not (tmp_path / "x").exists()


def test_owed_notifications_are_delivered_after_a_restart(rig: Rig, hook: Hook) -> None:
    first = rig.submit(notify=((f"{hook.url}/a",), (f"{hook.url}/b",)))
    rig.finish()
    rig.plane.close()
    assert hook.posted == []
    rig.open()
    rig.plane.notices.start()
    until_notified(rig, first)
    rig.plane.notices.stop()
    rig.plane.close()
    rig.open()
    rig.plane.notices.start()
    second = rig.submit(notify=((f"{hook.url}/c",),))
    rig.finish()
    until_notified(rig, second)
    assert [post.path for post in hook.posted] == ["/a", "/b", "/c"]
    assert rig.verdict().differing == []


def test_notified_target_is_not_notified_again_for_the_next_one(rig: Rig, hook: Hook) -> None:
    rig.plane.notices.start()
    job = rig.submit(notify=((f"{hook.url}/ok",), ("sleep", "600")))
    rig.finish()
    until(lambda: results(rig, job)[0]["ok"])
    rig.plane.notices.stop()  # the command is killed, and nothing is on record of it
    rig.plane.close()
    rig.open()
    assert [result["ok"] for result in results(rig, job)] == [True, None]
    rig.plane.notices.timeout_s = 0.1
    rig.plane.notices.start()
    until_notified(rig, job)
    assert results(rig, job)[1]["message"] == "killed: not done within 0.1 s"
    assert hook.ids() == [job]


def test_old_ends_are_not_notified_after_a_restart(rig: Rig, hook: Hook) -> None:
    old = rig.submit(notify=((f"{hook.url}/old",),))
    rig.finish()
    rig.plane.close()
    rig.now += notices.MAX_AGE_US + 1
    rig.open()
    rig.plane.notices.start()
    new = rig.submit(notify=((f"{hook.url}/new",),))
    rig.finish()
    until_notified(rig, new)
    assert [post.path for post in hook.posted] == ["/new"]
    assert results(rig, old)[0]["ok"] is None


def test_failures_are_on_record(
    rig: Rig, hook: Hook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig.plane.notices.start()
    assert told(rig, f"{hook.url}/fail")["message"] == "HTTP 500"
    assert told(rig, f"{hook.url}/redirect")["message"] == "HTTP 302"
    assert hook.ids("/ok") == []
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = told(rig, f"http://127.0.0.1:{port}/")
    assert (refused["ok"], refused["message"]) == (False, "could not be posted: Connection refused")
    assert told(rig, "sh", "-c", "exit 3", "hunter2")["message"] == "exit code 3"
    assert "--notify 1: exit code 3" in caplog.text
    assert "hunter2" not in caplog.text
    assert told(rig, "sh", "-c", "kill -9 $$")["message"] == "ended by SIGKILL"
    program = tmp_path / "tell"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    job = rig.submit(notify=((str(program),),), cwd=str(tmp_path))
    program.unlink()
    rig.finish()
    until_notified(rig, job)
    assert results(rig, job)[0]["message"] == f"could not start: no file {program}"
    assert rig.verdict().differing == []


def test_target_that_does_not_answer_is_given_up(rig: Rig, hook: Hook) -> None:
    rig.plane.notices.timeout_s = 0.3
    rig.plane.notices.start()
    assert told(rig, f"{hook.url}/drip")["message"] == "no answer within 0.3 s"
    assert told(rig, f"{hook.url}/blocked")["message"] == "no answer within 0.3 s"
    assert told(rig, "sleep", "600")["message"] == "killed: not done within 0.3 s"


def test_command_is_killed_with_its_process_group(tmp_path: Path) -> None:
    file, abandon, ended = tmp_path / "pid", threading.Event(), threading.Event()
    script = "sleep 600 & echo $! > pid.new; mv pid.new pid; wait"

    def work() -> None:
        with pytest.raises(deliver.Abandoned):
            deliver.run(
                ("sh", "-c", script), str(tmp_path), dict(os.environ), b"{}", abandon, WAIT_S
            )
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(file.exists, "the command's child")
    finally:
        abandon.set()
        thread.join()
    assert ended.is_set()
    child = Path("/proc") / file.read_text().strip() / "stat"

    def gone() -> bool:
        try:
            return child.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(gone, "the end of the command's child")


def test_slow_target_delays_no_cycle(rig: Rig, hook: Hook) -> None:
    rig.plane.notices.timeout_s = WAIT_S
    rig.plane.notices.start()
    slow = [rig.submit(notify=((f"{hook.url}/blocked",),)) for _ in range(notices.WORKERS + 1)]
    rig.finish()
    until(lambda: len(hook.posted) == notices.WORKERS)
    other = rig.submit()
    rig.finish()
    assert rig.states(other) == [JobState.COMPLETED]
    assert len(hook.posted) == notices.WORKERS
    hook.opened.set()
    until_notified(rig, *slow)
    assert sorted(hook.ids()) == slow


def test_what_the_queue_cannot_hold_is_recorded_as_not_told(
    rig: Rig, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MAX_QUEUED", 2)
    jobs = [rig.submit(notify=((f"{hook.url}/ok",), ("true",))) for _ in range(3)]
    rig.finish()
    assert [result["ok"] for result in results(rig, jobs[2])] == [False, False]
    assert "2 other ended jobs" in results(rig, jobs[2])[0]["message"]
    rig.plane.notices.start()
    until_notified(rig, *jobs)
    assert sorted(hook.ids()) == jobs[:2]


def test_late_reports_and_notifications_are_both_kept(
    rig: Rig, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[int] = []
    monkeypatch.setattr(rig.plane.durations, "learn", lambda job: learnt.append(job.id))
    target = ((f"{hook.url}/ok",),)
    early, late = rig.submit(notify=target), rig.submit(notify=target)
    rig.finish()
    rig.plane.progress.hear(late, {"step": 2.0})
    rig.pass_s(10)  # its last words are on record before it is told
    rig.plane.notices.start()
    until_notified(rig, early, late)
    third = rig.submit(notify=target)
    rig.finish()
    rig.plane.progress.hear(third, {"step": 3.0})
    until_notified(rig, third)
    rig.pass_s(10)  # and here after
    for job, step in ((late, 2.0), (third, 3.0)):
        assert rig.job(job).values["progress"] == {"step": step}
        assert [result["ok"] for result in results(rig, job)] == [True]
    assert learnt == [early, late, third]
    assert rig.verdict().differing == []


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("ftp://example.org/x", "ftp:// cannot be posted to; use http:// or https://"),
        ("file:///etc/passwd", "file:// cannot be posted to"),
        ("http:///path", "a URL without a host"),
        ("http://ada:hunter2@example.org/", "a URL with a user or a password"),
        ("http://example.org:99999/", "not a URL"),
        ("http://example.org/a b", "not a URL"),
        (["http://example.org/", "more"], "a URL has no arguments"),
        ("", "neither a URL nor a command"),
        ("   ", "neither a URL nor a command"),
        ([""], "neither a URL nor a command"),
        ("sh -c 'oh", "close the quotation"),
        ("no-such-program x", "no program 'no-such-program' on the job's PATH"),
        ("./no-such-file x", "no file /./no-such-file"),
        ("/etc/passwd", "/etc/passwd is not executable"),
    ],
)
def test_targets_that_cannot_be_notified_are_refused(
    rig: Rig, target: str | list[str], problem: str
) -> None:
    with pytest.raises(BadInput) as caught:
        rig.submit(notify=(parse_target(target),))
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_command_line_is_split_without_a_shell() -> None:
    assert parse_target("tell --to 'a b' $HOME") == ("tell", "--to", "a b", "$HOME")
    assert parse_target(" https://example.org/x ") == ("https://example.org/x",)


def test_too_many_targets_are_refused(rig: Rig) -> None:
    with pytest.raises(BadInput, match="17 targets; use at most 16"):
        rig.submit(notify=(("true",),) * 17)
