"""Tenants shared and alone: the workload is as stated, and `fair` keeps its promise."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.app import policy_settings
from flyball.core.units import S_PER_DAY
from flyball.experiments.fairness import (
    DAYS,
    DEVICES,
    NODES,
    draw,
    own_cluster,
    run,
    shared_cluster,
    steps,
)
from flyball.twin.inputs.traces.describe import device_seconds


def test_the_draw_has_the_load_and_every_job_twice() -> None:
    case = draw(0.9, 3)
    assert len(case.together) == sum(len(workload) for workload in case.own)
    offered_s = shared_cluster().device_count * DAYS * S_PER_DAY
    # Durations under a second were lifted to one.
    assert device_seconds(case.together).sum() / offered_s == pytest.approx(0.9, rel=0.02)
    for at, own in enumerate(case.own):
        mine = case.together.tenant == at
        assert np.array_equal(np.sort(case.together.duration_us[mine]), np.sort(own.duration_us))
        assert own.devices.max() <= own_cluster().device_count
    assert np.array_equal(draw(0.9, 3).together.duration_us, case.together.duration_us)


def test_quotas_are_whole_nodes_of_one_cluster() -> None:
    cluster = shared_cluster()
    assert [tenant.quota for tenant in cluster.tenants] == [NODES * DEVICES] * 4
    assert sum(tenant.quota for tenant in cluster.tenants) == cluster.device_count


def test_nobody_is_worse_off_under_fair() -> None:
    policies, seen = policy_settings("fifo-skip,fair", []), list[str]()
    figures = run(policies, 0.9, 2, lambda _: None, seen.append)
    assert len(seen) == steps(policies, 2)
    plain, fair = figures["policies"]
    assert fair["worst"] <= 2.0 < plain["worst"]
