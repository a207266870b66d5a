"""Against an independent simulator: HeliosArtifact's, run unchanged on Philly jobs.

Its start and end of every job are in the shared data (`peer_runs`); rules in the README there.
"""

from __future__ import annotations

import csv
import gzip

import numpy as np
import numpy.typing as npt
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

NODES = {"a": 8, "b": 26}
JOBS = {"a": 13_522, "b": 2_000}
SRTF_MEAN_S = 6_967.23


def columns(name: str) -> dict[str, npt.NDArray[np.str_]]:
    """Return the columns of a file of peer runs, as text."""
    try:
        path = shared_data("peer_runs", name)
    except DataAbsent as absent:
        pytest.skip(f"peer runs are not on this machine: {absent}")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows).T, strict=True))


def replay(trace: str, policy: str) -> Twin:
    """Replay the trace on its cluster of V100 nodes, to the end."""
    jobs = columns(f"philly_{trace}_jobs.csv.gz")
    workload = Workload.of(
        f"philly {trace}",
        jobs["submit_s"].astype(float),
        jobs["duration_s"].astype(float),
        jobs["num_gpus"].astype(int),
        ids=jobs["job"],
    )
    assert workload.ids.tolist() == jobs["job"].tolist()
    cluster = Cluster(f"philly {trace}", (NodeGroup("n", NODES[trace], "V100", 8),))
    twin = Twin(cluster, workload, get_policy(policy).knobs, Effects())
    twin.run()
    assert twin.finished
    return twin


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
@pytest.mark.parametrize("trace", ["a", "b"])
def test_every_start_and_end_is_that_of_helios(trace: str, policy: str) -> None:
    theirs = columns(f"philly_{trace}_helios.csv.gz")
    runs = replay(trace, policy).state.runs
    start_us = np.rint(theirs[f"{policy}_start_s"].astype(float) * 1e6)
    end_us = np.rint(theirs[f"{policy}_end_s"].astype(float) * 1e6)
    assert len(start_us) == JOBS[trace]
    differ = (runs.first_start_us != start_us) | (runs.end_us != end_us)
    assert int(differ.sum()) == 0


def test_srtf_is_within_two_percent_of_helios() -> None:
    # It charges restarts by size as we do, but adds a second to each start: near, not equal.
    theirs = columns("philly_b_helios.csv.gz")
    twin = replay("b", "srtf")
    submit_s = twin.state.jobs.submit_us / 1e6
    their_mean_s = float((theirs["srtf_end_s"].astype(float) - submit_s).mean())
    assert their_mean_s == pytest.approx(SRTF_MEAN_S, abs=0.01)
    mean_s = float((twin.state.runs.end_us / 1e6 - submit_s).mean())
    assert mean_s == pytest.approx(SRTF_MEAN_S, rel=0.02)
