"""Which running jobs give way in a round, and which bounds hold while it goes on."""

from __future__ import annotations

import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.twin.twin import Twin

ROUNDS = Knobs(order=Order.SHORTEST, preempt=Preempt.ROUNDS, round_s=60.0)
NO_RESTART = Effects(restart_s=(0.0, 0.0, 0.0))


@pytest.mark.nojit
@pytest.mark.parametrize(("bound", "preemptions"), [(0, 3), (1, 0), (2, 1), (3, 2), (4, 3)])
def test_a_job_that_started_often_enough_stays(bound: int, preemptions: int) -> None:
    # Three short jobs come while the long one runs; each takes its only device unless it may not.
    workload = Workload.of("w", [0, 100, 400, 700], [5_000, 50, 50, 50])
    cluster = Cluster("c", (NodeGroup("n", 1, "V100", 1),))
    knobs = ROUNDS.with_settings([f"preempt_starts={bound}"])
    twin = Twin(cluster, workload, knobs, NO_RESTART)
    twin.run()
    assert twin.state.runs.preemptions.tolist() == [preemptions, 0, 0, 0]


@pytest.mark.nojit
def test_a_gang_that_gave_way_leaves_room_on_its_other_nodes() -> None:
    # The gang has node 0 and half of node 1, a longer job the rest. The first pending job takes
    # node 0 from the gang. Only then are three devices of node 1 within reach of the other one:
    # two are free, and the longer job is behind it, which the gang was not.
    workload = Workload.of("w", [0, 1, 100, 100], [500, 1_000, 10, 700], [6, 2, 4, 3])
    cluster = Cluster("c", (NodeGroup("n", 2, "V100", 4),))
    twin = Twin(cluster, workload, ROUNDS, NO_RESTART)
    twin.run(to_us(120))
    pending, running = Status.PENDING, Status.RUNNING
    assert twin.state.runs.status.tolist() == [pending, pending, running, running]
