"""When nodes fail: drawn once, the same for every policy, and as often as set."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.records import Records
from flyball.core.workload import Workload
from flyball.twin.tables.outages import draw_outages

HOUR_US = 3_600e6


def drawn(nodes: int = 50, span_h: float = 1000.0, **effects: float) -> Records:
    cluster = Cluster("case", (NodeGroup("n", nodes, "V100", 8),))
    workload = Workload.of("case", [100.0, 100.0 + span_h * 3600], [1.0, 1.0])
    return draw_outages(cluster, workload, Effects(**effects))  # type: ignore[arg-type]


def test_none_unless_asked_for() -> None:
    assert len(drawn()) == 0


def test_in_order_and_never_while_down() -> None:
    outages = drawn(mtbf_h=10.0, repair_h=5.0)
    assert (np.diff(outages.down_us) >= 0).all()
    assert (outages.up_us > outages.down_us).all()
    assert outages.down_us.min() >= 100e6
    for node in range(50):
        mine = outages[outages.node == node]
        assert (mine.down_us[1:] > mine.up_us[:-1]).all()


def test_as_often_as_set() -> None:
    # 50 nodes over 1,000 h, a cycle of 10 + 5 h: 3,333 outages, give or take.
    outages = drawn(mtbf_h=10.0, repair_h=5.0)
    assert len(outages) == pytest.approx(50 * 1000 / 15, rel=0.1)
    repair_us = (outages.up_us - outages.down_us).mean()
    assert repair_us == pytest.approx(5 * HOUR_US, rel=0.1)
    assert set(outages.node.tolist()) == set(range(50))


def test_a_seed_is_a_history() -> None:
    first, same, other = (drawn(mtbf_h=10.0, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first.down_us[:10], other.down_us[:10])


def test_a_repair_takes_at_least_a_microsecond() -> None:
    outages = drawn(mtbf_h=10.0, repair_h=0.0)
    assert (outages.up_us - outages.down_us >= 1).all()


def test_the_list_goes_on_while_jobs_may_still_run() -> None:
    # One job of 100 h and nothing submitted after it: its node fails all the same.
    cluster = Cluster("case", (NodeGroup("n", 1, "V100", 1),))
    workload = Workload.of("case", [0.0], [360_000.0])
    outages = draw_outages(cluster, workload, Effects(mtbf_h=1.0, repair_h=0.1))
    assert outages.down_us.max() > 100 * HOUR_US


def test_too_many_outages_are_refused() -> None:
    with pytest.raises(BadInput, match=r"a failure every 1e-05 h .* use a longer mtbf_h"):
        drawn(mtbf_h=1e-5, repair_h=0.0)
