"""Estimates from what ended, and a run that uses them."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.twin.build import build_state
from flyball.twin.ended import NOTHING_KNOWN_US, FromEnded
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

S = 1_000_000
CLUSTER = Cluster("c", (NodeGroup("t4", 1, "T4", 4),))
MODELS = ("bert:12", "bert:24", "cifar10:128")


def workload() -> Workload:
    """Two kinds of bert, one of them in two sizes, and a cifar10."""
    return Workload.of(
        "w", [0.0, 0.0, 0.0, 0.0, 0.0], [400.0, 400.0, 90.0, 300.0, 50.0], [1, 1, 2, 1, 4],
        model=[0, 0, 0, 1, 2], models=MODELS, device=0, device_names=("T4",),
    )  # fmt: skip


def test_the_most_specific_kind_that_ended_counts() -> None:
    jobs = workload()
    state = build_state(CLUSTER, jobs, Knobs(), Effects())
    source = FromEnded.of(jobs)
    per_device = NOTHING_KNOWN_US / np.array([1, 1, 2, 1, 4])
    assert source(state).tolist() == per_device.tolist()
    # Job 0 ended after 400 s: known for its kind, as device time for its application and for all.
    state.runs.status[0], state.runs.done_us[0] = Status.DONE, 400.0 * S
    assert (source(state) / S).tolist() == [400, 400, 200, 400, 100]
    # Job 4, four wide, ended after 50 s: 200 s of device time. All others know bert already.
    state.runs.status[4], state.runs.done_us[4] = Status.DONE, 50.0 * S
    assert (source(state) / S).tolist() == [400, 400, 200, 400, 50]
    # Job 2 ended after 90 s two wide: bert has (400 + 180) / 2 of device time.
    state.runs.status[2], state.runs.done_us[2] = Status.DONE, 90.0 * S
    assert (source(state) / S).tolist() == [400, 400, 90, 290, 50]


def test_a_run_orders_its_queue_by_what_ended() -> None:
    # One long and one short job run first, two wide each; then shortest-first knows which is which.
    jobs = Workload.of(
        "w", [0, 0, 61, 62], [500.0, 100.0, 500.0, 100.0], [2, 2, 4, 4],
        model=[0, 1, 0, 1], models=("bert:12", "cifar10:128"), device=0, device_names=("T4",),
        estimate_us=np.full(4, NOTHING_KNOWN_US),
    )  # fmt: skip
    knobs = Knobs(order=Order.SHORTEST, backfill=Backfill.STRICT)
    estimates = FromEnded.of(jobs)
    for source, first in ((None, 2), (estimates, 3)):
        tuning = Tuning((), Preset("p", "", knobs), 60.0, between=False, estimates=source)
        twin = Twin(CLUSTER, jobs, knobs, Effects(), tuning=tuning)
        copy = twin.clone()
        twin.run()
        starts = twin.state.runs.first_start_us
        assert int(np.argmin(starts[2:])) + 2 == first
        # A clone starts with what was known when it was made, and ends alike.
        assert copy.state.jobs.estimate_us.tolist() == [NOTHING_KNOWN_US] * 4
        copy.run()
        assert copy.state.runs.end_us.tolist() == twin.state.runs.end_us.tolist()


def test_decisions_are_made_in_rounds_only() -> None:
    jobs = Workload.of("w", [1.0], [100.0], [1])
    tuning = Tuning((), Preset("p", "", Knobs()), 60.0, between=False)
    twin = Twin(CLUSTER, jobs, Knobs(), Effects(), tuning=tuning)
    twin.run()
    assert twin.state.runs.first_start_us[0] == pytest.approx(60 * S)
