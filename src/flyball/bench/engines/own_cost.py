"""Measures what our queue in front of Slurm costs: time to start, and decision cycles."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyball.bench.engines.poll_cost import as_row
from flyball.bench.engines.slurm_cluster import SlurmCluster
from flyball.bench.figure import Figure
from flyball.core.errors import FlyballError
from flyball.core.jobs import JobSpec

WAIT_S = 120.0
FOREIGN_EVERY = 250
Note = Callable[[str], None]


def measure(note: Note, pairs: int = 15, foreign: int = 1000) -> dict[str, Any]:
    """Start pairs of jobs, one by sbatch and one through us; then time cycles beside others."""
    from flyball.app import policy_settings
    from flyball.control.ask.bills import Prices
    from flyball.engines.slurm.own_request import SlurmSettings
    from flyball.live import build_live

    (easy,) = policy_settings("easy", [])
    with SlurmCluster(nodes=4, cpus=4, gpus=2) as slurm, tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        state = folder / "state"
        state.mkdir(mode=0o700)
        before = {name: os.environ.get(name) for name in ("SLURM_CONF", "PATH")}
        os.environ.update({name: slurm.environment[name] for name in before})
        try:
            live = build_live(state, easy, Prices(), slurm=SlurmSettings())
            live.driver.start()
            plain, ours = [], []
            for number in range(pairs):
                note(f"pair {number + 1} of {pairs}")
                plain.append(_by_sbatch(slurm, folder / f"p{number}"))
                ours.append(_by_us(live.plane, folder / f"o{number}"))
            live.driver.stop()
            note(f"{foreign:,} jobs of others")
            alone_ms = _cycles(live)
            slurm.submit("--nodes=4", "--exclusive", "--time=60", seconds=3000)
            for number in range(foreign):
                if number % FOREIGN_EVERY == 0:
                    note(f"submitting: {number:,} of {foreign:,}")
                slurm.submit("--gres=gpu:1", "--time=30", seconds=60)
            beside_ms = _cycles(live)
            live.plane.close()
            live.engine.close()
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
    added = [mine - theirs for mine, theirs in zip(ours, plain, strict=True)]
    rows = [
        Figure("submit to start by sbatch, median", statistics.median(plain), "s"),
        Figure("submit to start through Flyball, median", statistics.median(ours), "s"),
        Figure("added by Flyball, median of pairs", statistics.median(added), "s"),
        Figure("a decision cycle, median", statistics.median(alone_ms), "ms"),
        Figure(
            f"a decision cycle beside {foreign:,} jobs of others, median",
            statistics.median(beside_ms), "ms",
        ),
        Figure(
            f"a decision cycle beside {foreign:,} jobs of others, longest", max(beside_ms), "ms"
        ),
    ]  # fmt: skip
    return {"pairs": pairs, "figures": [as_row(row) for row in rows]}


def _by_sbatch(slurm: SlurmCluster, mark: Path) -> float:
    began_s = time.time()
    slurm.run("sbatch", "--output=/dev/null", "--export=FLYBALL=1", f"--wrap=touch {mark}")
    return _until_there(mark) - began_s


def _by_us(plane: Any, mark: Path) -> float:
    began_s = time.time()
    plane.submit([JobSpec(("touch", str(mark)), estimate_s=1.0)])
    return _until_there(mark) - began_s


def _until_there(mark: Path) -> float:
    """Return when a file was made."""
    deadline_s = time.monotonic() + WAIT_S
    while not mark.exists():
        if time.monotonic() > deadline_s:
            raise FlyballError(f"a job did not start within {WAIT_S:g} s", "")
        time.sleep(0.005)
    return mark.stat().st_mtime


def _cycles(live: Any, count: int = 30) -> list[float]:
    """Return how long cycles take, each with a decision about a new job that has to wait."""
    spec = JobSpec(("true",), cpus=4, estimate_s=600.0, hold=False)
    times = []
    for _ in range(count):
        held = live.plane.submit([spec])
        began_s = time.perf_counter()
        live.plane.step()
        times.append((time.perf_counter() - began_s) * 1000.0)
        live.plane.cancel_all(held)
    return times
