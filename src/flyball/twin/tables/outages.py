"""Outages of nodes: drawn before the run, so that every policy meets the same ones."""

from __future__ import annotations

import numpy as np

from flyball.core import records as r
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.records import Records, records
from flyball.core.units import S_PER_HOUR, US_PER_S
from flyball.core.workload import Workload

MAX_OUTAGES = 2_000_000
"""Maximum expected number of outages in a run."""


def draw_outages(cluster: Cluster, workload: Workload, effects: Effects) -> Records:
    """Draw the outages of all nodes, in order of time; a node fails only while it is up.

    Times between repair and failure and times to repair are exponential. They cover the arrivals
    and, after the last, as long again as all the work would take on one device in four.
    """
    if effects.mtbf_h == 0:
        return records(0, r.OUTAGE)
    work_us = float((workload.duration_us * workload.devices).sum())
    tail_us = 4 * work_us / cluster.device_count + float(workload.duration_us.max())
    horizon_us = workload.span_us + tail_us
    mtbf_us = effects.mtbf_h * S_PER_HOUR * US_PER_S
    repair_us = effects.repair_h * S_PER_HOUR * US_PER_S
    expected = cluster.node_count * (horizon_us / (mtbf_us + repair_us) + 1)
    if expected > MAX_OUTAGES:
        raise BadInput(
            f"a failure every {effects.mtbf_h:g} h on each of {cluster.node_count} nodes "
            f"means {expected:.2g} outages",
            "use a longer mtbf_h",
        )
    rng = np.random.default_rng([effects.seed, 2])
    start_us = int(workload.submit_us[0])
    drawn: list[tuple[int, int, int]] = []
    for node in range(cluster.node_count):
        at_us = 0.0
        while True:
            at_us += rng.exponential(mtbf_us)
            if at_us > horizon_us:
                break
            down_us = start_us + round(at_us)
            at_us += max(1.0, rng.exponential(repair_us))
            drawn.append((down_us, max(down_us + 1, start_us + round(at_us)), node))
    drawn.sort(key=lambda outage: (outage[0], outage[2]))
    outages = records(len(drawn), r.OUTAGE)
    for row, (down_us, up_us, node) in zip(outages, drawn, strict=True):
        row.down_us, row.up_us, row.node = down_us, up_us, node
    return outages
