"""The live commands against a real server: real jobs, real files, no fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.until import WAIT_S

from flyball.cli.main import run

START_S = 400.0
"""The first start on a machine compiles the decision kernel."""

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the state folder of a server that runs for these tests."""
    state = tmp_path_factory.mktemp("state", numbered=True)
    state.chmod(0o700)
    command = [sys.executable, "-m", "flyball", "up", "--state", str(state), "--no-agent"]
    with (state / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        end_s = time.monotonic() + START_S
        while not (state / "endpoint.json").exists():
            assert process.poll() is None, (state / "up.log").read_text()
            assert time.monotonic() < end_s, "the server does not come up"
            time.sleep(0.05)
        yield state
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.fixture
def ask(
    server: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Ask]:
    """Run a command from an empty folder and return its stdout; cancel all jobs afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYBALL_STATE", str(server))

    def asked(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        exit_code = run(list(arguments))
        printed = capsys.readouterr()
        assert exit_code == code, printed.err
        if code == 2:
            assert printed.err.count("\n") == 1
        return printed.out if code != 2 else printed.err

    yield asked
    assert run(["cancel", "--all"]) == 0


def submitted(ask: Ask, *arguments: str) -> int:
    return int(ask("submit", *arguments))


def shown(ask: Ask, job: int | str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(ask("show", str(job), "--json"))
    return row


def test_a_job_from_start_to_end(ask: Ask, tmp_path: Path) -> None:
    said = ask("submit", "-J", "hello", "-t", "5", "--wait", "--", "sh", "-c", "echo hi; pwd")
    number = said.strip()
    assert said == f"{int(number)}\n"
    assert ask("logs", number) == f"hi\n{tmp_path}\n"
    assert ask("logs", number, "--tail", "1") == f"{tmp_path}\n"
    assert json.loads(ask("logs", number, "--json"))["text"].startswith("hi\n")
    job = shown(ask, number)
    assert (job["state"], job["exit_code"], job["name"]) == ("COMPLETED", 0, "hello")
    assert job["spec"]["limit_s"] == 300
    assert f"{number} hello: COMPLETED" in ask("show", number)
    assert "does-not-wait" in ask("why", number)
    assert "core-hours" in ask("receipt", number)
    assert json.loads(ask("receipt", number, "--json"))["attempts"] == 1


def test_error_output_in_a_file_of_its_own(ask: Ask, tmp_path: Path) -> None:
    script = "echo out; echo err >&2"
    job = submitted(ask, "-J", "two", "-e", "%x-%j.err", "--wait", "--", "sh", "-c", script)
    assert (tmp_path / f"two-{job}.err").read_text() == "err\n"
    assert ask("logs", str(job)) == "out\n"
    assert ask("logs", str(job), "--stderr") == "err\n"
    assert ask("logs", str(job), "-e", "-f") == "err\n"
    assert f"two-{job}.err" in ask("show", str(job))


def test_hold_and_release(ask: Ask) -> None:
    job = submitted(ask, "--hold", "--", "true")
    later = submitted(ask, "--begin", "now+3hours", "-t", "9", "--signal", "USR1@60", "--", "true")
    table = ask("queue")
    assert f"(held by you; flyball release {job})" in table
    assert ", in 3.0 h)" in table
    assert "waits        begins at " in ask("show", str(later))
    assert "SIGUSR1 60 s before its limit" in ask("show", str(later))
    assert f"flyball release {job} lets it start." in ask("why", str(job))
    ask("hold", str(later))
    assert shown(ask, later)["held"]["by"]
    assert json.loads(ask("release", str(job), str(later), "--json"))["ids"] == [job, later]
    end_s = time.monotonic() + WAIT_S
    while shown(ask, job)["state"] != "COMPLETED":
        assert time.monotonic() < end_s
        time.sleep(0.05)
    assert shown(ask, later)["state"] == "PENDING"
    assert "COMPLETED: only a waiting job can be held" in ask("hold", str(job), code=2)


def test_a_command_reads_its_own_options(ask: Ask) -> None:
    job = int(ask("submit", "--wait", "--", "echo", "--json", "-t", "$HOME", "a  b"))
    assert ask("logs", str(job)) == "--json -t $HOME a  b\n"


def test_waiting_gives_the_exit_code(ask: Ask) -> None:
    ask("submit", "--wait", "--", "sh", "-c", "exit 7", code=7)
    ask("submit", "--wait", "-t", "1s", "--", "sleep", "3600", code=124)
    ask("submit", "--wait", "--", "sh", "-c", "kill -9 $$", code=137)


def test_an_array(ask: Ask, tmp_path: Path) -> None:
    out = json.loads(
        ask("submit", "-J", "sweep", "-a", "1,3,5-7:2%2", "--wait", "--json", "--", "sh", "-c",
            "touch $SLURM_ARRAY_TASK_ID")
    )  # fmt: skip
    assert out == {"id": out["id"], "ids": list(range(out["id"], out["id"] + 4))}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3", "5", "7"]
    assert shown(ask, f"{out['id']}_7")["id"] == out["ids"][3]
    assert f"{out['id']}_3 sweep: COMPLETED" in ask("show", f"{out['id']}_3")


def test_jobs_wait_for_jobs(ask: Ask, tmp_path: Path) -> None:
    first = submitted(ask, "-a", "0-1", "--", "sh", "-c", "sleep 0.3; echo x >> done")
    after = f"afterok:{first}"
    ask("submit", "--wait", "-d", after, "--", "sh", "-c", "test $(wc -l < done) = 2")
    job = shown(ask, int(json.loads(ask("queue", "--all", "--json"))[-1]["id"]))
    assert job["spec"]["after"] == [["afterok", first], ["afterok", first + 1]]
    assert "no job 99999" in ask("submit", "-d", "afterok:99999", "--", "true", code=2)


def test_a_job_file(ask: Ask, tmp_path: Path) -> None:
    Path("chain.yaml").write_text(
        """
jobs:
  - {name: prepare, command: [sh, -c, 'echo 1 > data'], cpus: 1, limit: 1:00}
  - {name: train, command: [sh, -c, 'cat data >> sum'], array: 0-1, after: prepare}
  - {name: check, command: [cat, sum], after: train, env: {A: 1}}
"""
    )
    rows = json.loads(ask("submit", "chain.yaml", "--wait", "--json"))["jobs"]
    assert [sorted(row) for row in rows] == [["id"], ["id", "ids"], ["id"]]
    assert ask("logs", str(rows[2]["id"])) == "1\n1\n"
    assert len(ask("submit", "chain.yaml").splitlines()) == 3
    assert "'cpu'" in ask("submit", _written("x.yaml", "{command: [a], cpu: 1}"), code=2)


def _written(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def test_a_script(ask: Ask, tmp_path: Path) -> None:
    text = "#!/bin/sh\n#SBATCH -J scripted -t 2\n#SBATCH --comment=x\necho $1 $0\n"
    job = int(ask("submit", "--wait", _written("train.sh", text), "--fast"))
    assert ask("logs", str(job)) == f"--fast {tmp_path}/train.sh\n"
    row = shown(ask, job)
    assert (row["name"], row["spec"]["limit_s"]) == ("scripted", 120.0)


def test_output_goes_where_it_is_asked_to(ask: Ask, tmp_path: Path) -> None:
    job = int(ask("submit", "--wait", "-J", "x", "-o", "%x-%j.out", "--", "echo", "hi"))
    assert (tmp_path / f"x-{job}.out").read_text() == "hi\n"
    assert ask("logs", str(job)) == "hi\n"


def test_variables(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    for option, said in (([], ""), (["--export", "ALL"], "1"), (["--export", "MINE=2"], "2")):
        job = ask("submit", "--wait", *option, "--", "/bin/sh", "-c", "echo $MINE").strip()
        assert ask("logs", job) == f"{said}\n"


def test_the_queue_and_cancelling(ask: Ask) -> None:
    cores = os.cpu_count() or 1
    first = submitted(ask, "-J", "long", "-c", str(cores), "-t", "10", "--", "sleep", "3600")
    array = submitted(ask, "-J", "many", "-a", "0-2", "--estimate", "5s", "--", "sleep", "3600")
    other = submitted(ask, "-J", "other", "--", "sleep", "3600")
    end_s = time.monotonic() + WAIT_S
    while shown(ask, first)["state"] != "RUNNING":
        assert time.monotonic() < end_s
        time.sleep(0.05)
    table = ask("queue")
    assert f"{array}_[0-2]" in table
    assert f"flyball why {array}_0 explains why {array}_0 waits." in table
    assert [job["id"] for job in json.loads(ask("queue", "-n", "other", "--json"))] == [other]
    assert [job["id"] for job in json.loads(ask("queue", "-t", "R", "--json"))] == [first]
    assert json.loads(ask("queue", "--all", "--limit", "1", "--json"))[0]["id"] == other
    said = ask("why", str(other))
    assert "no-free-devices" in said or "behind-head" in said
    assert "Ahead of it" in said
    assert "would start in" in ask("submit", "--dry-run", "--", "sleep", "1")
    answer = json.loads(ask("submit", "--dry-run", "--json", "--", "sleep", "1"))
    assert answer["p90_s"] >= answer["p50_s"] > 0
    frame = ask("top", "--once")
    assert "running (1)" in frame
    assert "waiting (4)" in frame
    assert json.loads(ask("top", "--once", "--json"))["nodes"][0]["used"] == cores
    assert f"{cores} of {cores} cores in use." in ask("nodes")
    assert json.loads(ask("cancel", "--name", "many", "--json")) == {
        "cancelled": [array, array + 1, array + 2], "ended": [], "failed": [],
    }  # fmt: skip
    ask("cancel", str(first))
    assert json.loads(ask("cancel", "--all", "--json"))["cancelled"][-1] == other
    while json.loads(ask("queue", "--json")):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    assert shown(ask, first)["state"] == "CANCELLED"
    assert ask("queue").startswith("No job runs or waits")


def test_following(ask: Ask) -> None:
    job = submitted(ask, "--", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done")
    assert ask("logs", str(job), "-f") == "1\n2\n3\n"
    assert shown(ask, job)["state"] == "COMPLETED"


def test_unknown_jobs(ask: Ask) -> None:
    for command in ("show", "why", "receipt", "logs", "cancel"):
        assert "no job 99999; see flyball queue --all" in ask(command, "99999", code=2)


def test_interrupting(server: Path) -> None:
    """Ctrl-C ends endless commands without a traceback; jobs continue."""
    environ = {**os.environ, "FLYBALL_STATE": str(server)}
    flyball = [sys.executable, "-m", "flyball"]
    for command, code in (
        (["queue", "--watch"], 0),
        (["top"], 0),
        (["submit", "--wait", "--", "sleep", "3600"], 130),
    ):
        process = subprocess.Popen(
            [*flyball, *command], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            _out, err = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
        assert process.returncode == code
        assert "Traceback" not in err
        assert ("jobs continue; flyball cancel" in err) == (code == 130)
    done = subprocess.run(
        [*flyball, "cancel", "--all"], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("cancelled 1 job: ")


def test_job_with_too_many_processes_says_why(ask: Ask) -> None:
    """Bounded: 100 processes that sleep, of which the limit allows 20."""
    many = "for i in $(seq 100); do sleep 60 & done; wait"
    printed = ask(
        "submit", "--wait", "--max-processes", "20", "--", "sh", "-c", many, code=137
    )  # fmt: skip
    job = printed.split()[0]
    row = shown(ask, job)
    assert row["state"] == "FAILED"
    assert row["reason"].startswith("process-limit: wanted ")
    assert "its limit is 20; start fewer or submit with a higher --max-processes" in row["reason"]
    assert "at most 20 processes and threads" in ask("show", job)
    assert "process-limit: wanted" in ask("show", job)
    assert "process-limit: wanted" in ask("queue", "--all")
    assert "process-limit: wanted" in ask("receipt", job)
    assert json.loads(ask("receipt", job, "--json"))["reason"] == row["reason"]


def test_history_becomes_a_trace(ask: Ask, tmp_path: Path) -> None:
    ask("submit", "--wait", "--", "true")
    assert "cannot write this kind of file" in ask("trace", "export", "x.csv", code=2)
    ask("trace", "export", "history.jsonl")
    assert (tmp_path / "history.jsonl").stat().st_size > 0
    assert "arrivals" in ask("trace", "describe", "history.jsonl").lower()


def test_the_demonstration(ask: Ask) -> None:
    outcome = json.loads(ask("demo", "live", "--scale", "0.02", "--json"))
    assert len(outcome["jobs"]) == 13
    assert {job["state"] for job in outcome["jobs"]} == {"COMPLETED"}
    assert all(job["last_line"].startswith("step ") for job in outcome["jobs"])
    rates = {job["last_line"].split()[5] for job in outcome["jobs"] if job["name"] == "sweep"}
    assert rates == {"0.03", "0.01", "0.003", "0.001"}
    assert outcome["why"]["token"]
    assert outcome["receipt"]["device_hours"] > 0
    assert outcome["prediction"]["actual_s"] is not None


def test_steering_a_job_that_runs(ask: Ask) -> None:
    job = ask("submit", "--elastic", "1-2", "--", "sleep", "3600").strip()
    until_running(ask, job)
    assert json.loads(ask("cap", job, "50%", "--json")) == {"id": int(job), "share": 0.5}
    if (os.cpu_count() or 1) > 1:
        assert json.loads(ask("resize", job, "2", "--json")) == {"id": int(job), "devices": 2}
        assert "2 cores, limited to 50%" in ask("show", job)
    assert json.loads(ask("checkpoint", job, "--json")) == {"id": int(job)}
    assert "asked for a checkpoint: ordered" in ask("why", job)
    assert json.loads(ask("receipt", job, "--json"))["tuning"]["sizes"]
    ask("resize", job, "3", code=2)
    rigid = ask("submit", "--", "sleep", "3600").strip()
    ask("resize", rigid, "1", code=2)


def until_running(ask: Ask, job: str) -> None:
    end_s = time.monotonic() + WAIT_S
    while json.loads(ask("show", job, "--json"))["start_time"] is None:
        assert time.monotonic() < end_s, "it does not start"
        time.sleep(0.05)
