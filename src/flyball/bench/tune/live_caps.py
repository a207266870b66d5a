"""Live rows of `flyball bench tune`: a real job on this machine, limited to shares of its core.

The job uses all it gets and is limited to its share by quota and by pauses. Other processes may use
the machine meanwhile, so each window under a cap follows one without, which measures what is
available: what the job then uses is compared with the lower of the two.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from flyball.bench.tune.live import live_row
from flyball.bench.tune.live_runs import Stage, stage
from flyball.experiments.tuning.rows import Row, mean_95

SHARES = (0.1, 0.25, 0.5, 0.8)
WINDOWS, FREE_S, WINDOW_S = 5, 1.0, 2.0
SETTLE_S = 0.3
BUSY = (sys.executable, "-c", "while True: pass")
CAP_BAR_POINTS = 5.0


def rows(progress: Callable[[str], None]) -> list[Row]:
    """Measure all caps; about two minutes on two idle cores."""
    out: list[Row] = []
    with stage() as here:
        for quota in (True, False):
            here.live.engine.quota = quota
            for share in SHARES:
                progress(f"live: a cap of {share:.0%} by {'quota' if quota else 'pauses'}")
                out += cap_rows(here, share)
    return out


def cap_rows(here: Stage, share: float) -> list[Row]:
    """Return how far a job's use is from its share of one core, in points."""
    job = here.submit(BUSY)
    here.until(lambda: here.job(job).started_us, "its start", job)
    errors, over = [], []
    for _ in range(WINDOWS):
        available = measured(here, job, 1.0, FREE_S)
        share_used = measured(here, job, share, WINDOW_S)
        errors.append(100.0 * (share_used - min(share, available)))
        over.append(100.0 * (share_used - share))
    here.plane.cancel(job)
    case = f"live-cap-{share:.0%}-{here.ended(job).values.get('cap_by', '')}"
    metric = "processor time less the cap, points"
    return [
        live_row(case, metric, mean_95(errors), CAP_BAR_POINTS),
        live_row(
            case, "most above the cap, points", (max(over), min(over), max(over)), CAP_BAR_POINTS
        ),
    ]


def measured(here: Stage, job: int, share: float, window_s: float) -> float:
    """Return the share of a core that a job uses under a cap."""
    here.plane.cap(job, share)
    time.sleep(SETTLE_S)
    return used(here, job, window_s)


def used(here: Stage, job: int, window_s: float) -> float:
    """Return processor time over wall time, measured from outside the job."""
    began_s, before_s = time.monotonic(), here.used_s(job)
    time.sleep(window_s)
    after_s = here.used_s(job)
    return (after_s - before_s) / (time.monotonic() - began_s)
