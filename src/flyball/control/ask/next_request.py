"""Suggests the next request after a job was killed at a limit: more memory, more time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flyball.control.ask.reported_steps import STEP, TOTALS
from flyball.core.jobs import Job
from flyball.core.units import duration_text

MORE_MEMORY = 2.0
"""Factor on a memory limit that was too small: the job may have needed far more."""
MEMORY_HEADROOM = 1.25
"""Factor on the peak, if that was above the limit."""
MORE_TIME = 2.0
"""Factor on a time limit, if the job reported no progress."""
TIME_HEADROOM = 1.1
"""Factor on the run time extrapolated from its progress."""
MIN_PROGRESS = 0.01
"""Below this fraction done, the remaining time is not extrapolated."""
EPOCH_TOTALS = ("total_epochs", "max_epochs", "epochs")
"""Names under which a job may report its total number of epochs."""
LONG_S = 20 * 60
"""Above this, limits are suggested in steps of five minutes, below in minutes."""


def after_out_of_memory(job: Job, peak_mib: float, largest_node_mib: float) -> dict[str, Any]:
    """Suggest a memory limit for a job that was killed at its limit.

    Args:
        peak_mib: its observed peak; 0 = not known.
        largest_node_mib: the host memory of the largest node; 0 = not known.
    """
    limit_mib = job.spec.memory_mib
    if not limit_mib:
        return {"text": "ran out of memory without a limit of its own; state what it needs: --mem"}
    more_mib = math.ceil(max(limit_mib * MORE_MEMORY, peak_mib * MEMORY_HEADROOM))
    killed = f"was killed at --mem {memory_option(limit_mib)}"
    if not largest_node_mib or more_mib <= largest_node_mib:
        text = f"{killed}; next time: --mem {memory_option(more_mib)}"
        return {"memory_mib": more_mib, "text": text}
    most_mib = math.floor(largest_node_mib)
    if most_mib > limit_mib:
        text = (
            f"{killed}; next time: --mem {memory_option(most_mib)}, all that the largest node has"
        )
        return {"memory_mib": most_mib, "text": text}
    return {
        "text": f"{killed}; the largest node has {memory_option(most_mib)}: "
        "have the job use less, e.g. smaller batches or fewer workers"
    }


def after_timeout(job: Job, run_s: float, progress: Mapping[str, Any]) -> dict[str, Any]:
    """Suggest a time limit for a job that reached its limit.

    Args:
        run_s: the total run time of its attempts.
        progress: the latest of each value that it reported.
    """
    limit_s = job.spec.limit_s or run_s
    done = fraction_done(progress)
    reached = f"reached its limit of {duration_text(limit_s)}"
    if done is None or done < MIN_PROGRESS:
        next_s = _round_up_s(limit_s * MORE_TIME)
        how_far = "reported no progress" if done is None else f"had done {done:.1%}"
        ask = f"-t {next_s // 60}, twice as long, which is a guess"
        return {"limit_s": next_s, "text": f"{reached} and {how_far}; next time: {ask}"}
    next_s = _round_up_s(max(run_s / done, limit_s) * TIME_HEADROOM)
    text = f"{reached} at {done:.0%} progress; next time: -t {next_s // 60}"
    return {"limit_s": next_s, "progress": done, "text": text}


def fraction_done(progress: Mapping[str, Any]) -> float | None:
    """Return the fraction of its work that a job reported as done; None if it did not.

    Read from steps or epochs with their total, `progress` or `fraction` (0 to 1), or `percent`.
    """
    for count, totals in ((STEP, TOTALS), ("epoch", EPOCH_TOTALS)):
        done = _number(progress.get(count))
        total = next(filter(None, (_number(progress.get(name)) for name in totals)), None)
        if done is not None and total:
            return min(1.0, done / total)
    for name, full in (("progress", 1.0), ("fraction", 1.0), ("percent", 100.0)):
        done = _number(progress.get(name))
        if done is not None and done <= full:
            return done / full
    return None


def memory_option(mib: int) -> str:
    """Return a size as `--mem` takes it: `4G` for whole gibibytes, else `1250M`."""
    return f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"


def _number(value: Any) -> float | None:
    """Return a value as a float if it is a non-negative number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _round_up_s(seconds: float) -> int:
    step_s = 60 if seconds <= LONG_S else 300
    return max(60, math.ceil(round(seconds, 3) / step_s) * step_s)
