"""Start-time forecasts of the live demo against what happened, on this machine.

Each run is `flyball demo live` against a `flyball up` on an empty state folder, so that only what
the owner states is known about the jobs. The forecasts are those given right after submission. They
are compared with the estimate by reservations alone: the twin's schedule of the same jobs if each
ran exactly as long as stated, which is what a scheduler without prediction can offer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyball.bench.figure import Bar, Figure
from flyball.bench.submit.server import running, state_folder
from flyball.control.jobs.request import Demand, cluster_of, nodes_of
from flyball.control.journal.export import to_workload
from flyball.control.journal.history import History
from flyball.control.journal.sql import JobQuery
from flyball.core.errors import Unavailable
from flyball.core.knobs import Knobs
from flyball.core.results import Floats
from flyball.core.units import US_PER_S
from flyball.twin.twin import Twin

Note = Callable[[str], None]

DEMO_S = 1800.0
"""Maximum time of a run of the demo."""
P90_BAR = (80.0, 97.0)
"""Range for the share of jobs, in percent, that start within their p90."""
LEVELS = (0.5, 0.9)


class StartOutcome(NamedTuple):
    """Forecast and actual start of one job that had to wait, in seconds from submission."""

    run: int
    name: str
    p50_s: float
    p90_s: float
    reserved_s: float
    wait_s: float


def run(note: Note, runs: int, scale: float, fresh: bool = True) -> dict[str, Any]:
    """Run the demo several times and compare.

    Args:
        note: receives which run is starting.
        runs: number of runs of the demo.
        scale: length of its jobs.
        fresh: whether each run has an empty state folder; else all share one, and later runs have
            history.
    """
    outcomes: list[StartOutcome] = []
    for answer in _demos(note, runs, scale, fresh):
        outcomes += outcomes_of(answer)
    return {"runs": runs, "scale": scale, "fresh": fresh, **figures(outcomes)}


def _demos(note: Note, runs: int, scale: float, fresh: bool) -> Iterator[dict[str, Any]]:
    for first in range(0, runs, 1 if fresh else runs):
        with state_folder(Path(tempfile.gettempdir())) as state, running(state):
            for number in range(first, first + 1 if fresh else runs):
                note(f"run {number + 1} of {runs}")
                answer = _demo(state, scale)
                answer["run"] = number
                answer["reserved_s"] = reserved(state, [job["id"] for job in answer["jobs"]])
                yield answer


def _demo(state: Path, scale: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "flyball", "demo", "live", "--json", "--state", str(state)]
    done = subprocess.run(
        [*command, "--scale", f"{scale:g}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEMO_S,
        check=False,
    )
    if done.returncode:
        last_line = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise Unavailable(
            f"flyball demo live ended with {done.returncode}: {last_line[0]}",
            "run it by itself to see why",
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def reserved(state: Path, ids: Sequence[int]) -> dict[int, float]:
    """Return seconds from submission to start of each job if all ran exactly as long as stated."""
    with History(state / "journal.db") as history:
        recorded, _ = history.jobs(JobQuery(limit=1000))
        _seq, opened = history.last_opened()
    jobs = sorted((job for job in recorded if job.id in set(ids)), key=lambda job: job.id)
    nodes = nodes_of(opened)
    work = to_workload(jobs, nodes[0].device, Demand(nodes).of, [])
    twin = Twin(
        cluster_of(nodes, "live"),
        replace(work, duration_us=work.estimate_us.copy()),
        Knobs().with_settings([f"{name}={value}" for name, value in opened.knobs.items()]),
    )
    twin.run()
    waits_s = (np.asarray(twin.state.runs.first_start_us) - work.submit_us) / US_PER_S
    by_label = dict(zip(work.ids.tolist(), waits_s.tolist(), strict=True))
    return {job.id: by_label[job.label] for job in jobs}


def outcomes_of(answer: dict[str, Any]) -> list[StartOutcome]:
    """Return the jobs of one run that have a forecast and started."""
    outcomes = []
    for job in answer["jobs"]:
        forecast = answer["forecasts"].get(str(job["id"]))
        if forecast is None or job["start_time"] is None:
            continue  # it had started before the forecast was requested
        wait_s = job["start_time"] - job["submit_time"]
        p50_s, p90_s = (forecast["asked_s"] + forecast[name] for name in ("p50_s", "p90_s"))
        reserved_s = answer["reserved_s"][job["id"]]
        outcomes.append(StartOutcome(answer["run"], job["name"], p50_s, p90_s, reserved_s, wait_s))
    return outcomes


def figures(outcomes: Sequence[StartOutcome]) -> dict[str, Any]:
    """Return coverage and pinball loss, of the forecasts and of reservations alone."""
    if not outcomes:
        raise Unavailable("no job had to wait", "use a larger --scale")
    table = np.array([outcome[2:] for outcome in outcomes], float)
    p50_s, p90_s, reserved_s, wait_s = table.T
    bars = [bar_row("p90 kept %", 100.0 * float(np.mean(wait_s <= p90_s)), P90_BAR, None)]
    for level, forecast_s in zip(LEVELS, (p50_s, p90_s), strict=True):
        ours, plain = pinball(forecast_s, wait_s, level), pinball(reserved_s, wait_s, level)
        name = f"pinball loss at {round(100 * level)} %, s"
        bars.append(bar_row(name, ours, (0.0, plain), plain))
    kept = 100.0 * float(np.mean(wait_s <= p50_s))
    plain = 100.0 * float(np.mean(wait_s <= reserved_s))
    return {
        "jobs": len(outcomes),
        "p50_kept_percent": kept,
        "reserved_kept_percent": plain,
        "median_wait_s": float(np.median(wait_s)),
        "bars": bars,
        "outcomes": [outcome._asdict() for outcome in outcomes],
    }


def pinball(forecast_s: Floats, wait_s: Floats, level: float) -> float:
    """Return the mean loss of a quantile forecast: late costs `level`, early costs the rest."""
    late_s = wait_s - forecast_s
    return float(np.mean(np.maximum(level * late_s, (level - 1.0) * late_s)))


def bar_row(
    name: str, value: float, bounds: tuple[float, float], baseline: float | None
) -> dict[str, Any]:
    figure = Figure(name, value, bar=Bar(*bounds))
    return {
        "name": name,
        "value": value,
        "bar": list(bounds),
        "holds": figure.holds,
        "baseline": baseline,
    }
