"""When will each pending job start? Roll-outs of the twin from a live snapshot.

Each roll-out gives every job one possible run time and lets the twin go on from now, by the
same decisions as live. Jobs that are still to come are not in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.knobs import Knobs
from flyball.core.state import clone
from flyball.core.units import FOREVER_US
from flyball.twin import kernel, live_kernel
from flyball.twin.live import Snapshot, View

Floats = npt.NDArray[np.float64]


def start_times(cluster: Cluster, view: View, knobs: Knobs, now_us: int, draws: Floats) -> Floats:
    """Seconds from now until each job starts, a row per roll-out; NaN = it never did.

    Args:
        draws: run times in microseconds, a row per roll-out, a column per job of the view; of a
            running job the whole of its present attempt.
    """
    snapshot = Snapshot(cluster, view, knobs, now_us)
    packed = knobs.pack()
    starts = np.zeros(draws.shape)
    running = snapshot.state.runs.status == Status.RUNNING
    for at, work_us in enumerate(draws):
        state = clone(snapshot.state)
        jobs: Any = state.jobs.copy()
        jobs.work_us = np.maximum(1.0, work_us + np.where(running, 0.0, state.runs.done_us))
        state = state._replace(jobs=jobs)
        state.runs.done_us[running] = 0.0
        state.runs.attempt[~running] = 0
        live_kernel.decide_live(state, packed, False)
        live_kernel.foresee(state)
        kernel.run(state, packed, FOREVER_US - 1, False)
        first = state.runs.first_start_us
        starts[at] = np.where(first >= 0, np.maximum(0, first - now_us) / 1e6, np.nan)
    starts[:, running] = 0.0
    return starts
