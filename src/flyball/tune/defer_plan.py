"""The plan of deferred jobs in compiled code: for each the cheapest hour that has room."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.physics.compile import entry, kernel

LONGEST_H = 48
"""Hours of a run whose cost is compared; a longer run differs little by when it starts."""


@entry
def plan_hours(
    sums: Any, room: Any, latest_h: Any, run_h: Any, devices: Any, margin: Any,
    hours: Any, savings: Any,
) -> None:  # fmt: skip
    """Plan job by job; `hours` and `savings` are written, and `room` shrinks."""
    for job in range(len(run_h)):
        length = min(max(run_h[job], 1e-3), float(LONGEST_H))
        span = int(np.ceil(length))
        last = min(int(latest_h[job]), len(room) - 1)
        now_cost = _cost(sums, 0, length)
        best, best_cost, fits_now = -1, np.inf, False
        for start in range(last + 1):
            fits = True
            for hour in range(start, min(start + span, len(room))):
                if room[hour] < devices[job]:
                    fits = False
                    break
            if not fits:
                continue
            if start == 0:
                fits_now = True
            cost = _cost(sums, start, length)
            if cost < best_cost:
                best, best_cost = start, cost
        if best < 0 or (fits_now and now_cost - best_cost <= margin[job] * length):
            best, best_cost = 0, now_cost
        hours[job] = best
        savings[job] = (now_cost - best_cost) / length
        for hour in range(best, min(best + span, len(room))):
            room[hour] -= devices[job]


@kernel
def _cost(sums: Any, start: int, length: float) -> float:
    """Return the cost of a kW from a whole hour on, for so many hours."""
    end = start + length
    whole = min(int(end), len(sums) - 2)
    part = (end - whole) * (sums[whole + 1] - sums[whole])
    return float(sums[whole] - sums[start] + part)
