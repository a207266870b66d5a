"""`flyball watch slurm` beside real daemons: it forecasts, explains, and changes nothing."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.until import until

from flyball.bench.engines.slurm_cluster import HOW_TO_GET, SlurmCluster, missing
from flyball.cli.main import run
from flyball.cli.watch.metrics import serve_metrics
from flyball.core.errors import Unavailable
from flyball.engines.slurm.commands import Commands
from flyball.engines.slurm.poll import Poller, Site
from flyball.engines.slurm.queue_text import QueuedJob
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.watch.adviser import Adviser, Start
from flyball.watch.report import metric_rows

JOBS = 20
VOLATILE = re.compile(r"\b(CPULoad|FreeMem|LastBusyTime)=\S*")
"""What of a node changes by itself while time passes."""
STATED = re.compile(
    r"\b(?:JobId|JobName|Priority|Nice|Account|QOS|JobState|Dependency|Requeue|Restarts|TimeLimit|"
    r"SubmitTime|Partition|ReqNodeList|ExcNodeList|NumCPUs|TRES|Features|OverSubscribe|Command|"
    r"Comment|ArrayTaskId)=\S*"
)
"""What somebody states of a job; the rest is Slurm's plan for it, made anew every second."""


def site_of(slurm: SlurmCluster, limit_s: float = 400.0) -> Site:
    return Site(Commands(slurm.environment, limit_s))


def queue_of(slurm: SlurmCluster) -> dict[str, QueuedJob]:
    return {job.label: job for job in site_of(slurm).read().jobs}


def in_state(slurm: SlurmCluster, job: int, state: str) -> None:
    until(lambda: queue_of(slurm)[str(job)].state == state, f"job {job} in {state}", every_s=0.2)


def flyball(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["watch", "slurm", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def description(slurm: SlurmCluster) -> list[Any]:
    """Everything that somebody could change: jobs, nodes, partitions, settings."""
    jobs = slurm.run("scontrol", "-o", "-d", "show", "job").splitlines()
    site = [slurm.run("scontrol", "-o", "show", what) for what in ("node", "partition", "res")]
    lines = "\n".join([*site, slurm.run("scontrol", "show", "config")]).splitlines()
    return [
        *(STATED.findall(line) for line in jobs),
        *(VOLATILE.sub("", line) for line in lines if "Configuration data as of" not in line),
    ]


def test_forecasts_cover_the_starts_of_real_jobs(slurm: SlurmCluster) -> None:
    for _ in range(JOBS):
        slurm.submit("--gpus=2", "--time=1", "--job-name=train", seconds=2)
    site, adviser = site_of(slurm), Adviser()
    first: dict[str, tuple[float, Start]] = {}
    latest: dict[str, Start] = {}
    started: dict[str, float] = {}
    while len(started) < JOBS:
        advice = adviser.observe(site.read())
        started |= advice.started
        for start in advice.starts:
            assert start.forecast is not None, start
            first.setdefault(start.job.label, (advice.reading.time_s, start))
            latest[start.job.label] = start
        time.sleep(0.2)
    assert len(first) >= JOBS - 8, "the jobs behind the first on each node have to wait"
    # Time limits of a minute bound the run times, so p90 must cover nearly all starts.
    slack_s = 30.0
    kept = [
        started[label] <= time_s + start.forecast.p90_s + slack_s
        for label, (time_s, start) in first.items()
        if start.forecast is not None
    ]
    assert sum(kept) >= 0.8 * len(kept)
    # Equal jobs start in order, and the first forecasts say so.
    together = [
        start.forecast.p50_s
        for time_s, start in first.values()
        if time_s == min(time_s for time_s, _start in first.values()) and start.forecast
    ]
    assert together == sorted(together)
    # The jobs took 2 s of their minute: what was learnt shows in the last forecasts.
    last = latest[max(latest, key=int)]
    assert last.forecast is not None and "train" not in last.why_none
    assert last.forecast.method != "the stated estimate"


def test_once_and_json(slurm: SlurmCluster, capsys: pytest.CaptureFixture[str]) -> None:
    running = slurm.submit("--nodes=4", "--exclusive", "--time=10", seconds=600)
    in_state(slurm, running, "R")
    name = "bad|name\nJobId=1 x"
    nasty = slurm.submit("--time=5", "--gpus=1", f"--job-name={name}", seconds=600)
    held = slurm.submit("--hold", seconds=600)
    code, out, err = flyball(capsys, "--once", "--json")
    assert code == 0, err
    answer: dict[str, Any] = json.loads(out)
    assert answer["nodes"] == 4 and answer["running"] == 1
    pending = {job["id"]: job for job in answer["pending"]}
    assert set(pending) == {str(nasty), str(held)}
    assert pending[str(nasty)]["name"] == name
    assert 0 < pending[str(nasty)]["p50_s"] <= pending[str(nasty)]["p90_s"] <= 600.0
    assert pending[str(held)]["p50_s"] is None
    assert "holds it" in pending[str(held)]["why_no_forecast"]
    code, out, err = flyball(capsys, "--once")
    assert code == 0 and "bad|name JobId=1 x" in out and "squeue --start" in out
    assert "no history of run times" in err
    code, out, err = flyball(capsys, "--once", "--partition", "mian")
    assert code == 2 and "unknown partition 'mian'; did you mean 'main'?" in err
    code, out, err = flyball(capsys, "--once", "--json", "--partition", "first")
    assert json.loads(out)["pending"] == []


def test_why_and_what_if(slurm: SlurmCluster, capsys: pytest.CaptureFixture[str]) -> None:
    blocker = slurm.submit("--nodes=4", "--ntasks=4", "--gpus-per-node=1", "--time=30", seconds=600)
    in_state(slurm, blocker, "R")
    job = str(slurm.submit("--gres=gpu:2", "--time=5", seconds=600))
    code, out, err = flyball(capsys, "--why", job, "--if", "gpus=1", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["id"] == job and answer["slurm_reason"] in ("Resources", "Priority", "")
    assert answer["token"] and answer["p50_s"] > 60.0
    assert "Needs 2 of the 8 GPUs" in answer["sentence"]
    assert any(
        re.search(r"ask for 1 GPU instead of 2: .* on n[1-4]\.", remedy)
        for remedy in answer["remedies"]
    )
    assert not any("span=" in remedy for remedy in answer["remedies"])
    asked, *_others = answer["counterfactuals"]
    assert asked["change"] == "if it asked for 1 GPU" and asked["p50_s"] == 0.0
    code, out, err = flyball(capsys, "--why", job, "--if", "gpus=99")
    assert code == 0 and "if it asked for 99 GPUs: never" in out
    held = str(slurm.submit("--hold", seconds=600))
    code, out, err = flyball(capsys, "--why", held)
    assert "its owner holds it" in out and f"scontrol release {held}" in out
    code, out, err = flyball(capsys, "--why", str(blocker))
    assert "does not wait" in out
    code, out, err = flyball(capsys, "--why", "999999")
    assert code == 2 and "squeue lists no job 999999" in err


def test_nothing_of_the_sites_is_changed(
    slurm: SlurmCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    running = slurm.submit("--nodes=4", "--exclusive", "--time=60", seconds=600)
    in_state(slurm, running, "R")
    waiting = slurm.submit("--gpus=1", "--time=5", "--array=0-3", seconds=600)
    slurm.submit("--hold", seconds=600)
    before = description(slurm)
    assert flyball(capsys, "--once")[0] == 0
    assert flyball(capsys, "--why", f"{waiting}_1")[0] == 0
    assert flyball(capsys, "--write-cluster", str(tmp_path / "site.yaml"))[0] == 0
    adviser, site = Adviser(), site_of(slurm)
    for _ in range(3):
        adviser.observe(site.read())
    assert description(slurm) == before
    assert load_cluster(tmp_path / "site.yaml").device_count == 8


def test_a_controller_that_vanishes_and_comes_back() -> None:
    if absent := missing():
        pytest.skip(f"{', '.join(absent)} not installed; {HOW_TO_GET}")
    with SlurmCluster(nodes=1) as slurm:  # its own: what a test starts ends with it
        survive(slurm)


def survive(slurm: SlurmCluster) -> None:
    held = slurm.submit("--hold", seconds=600)
    poller = Poller(site_of(slurm, 60.0), every_s=0.2)
    poller.start()
    try:
        _polls, reading, error = poller.latest(0, wait_s=400.0)
        assert reading is not None and error == ""
        slurm.stop_controller()
        try:
            # Polls that were under way may still succeed; the failure is then that of the next.
            until(lambda: "slurm" in poller.latest()[2].lower(), "a failed poll")
            kept = poller.latest()[1]
            assert kept is not None and [job.id for job in kept.jobs] == [held]
        finally:
            slurm.start_controller()
        until(lambda: not poller.latest()[2], "a poll that succeeds again")
    finally:
        poller.stop()
        poller.join()


def test_a_controller_that_hangs(slurm: SlurmCluster) -> None:
    with slurm.frozen_controller(), pytest.raises(Unavailable, match="squeue"):
        site_of(slurm, 1.0).read()
    assert site_of(slurm).read().jobs is not None


def test_it_follows_the_queue_until_interrupted(slurm: SlurmCluster) -> None:
    slurm.submit("--hold", seconds=600)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = ["watch", "slurm", "--every", "0.2", "--metrics", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "flyball", *command],
        env=slurm.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def polled_twice() -> bool:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except OSError:
            return False
        polls = re.search(r"flyball_slurm_polls_total ([0-9.]+)", text)
        return polls is not None and float(polls[1]) >= 2 and "jobs_pending" in text

    until(polled_twice, "two polls in the metrics", every_s=0.2)
    process.send_signal(signal.SIGINT)
    output, _none = process.communicate(timeout=400)
    assert process.returncode == 130 and b"metrics on http://127.0.0.1:" in output


def test_metrics_on_the_loopback_interface(slurm: SlurmCluster) -> None:
    blocker = slurm.submit("--nodes=4", "--exclusive", "--time=10", seconds=600)
    in_state(slurm, blocker, "R")
    slurm.submit("--gpus=1", "--time=5", seconds=600)
    advice = Adviser().observe(site_of(slurm).read())
    server = serve_metrics(0, lambda: metric_rows(advice, polls=1, failures=0))
    try:
        assert server.server_address[0] == "127.0.0.1"
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
    assert 'flyball_slurm_jobs_pending{partition="main"} 1.0' in text
    assert "flyball_slurm_jobs_running 1.0" in text
    assert 'flyball_slurm_median_start_seconds{partition="main",quantile="0.5"}' in text
