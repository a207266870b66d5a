"""Against Gavel's own simulator: 100 jobs on 8 V100, 16 P100 and 24 K80, rounds of 360 s.

Its completion times are in the shared data (`peer_runs`). Gavel sets new shares at most every
1,920 s and charges nothing for a restart; so do these runs.
"""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest

from flyball.app import build_twin, policy_settings
from flyball.core.effects import Effects
from flyball.core.errors import DataAbsent
from flyball.core.metrics import completions_s
from flyball.core.shared_data import shared_data
from flyball.experiments import gavel
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.traces import read_trace

SETTINGS = ["round_s=360", "solve_s=1920"]
FREE = Effects(restart_s=(0.0, 0.0, 0.0))
THEIRS = {
    "fifo-fast": "fifo_perf",
    "max-min": "max_min_fairness",
    "max-min-het": "max_min_fairness_perf",
    "finish-time-fair": "finish_time_fairness_perf",
    "min-makespan": "min_total_duration_perf",
    "max-throughput": "max_sum_throughput_perf",
}
"""Our names of policies, and Gavel's."""


def shared(name: str) -> str:
    try:
        return str(shared_data("peer_runs", name))
    except DataAbsent as absent:
        pytest.skip(f"peer runs are not on this machine: {absent}")


@pytest.mark.parametrize("ours", THEIRS)
def test_mean_completion_is_that_of_gavel(ours: str) -> None:
    with gzip.open(shared("gavel_makespan100_jct.csv.gz"), "rt", encoding="utf-8") as file:
        theirs = [float(row[f"{THEIRS[ours]}_jct_s"]) for row in csv.DictReader(file)]
    workload = read_trace(shared("gavel_makespan100_jobs.csv.gz"))
    (policy,) = policy_settings(ours, SETTINGS)
    results = build_twin(load_cluster("gavel-48"), workload, policy, FREE).replay()
    assert len(completions_s(results)) == len(theirs) == 100
    assert completions_s(results).mean() == pytest.approx(np.mean(theirs), rel=0.03)


@pytest.mark.parametrize("ours", gavel.THEIRS)
def test_gavel_mode_is_within_one_percent(ours: str) -> None:
    try:
        trace = gavel.load()
    except DataAbsent as absent:
        pytest.skip(f"peer runs are not on this machine: {absent}")
    means_h = gavel.means_h(trace, gavel.gavels(ours), shuffles=3)
    assert 3600 * means_h.mean() == pytest.approx(trace.means_s[ours], rel=gavel.WITHIN)
