"""A storm: own jobs on real Slurm daemons while everything around them is killed.

slurmctld is killed at random, also within a second of an sbatch; the control plane is killed and
stays away for a while; one node dies with all that runs on it. Slurm forgets ended jobs after 2 s.
The storm passes once nine of ten jobs have ended: slurmctld that is killed every few seconds for
ever never finds out which jobs its nodes have lost.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flyball.bench.engines.poll_cost import as_row
from flyball.bench.engines.slurm_cluster import SlurmCluster
from flyball.bench.figure import Bar, Figure
from flyball.core.errors import FlyballError
from flyball.core.jobs import JobState
from flyball.sdk.client import Client
from flyball.sdk.errors import ApiError

SETTINGS = {"MinJobAge": "2", "SlurmdTimeout": "10", "BatchStartTimeout": "10"}
SCRIPT = (
    'echo s >> "$0/$FLYBALL_JOB_ID.$FLYBALL_ATTEMPT"; sleep "$1"; '
    'echo e >> "$0/$FLYBALL_JOB_ID.$FLYBALL_ATTEMPT"; exit "$2"'
)
"""Notes its start and its end in a file of its token."""
LIMIT_S = 1800.0
UP_S = 600.0
"""Timeout of a start; the first one on a machine compiles the decision kernel."""
RAGES_FOR = 0.9
"""Part of the jobs that end in the storm; the others may end after it."""
DOWN_S = 10.0
"""How long the control plane stays away."""
REUSED = "slurm gave the number"
"""Begin of the line with which the control plane logs that a number was given again."""
Note = Callable[[str], None]


class Storm:
    """One storm."""

    def __init__(self, slurm: SlurmCluster, folder: Path, seed: int, down_s: float) -> None:
        self._slurm, self._folder, self._down_s = slurm, folder, down_s
        self._rng = random.Random(seed)
        self._state, self.runs = folder / "state", folder / "runs"
        self._state.mkdir(mode=0o700)
        self.runs.mkdir()
        self._up: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._answering = threading.Lock()
        self.kills: Counter[str] = Counter()

    # The control plane -------------------------------------------------------------------

    def start(self) -> None:
        """Start the control plane, and wait until it answers."""
        log = (self._folder / "up.log").open("ab")
        command = [
            *(sys.executable, "-m", "flyball", "up", "--engine", "slurm", "--no-agent"),
            *("--no-foresight", "--state", str(self._state), "--queue-s", "20"),
        ]
        self._up = subprocess.Popen(
            command, stdout=log, stderr=log, env=self._slurm.environment, cwd=self._folder
        )
        log.close()
        deadline_s = time.monotonic() + UP_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(ApiError, OSError), Client(self._state) as client:
                client.queue()
                return
            if self._up.poll() is not None:
                break
            time.sleep(0.2)
        said = (self._folder / "up.log").read_text("utf-8", "replace")[-500:]
        raise FlyballError(f"the control plane did not start: {said}", "see above")

    def kill(self) -> None:
        """Kill the control plane."""
        if self._up is not None:
            self._up.kill()
            self._up.wait()
            self._up = None

    def ask(self, question: Callable[[Client], Any]) -> Any:
        """Ask the control plane, again until it answers."""
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            try:
                with self._answering, Client(self._state) as client:
                    return question(client)
            except ApiError as error:
                if error.exit_code == 2 or time.monotonic() > deadline_s:
                    raise
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(0.3)

    # What is done to it ------------------------------------------------------------------

    def rage(self) -> None:
        """Kill one thing after another until it is over."""
        node_is_due = True
        while not self._over.wait(self._rng.uniform(2.0, 6.0)):
            what = self._rng.choice(("controller", "after sbatch", "after sbatch", "plane", "node"))
            if what == "node" and not node_is_due:
                what = "controller"
            node_is_due = node_is_due and what != "node"
            if what == "plane":
                with self._answering:
                    self.kill()
                    time.sleep(self._down_s)
                    self.start()
            elif what == "node":
                name = self._rng.choice(self._slurm.node_names)
                self._slurm.kill_node(name)
                time.sleep(self._rng.uniform(2.0, 5.0))
                self._slurm.start_node(name)
            else:
                if what == "after sbatch":
                    self._await_sbatch()
                    time.sleep(self._rng.uniform(0.0, 1.0))
                self._slurm.stop_controller(signal.SIGKILL)
                time.sleep(self._rng.uniform(0.2, 3.0))
                self._slurm.start_controller()
            self.kills[what] += 1
            self._slurm.resume_nodes()

    def _await_sbatch(self) -> None:
        """Wait, not for long, until a job has been submitted."""
        folder = self._state / "slurm" / "slurm"
        before = set(os.listdir(folder)) if folder.is_dir() else set()
        for _ in range(100):
            if folder.is_dir() and set(os.listdir(folder)) - before:
                return
            time.sleep(0.05)

    def run(self, jobs: int, note: Note) -> list[dict[str, Any]]:
        """Run the jobs through the storm; return their records."""
        self.start()
        rager = threading.Thread(target=self.rage, name="storm")
        ids: list[int] = []
        rager.start()
        try:
            for number in range(jobs):
                ids.append(self.ask(self._submission(number)))
                time.sleep(self._rng.uniform(0.0, 0.2))
            deadline_s, told = time.monotonic() + LIMIT_S, 0
            while left := len(self.ask(lambda client: client.queue())):
                done = jobs - left
                if done >= RAGES_FOR * jobs:
                    self._over.set()
                if done >= told + jobs // 5:
                    told = done
                    note(f"{done} of {jobs} jobs have ended; killed {dict(self.kills)}")
                if time.monotonic() > deadline_s:
                    raise FlyballError(f"{left} jobs still wait after {LIMIT_S:g} s", "")
                time.sleep(1.0)
                if self._rng.random() < 0.2:
                    self._slurm.resume_nodes()
        finally:
            self._over.set()
            rager.join()
        return [self.ask(partial(_job, job_id)) for job_id in ids]

    def _submission(self, number: int) -> Callable[[Client], int]:
        seconds, code = self._rng.uniform(0.5, 4.0), int(self._rng.random() < 0.1)
        gpus = int(self._rng.random() < 0.4)
        argv = ["/bin/sh", "-c", SCRIPT, str(self.runs), f"{seconds:.2f}", str(code)]

        def submit(client: Client) -> int:
            job = {
                "argv": argv, "cpus": 1, "gpus": gpus, "cwd": "/", "estimate_s": seconds,
                "grace_s": 1.0, "name": f"exit{code}",
            }  # fmt: skip
            return client.submit_job(job, key=f"storm-{number}")

        return submit

    @property
    def reuses(self) -> int:
        """How often the control plane noticed that a number was given again."""
        return (self._folder / "up.log").read_text("utf-8", "replace").count(REUSED)


def _job(job_id: int, client: Client) -> dict[str, Any]:
    return client.job(job_id)


def measure(note: Note, jobs: int = 200, seed: int = 1, down_s: float = DOWN_S) -> dict[str, Any]:
    """Run a storm; return figures with their bars."""
    with (
        SlurmCluster(nodes=4, cpus=4, gpus=2, settings=SETTINGS) as slurm,
        tempfile.TemporaryDirectory(prefix="fb-storm-") as folder,
    ):
        storm = Storm(slurm, Path(folder), seed, down_s)
        began_s = time.monotonic()
        try:
            records = storm.run(jobs, note)
        finally:
            storm.kill()
        took_s = time.monotonic() - began_s
        starts = {path.name: path.read_text().split() for path in storm.runs.iterdir()}
        reuses = storm.reuses
    return answer_of(records, starts, storm.kills, reuses, took_s)


def answer_of(
    records: list[dict[str, Any]], starts: dict[str, list[str]], kills: Counter[str], reuses: int,
    took_s: float,
) -> dict[str, Any]:  # fmt: skip
    """Return the figures of a storm.

    Args:
        records: the jobs as the control plane has them at the end.
        starts: what the programs noted, by token.
    """
    twice = [name for name, notes in starts.items() if notes.count("s") > 1]
    begun = {name.partition(".")[0] for name in starts}
    lost = [record for record in records if str(record["id"]) not in begun]
    wrong = [record for record in records if not _is_right(record, starts)]
    attempts = sum(record["attempts"] for record in records)
    rows = [
        Figure("tokens that ran more than once", len(twice), "", Bar.at_most(0)),
        Figure(
            "jobs whose end is not known, or not the one that was", len(wrong), "", Bar.at_most(0)
        ),
        Figure("jobs that were lost", len(lost), "", Bar.at_most(0)),
        Figure("jobs", len(records), ""),
        Figure("attempts", attempts, ""),
        Figure("slurmctld killed", kills["controller"] + kills["after sbatch"], ""),
        Figure("of these within a second of an sbatch", kills["after sbatch"], ""),
        Figure("control plane killed", kills["plane"], ""),
        Figure("nodes killed", kills["node"], ""),
        Figure("numbers that Slurm gave again, noticed", reuses, ""),
        Figure("time", took_s, "s"),
    ]
    named = ("id", "state", "exit_code", "attempts", "reason")
    return {
        "jobs": len(records),
        "kills": dict(kills),
        "figures": [as_row(row) for row in rows],
        "twice": twice,
        "wrong": [{name: record[name] for name in named} for record in wrong],
    }


def _is_right(record: dict[str, Any], starts: dict[str, list[str]]) -> bool:
    """Return whether a job ended as its name says, by its record and by its last program."""
    code = int(record["name"].removeprefix("exit"))
    state = JobState.FAILED if code else JobState.COMPLETED
    last = starts.get(f"{record['id']}.{record['attempts']}", [])
    ended = record["state"], record["exit_code"], last
    return bool(ended == (state, code, ["s", "e"]))
