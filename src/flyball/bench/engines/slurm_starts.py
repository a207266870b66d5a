"""Measures start-time forecasts on a real Slurm queue, beside `squeue --start`.

Jobs of several kinds are submitted to a private cluster so that some always wait. A job's first
reading with a forecast and with Slurm's own estimate counts; the loss of both is that of its start.
Slurm plans every second here, with a resolution of one second and for the whole queue: its
strongest setting. Its estimates rest on time limits, which users set well above what jobs need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flyball.bench.engines.poll_cost import as_row
from flyball.bench.engines.slurm_cluster import SlurmCluster
from flyball.bench.figure import Bar, Figure
from flyball.bench.starts import pinball
from flyball.core.errors import Unavailable
from flyball.engines.slurm.commands import Commands
from flyball.engines.slurm.poll import Site
from flyball.watch.adviser import Advice, Adviser

WAITING = 24
"""Number of pending jobs that are kept in the queue."""
EVERY_S = 1.0
COVERED = (85.0, 95.0)
LIMIT_S = 7200.0
Note = Callable[[str], None]


class Kind(NamedTuple):
    """A kind of job: what it asks for, and how long it runs (a log-normal distribution)."""

    name: str
    gpus: int
    limit_min: int
    median_s: float
    sigma: float


KINDS = (
    Kind("probe", 1, 1, 4.0, 0.4),
    Kind("train", 2, 2, 14.0, 0.5),
    Kind("sweep", 1, 3, 9.0, 0.3),
    Kind("eval", 1, 1, 6.0, 0.8),
)


class StartOutcome(NamedTuple):
    """One job: its forecast, that before correction, Slurm's at the same instant, and its wait."""

    label: str
    p50_s: float
    p90_s: float
    raw_p50_s: float
    raw_p90_s: float
    slurm_s: float
    wait_s: float


Expected = tuple[float, tuple[float, float, float, float, float]]
"""When a forecast was made, and the values of its outcome that are known then."""


def measure(note: Note, starts: int, seed: int = 1) -> dict[str, Any]:
    """Submit jobs until `starts` of those forecast have started; return figures with bars."""
    rng = np.random.default_rng(seed)
    first: dict[str, Expected] = {}
    outcomes: list[StartOutcome] = []
    with SlurmCluster() as slurm:
        site, adviser = Site(Commands(slurm.environment)), Adviser()
        deadline_s = time.monotonic() + LIMIT_S
        submitted = 0
        while len(outcomes) < starts:
            advice = adviser.observe(site.read())
            for label, began_s in advice.started.items():
                if label in first:
                    at_s, expected_s = first.pop(label)
                    outcomes.append(StartOutcome(label, *expected_s, max(0.0, began_s - at_s)))
                    if len(outcomes) % 25 == 0:
                        note(f"{len(outcomes)} of {starts} starts")
            _remember(first, advice)
            wanted = starts + WAITING - submitted
            for _ in range(min(wanted, WAITING - len(advice.starts))):
                _submit(slurm, rng)
                submitted += 1
            if not advice.starts and not advice.running and submitted >= starts + WAITING:
                break
            if time.monotonic() > deadline_s:
                raise Unavailable(f"only {len(outcomes)} starts in {LIMIT_S:g} s", "use --starts")
            time.sleep(EVERY_S)
    return {"starts": len(outcomes), "seed": seed, **figures(outcomes)}


def _remember(first: dict[str, Expected], advice: Advice) -> None:
    """Keep a job's first forecast that can be compared with Slurm's."""
    for start in advice.starts:
        forecast, raw = start.forecast, start.raw
        if forecast is None or raw is None or start.slurm_s is None or forecast.p90_s <= 0:
            continue
        expected_s = (forecast.p50_s, forecast.p90_s, raw.p50_s, raw.p90_s, start.slurm_s)
        first.setdefault(start.job.label, (advice.reading.time_s, expected_s))


def _submit(slurm: SlurmCluster, rng: np.random.Generator) -> None:
    kind = KINDS[int(rng.integers(len(KINDS)))]
    seconds = min(60.0 * kind.limit_min, kind.median_s * float(np.exp(kind.sigma * rng.normal())))
    slurm.submit(
        f"--gres=gpu:{kind.gpus}", f"--time={kind.limit_min}", f"--job-name={kind.name}",
        seconds=max(1.0, round(seconds, 1)),
    )  # fmt: skip


def figures(outcomes: Sequence[StartOutcome]) -> dict[str, Any]:
    """Return coverage, losses and widths of the forecasts, and Slurm's beside them."""
    if not outcomes:
        raise Unavailable("no forecast job started", "use more --starts")
    table = np.array([outcome[1:] for outcome in outcomes], float)
    p50_s, p90_s, raw50_s, raw90_s, slurm_s, wait_s = table.T
    rows = [
        Figure("p90 held", 100.0 * float(np.mean(wait_s <= p90_s)), "%", Bar(*COVERED)),
        Figure("p50 held", 100.0 * float(np.mean(wait_s <= p50_s)), "%"),
        Figure("p90 before correction held", 100.0 * float(np.mean(wait_s <= raw90_s)), "%"),
        Figure("squeue --start held", 100.0 * float(np.mean(wait_s <= slurm_s)), "%"),
    ]
    for level, ours_s, raw_s in ((0.5, p50_s, raw50_s), (0.9, p90_s, raw90_s)):
        slurms = pinball(slurm_s, wait_s, level)
        name = f"pinball loss at {round(100 * level)} %"
        rows.append(Figure(name, pinball(ours_s, wait_s, level), "s", Bar.at_most(slurms)))
        rows.append(Figure(f"{name}, squeue --start", slurms, "s"))
        rows.append(Figure(f"{name}, before correction", pinball(raw_s, wait_s, level), "s"))
    rows += [
        Figure("width of p50 to p90, median", float(np.median(p90_s - p50_s)), "s"),
        Figure("width before correction, median", float(np.median(raw90_s - raw50_s)), "s"),
        Figure("wait after the forecast, median", float(np.median(wait_s)), "s"),
    ]
    return {
        "figures": [as_row(row) for row in rows],
        "outcomes": [outcome._asdict() for outcome in outcomes],
    }
