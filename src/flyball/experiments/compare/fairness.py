"""Fairness of a comparison: finish-time fairness of all jobs together, and what single jobs bore.

A run keeps the fairness of its jobs as `POINTS` quantiles of equal weight, so that files of runs
stay small; quantiles over many runs are those of all their points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flyball.core.metrics import finish_time_fairness
from flyball.core.results import Results
from flyball.experiments.run_file import Record

POINTS = 200


def fairness_record(results: Results) -> Record:
    """Return what a run's record keeps of it."""
    fairness = finish_time_fairness(results)
    levels = (np.arange(POINTS) + 0.5) / POINTS
    points = np.quantile(fairness, levels) if len(fairness) else np.zeros(0)
    return {
        "finish_fairness": [float(f"{value:.4g}") for value in points],
        "jobs": len(results.submit_us),
        "most_moves": int(results.moves.max(initial=0)),
    }


def fairness_rows(policies: Sequence[str], records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return a row per policy, over all scenarios and seeds."""
    rows = []
    for policy in policies:
        mine = [r for r in records if r.get("policy") == policy and "finish_fairness" in r]
        pooled = np.concatenate([r["finish_fairness"] for r in mine]) if mine else np.zeros(0)
        if not len(pooled):
            continue
        jobs = sum(r["jobs"] for r in mine)
        rows.append(
            {
                "policy": policy,
                "finish_fairness_p50": float(np.quantile(pooled, 0.50)),
                "finish_fairness_p95": float(np.quantile(pooled, 0.95)),
                "finish_fairness_p99": float(np.quantile(pooled, 0.99)),
                "finish_fairness_most": float(pooled.max()),
                "preemptions_per_job": sum(r["summary"]["preemptions"] for r in mine) / jobs,
                "most_preemptions": max(r["summary"]["most_preemptions"] for r in mine),
                "moves_per_job": sum(r["summary"]["moves"] for r in mine) / jobs,
                "most_moves": max(r["most_moves"] for r in mine),
            }
        )
    return rows
