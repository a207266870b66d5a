"""Published workloads of Sia and Pollux on Sia's mixed cluster, under every policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flyball.app import build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data
from flyball.core.workload import Workload
from flyball.physics.step_time import step_time_s
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.traces import read_trace
from flyball.twin.tables.rates import find_profiles, rate_table

JOBS = {"philly/1": 160, "saturn/1": 160, "newtrace/1": 960}


def workloads() -> Path:
    try:
        return shared_data("sia_pollux", "workloads.csv.gz")
    except DataAbsent as absent:
        pytest.skip(f"Sia's workloads are not on this machine: {absent}")


@pytest.mark.parametrize("part", JOBS)
def test_every_job_finishes_under_every_policy(part: str) -> None:
    workload = read_trace(f"{workloads()}#{part}")
    assert len(workload) == JOBS[part]
    cluster = load_cluster("sia-mixed")
    assert cluster.device_count == 64
    for policy in policy_settings("all", []):
        results = build_twin(cluster, workload, policy, Effects()).replay()
        assert (results.status == Status.DONE).all(), policy.name
        assert (results.first_start_us >= results.submit_us).all(), policy.name
        assert (results.end_us > results.first_start_us).all(), policy.name


def test_speeds_between_these_types_are_measured() -> None:
    profiles = find_profiles(read_trace(f"{workloads()}#newtrace/1"))
    table = rate_table(profiles, load_cluster("sia-mixed"), with_network=True)
    shape = len(profiles.profiles), 3  # T4, RTX 2080 Ti, A100
    estimated, packed = table.estimated.reshape(shape), table.packed.reshape(shape)
    yolov3 = np.array(["yolov3" in (profile.model or "") for profile in profiles.profiles])
    assert not estimated[~yolov3].any()
    assert estimated[yolov3].tolist() == [[False, False, True]]  # a poor fit on A100
    assert (packed[:, 0] == 1.0).all()  # T4, which the run times are for
    assert packed[~yolov3, 2].min() > 1.2
    assert packed[:, 2].max() > 8.0


def test_the_pools_own_nodes_decide_whether_a_packed_gang_crosses_them() -> None:
    bert = {"model": 0, "models": ("bert (batch size 384)",), "device": 0, "device_names": ("T4",)}
    profiles = find_profiles(Workload.of("one", [0.0], [100.0], 8, **bert))
    nodes = (NodeGroup("whole", 1, "A100-40GB", 8), NodeGroup("half", 2, "A100-40GB", 4))
    table = rate_table(profiles, Cluster("two", nodes), with_network=False)
    base_s = step_time_s("bert", "T4", 8, True, 48)
    inside_s, across_s = (
        step_time_s("bert", "A100-40GB", 8, across, 48) for across in (False, True)
    )
    assert base_s and inside_s and across_s
    assert table.packed.tolist() == pytest.approx([base_s / inside_s, base_s / across_s])
