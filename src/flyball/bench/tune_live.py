"""Live rows of `flyball bench tune`: real processes on this machine, steered while they run.

*Elastic*: a PyTorch job shrinks and grows by order, is asked for a checkpoint, and is killed; it
must repeat no step from before its last checkpoint and end on the curve of an undisturbed run.
*Caps*: a job that uses all it gets is kept to shares of its core, by quota and by pauses. Others
may use the machine meanwhile, so each window under a cap follows one without, which says what there
is to be had: what it then uses is compared with the lower of the two.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any

from flyball.bench.live_runs import Point, Stage, stage
from flyball.engines.local.machine import own_cores

STEPS, EVERY, PAUSE_S = 300, 40, 0.01
SHARES = (0.1, 0.25, 0.5, 0.8)
WINDOWS, FREE_S, WINDOW_S = 5, 1.0, 2.0
SETTLE_S = 0.3
BUSY = (sys.executable, "-c", "while True: pass")
CAP_BAR_POINTS = 5.0
T_975 = 2.776
"""Student's t of five windows."""

Row = dict[str, Any]


def rows(progress: Callable[[str], None]) -> list[Row]:
    """Run all of it; about three minutes on two idle cores."""
    with stage() as here:
        progress("live: an undisturbed run")
        plain = undisturbed(here)
        progress("live: a run that shrinks, grows, saves and is killed")
        job = disturbed(here)
        found = elastic_rows(plain, here.curve(job))
        for quota in (True, False):
            here.live.engine.quota = quota
            for share in SHARES:
                progress(f"live: a cap of {share:.0%} by {'quota' if quota else 'pauses'}")
                found += cap_rows(here, share)
    return found


# Elastic -----------------------------------------------------------------------------------


def undisturbed(here: Stage) -> list[Point]:
    """The curve of a run that nobody touches."""
    job = here.train(STEPS, EVERY, PAUSE_S, cpus=cores())
    here.ended(job)
    return here.curve(job)


def disturbed(here: Stage) -> int:
    """The same with everything that can be done to it."""
    job = here.train(STEPS, EVERY, PAUSE_S, cpus=cores())
    here.until_step(job, STEPS // 8)
    here.plane.resize(job, 1)
    here.until_step(job, STEPS // 4)
    here.plane.checkpoint(job)
    here.until_step(job, 3 * STEPS // 8)
    here.plane.resize(job, cores())
    here.until_step(job, STEPS // 2)
    here.lose(job)
    here.ended(job)
    return job


def cores() -> int:
    """Two, where there are."""
    return min(2, len(own_cores()))


def elastic_rows(plain: Sequence[Point], tuned: Sequence[Point]) -> list[Row]:
    """What was lost, and how far the curve is from that of the undisturbed run."""
    attempts = max(each.attempt for each in tuned)
    last = {at: [each for each in tuned if each.attempt == at] for at in range(1, attempts + 1)}
    repeated = [
        last[at - 1][-1].step + 1 - last[at][0].step for at in range(2, attempts + 1) if last[at]
    ]
    # Killed at any point, it may have to repeat what came after a checkpoint, and no more.
    beyond = max([0, *(each - EVERY for each in repeated)])
    final = {each.step: each.loss for each in tuned}
    missing = STEPS - len(final)
    away = [
        100.0 * abs(final[each.step] - each.loss) / max(each.loss, 1e-9)
        for each in plain
        if each.step in final
    ]
    sizes = len({each.threads for each in tuned})
    return [
        _row("live-elastic", "steps lost beyond the last checkpoint", beyond, beyond, beyond, 0.0),
        _row("live-elastic", "steps missing of the curve", missing, missing, missing, 0.0),
        _row("live-elastic", "loss away from undisturbed, %", fmean(away), 0.0, max(away), 1.0),
        _row("live-elastic", "sizes that it had", sizes, sizes, sizes, float(cores())),
    ]


# Caps --------------------------------------------------------------------------------------


def cap_rows(here: Stage, share: float) -> list[Row]:
    """A job kept to a share of one core: how far what it used is from that, in points."""
    job = here.submit(BUSY)
    here.until(lambda: here.job(job).started_us, "its start")
    errors, over = [], []
    for _ in range(WINDOWS):
        there = measured(here, job, 1.0, FREE_S)
        found = measured(here, job, share, WINDOW_S)
        errors.append(100.0 * (found - min(share, there)))
        over.append(100.0 * (found - share))
    here.plane.cancel(job)
    case = f"live-cap-{share:.0%}-{here.ended(job).values.get('cap_by', '')}"
    mean, half = fmean(errors), T_975 * stdev(errors) / math.sqrt(len(errors))
    metric = "processor time less the cap, points"
    return [
        _row(case, metric, mean, mean - half, mean + half, CAP_BAR_POINTS),
        _row(case, "most above the cap, points", max(over), min(over), max(over), CAP_BAR_POINTS),
    ]


def measured(here: Stage, job: int, share: float, window_s: float) -> float:
    """The share of a core that a job uses under a cap."""
    here.plane.cap(job, share)
    time.sleep(SETTLE_S)
    return used(here, job, window_s)


def used(here: Stage, job: int, window_s: float) -> float:
    """Processor time over time, measured from outside."""
    began_s, before_s = time.monotonic(), here.used_s(job)
    time.sleep(window_s)
    after_s = here.used_s(job)
    return (after_s - before_s) / (time.monotonic() - began_s)


def _row(case: str, metric: str, value: float, low: float, high: float, bar: float) -> Row:
    return {
        "case": case, "load": None, "baseline": "undisturbed", "metric": metric,
        "value": value, "low": low, "high": high, "bar": bar,
    }  # fmt: skip
