"""The control plane is killed repeatedly while jobs are submitted and run: nothing is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flyball.control.decide.verify import Verifier
from flyball.control.journal.history import History
from flyball.control.plane import JOURNAL
from flyball.core.events import Ended
from flyball.core.jobs import JobState
from flyball.sdk.client import Client
from flyball.sdk.errors import ApiError, NoControlPlane

PROCESS = Path(__file__).with_name("plane_process.py")
SCRIPT = 'printf "begin %s\\n" "$FLYBALL_ATTEMPT" >> "$0"; sleep "$1"; echo end >> "$0"'


class Killed:
    """Restarts a control plane whenever it is killed."""

    def __init__(self, state: Path, chance: float) -> None:
        self.state, self.chance = state, chance
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log = open(state / "planes.log", "ab")  # noqa: SIM115

    def keep_up(self, may_die: bool = True) -> None:
        """Start it if it is not running."""
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None:
            assert self.process.returncode == -9, (self.state / "planes.log").read_text()[-3000:]
        (self.state / "endpoint.json").unlink(missing_ok=True)
        chance = self.chance if may_die else 0.0
        self.starts += 1
        command = [sys.executable, str(PROCESS), str(self.state), str(self.starts), str(chance)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    @property
    def kills(self) -> list[str]:
        path = self.state / "kills"
        return path.read_text().splitlines() if path.exists() else []

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.log.close()


def job(folder: Path, number: int, rng: random.Random) -> dict[str, Any]:
    file = folder / str(number)
    seconds = rng.choice(["0", "0", "0.02", "0.2"])
    return {"argv": ["/bin/sh", "-c", SCRIPT, str(file), seconds], "name": f"j{number}", "cwd": "/"}


def submit(client: Client, jobs: list[dict[str, Any]], key: str) -> list[int] | None:
    """Return the ids if they are accepted; None if it has to be retried."""
    try:
        return client.submit_many(jobs, key=key)
    except (ApiError, NoControlPlane, OSError):
        return None


def run_and_kill(state: Path, jobs: int, kills: int, seed: int = 0) -> Killed:
    """Submit jobs in small batches while the control plane is killed `kills` times."""
    out = state / "out"
    out.mkdir(mode=0o700)
    rng = random.Random(seed)
    chance = 0.02
    planes = Killed(state, chance)
    accepted: dict[int, int] = {}
    waiting = list(range(jobs))
    batch: list[int] = []
    try:
        end_s = time.monotonic() + 600 + 60 * kills
        while True:
            assert time.monotonic() < end_s, f"{len(accepted)} accepted, {len(planes.kills)} kills"
            planes.keep_up(may_die=len(planes.kills) < kills)
            if not (state / "endpoint.json").exists():
                time.sleep(0.02)
                continue
            if not batch and waiting:
                size = min(len(waiting), rng.choice([1, 1, 2, 5, 10]))
                batch, waiting = waiting[:size], waiting[size:]
            with Client(state) as client:
                if batch:
                    asked = [job(out, number, random.Random(number)) for number in batch]
                    ids = submit(client, asked, f"key-{batch[0]}")
                    if ids is not None:
                        accepted |= dict(zip(ids, batch, strict=True))
                        batch = []
                elif is_done(client):
                    if len(planes.kills) >= kills:
                        break
                    # All are done; go on with more until it died often enough. Sent sooner they
                    # would pile up on a busy machine.
                    waiting = list(range(jobs, jobs + 10))
                    jobs += 10
            time.sleep(rng.random() * 0.02)
    finally:
        planes.stop()
    check(state, out, accepted)
    return planes


def is_done(client: Client) -> bool:
    try:
        return not client.queue()
    except (ApiError, NoControlPlane, OSError):
        return False


def check(state: Path, out: Path, accepted: dict[int, int]) -> None:
    """Check that every accepted job ran once, from start to end, and is on record as such."""
    with History(state / JOURNAL) as history:
        jobs = {job_id: history.job(job_id) for job_id in accepted}
        ended = Counter(
            event.job for _seq, event in every_event(history) if isinstance(event, Ended)
        )
    for job_id, number in accepted.items():
        kept = jobs[job_id]
        assert kept is not None
        lines = (out / str(number)).read_text().split("\n")[:-1]
        assert len(lines) == 2 and lines[0].startswith("begin"), (job_id, lines, kept)
        assert lines[1] == "end"
        assert kept.state == JobState.COMPLETED, kept
        assert ended[job_id] == 1


def every_event(history: History) -> Any:
    after = 0
    while page := history.events(after, 1000):
        after = page[-1][0]
        yield from page


def verified(state: Path) -> Any:
    verifier = Verifier()
    with History(state / JOURNAL) as history:
        return verifier.follow(every_event(history))


def test_nothing_is_lost_or_run_twice(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    planes = run_and_kill(tmp_path, 500, 25)
    assert len(planes.kills) >= 25
    assert len(set(planes.kills)) >= 5, "it should die at many different points"
    verdict = verified(tmp_path)
    assert verdict.decisions > 50
    assert verdict.differing == []


@pytest.mark.soak
def test_nothing_is_lost_in_two_hundred_kills(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    planes = run_and_kill(tmp_path, 500, 200, seed=1)
    assert len(planes.kills) >= 200
    assert verified(tmp_path).differing == []
