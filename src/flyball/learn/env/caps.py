"""Puts running jobs under another power cap at an instant, in many twins at once.

The kernel applies the knob `cap` to the jobs that it starts. A policy that reads the price also
wants to slow down those that run already, so at the beginning of an epoch whose cap differs from
the last one's, every running job gets the new level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import Status
from flyball.learn.env.spaces import Ints
from flyball.physics.compile import entry, kernel
from flyball.twin.change import set_cap
from flyball.twin.kernel import advance
from flyball.twin.stepping.desk import open_desk, rows_of
from flyball.twin.twin import Twin

RUNNING = int(Status.RUNNING)


@kernel
def cap_all(state: Any, level: int, now: int) -> None:
    """Put every running job under a cap."""
    for node_id in range(len(state.nodes)):
        row_id = state.nodes[node_id].first_row
        while row_id >= 0:
            row = state.rows[row_id]
            if state.runs[row.job].first_row == row_id:
                set_cap(state, row.job, level, now)
            row_id = row.sibling


@entry
def cap_many(rows: Any, levels: Any, now: Any) -> None:
    """Cap the running jobs of several twins; a level below 0 leaves a twin as it is."""
    for at in range(len(levels)):
        if levels[at] >= 0:
            state, packed, _ledger = open_desk(rows, at)
            advance(state, packed[0], now[at])
            cap_all(state, levels[at], now[at])


def cap_running(twins: list[Twin], levels: Ints, now_us: Ints) -> None:
    """Put the running jobs of each twin under the cap of a level.

    Args:
        twins: up to date at their instants.
        levels: of the table of caps, 0 = none; below 0 = leave the twin as it is.
        now_us: the instants.
    """
    if (levels >= 0).any():
        cap_many(rows_of([twin.desk for twin in twins]), levels, np.asarray(now_us, np.int64))
