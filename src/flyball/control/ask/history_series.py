"""What a cluster held, waited for and used over a span of the past, by user, account and class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flyball.control.ask.history_spans import GROUPINGS
from flyball.control.jobs.usage import spans_of
from flyball.core.jobs import Job
from flyball.core.results import Floats
from flyball.core.units import US_PER_S

PARTS = 96
"""Equal parts of the span that are told apart."""
NAMED = 7
"""Names of a grouping that are told apart: those that used most; the others are added up."""
OTHERS = "(others)"
RATES = ("held", "waiting")
"""Figures that are averages over a part; the others are sums."""
DECIMALS = 4


def history_series(
    jobs: Sequence[Job],
    receipts: Mapping[int, Mapping[str, Any]],
    since_us: int,
    until_us: int,
    now_us: int,
) -> dict[str, Any]:
    """Return figures over time by name, for each grouping.

    `held` are devices, `waiting` jobs before their first start, as averages; `energy_j`, `cost` and
    `carbon_g` of a job are spread evenly over the device time that it held.

    Args:
        receipts: of every job, by id.
    """
    edges = np.linspace(since_us, until_us, PARTS + 1)
    part_us = (until_us - since_us) / PARTS
    begin_us, over_us, weights = _spans(jobs, receipts, now_us)
    clipped = np.clip(edges - begin_us[:, None], 0.0, (over_us - begin_us)[:, None])
    inside = np.diff(clipped, axis=1)
    names = ("held", "energy_j", "cost", "carbon_g", "waiting")
    series: dict[str, Any] = {"edges": (edges / US_PER_S).round(1).tolist(), "by": {}}
    owners = [job for job, count in zip(jobs, _counts(jobs, now_us), strict=True)
              for _ in range(count)]  # fmt: skip
    for grouping, key in GROUPINGS:
        labels = np.array([key(job) for job in owners], object)
        used: dict[str, float] = {}
        for label, device_us in zip(labels, (weights[0] * inside.sum(1)).tolist(), strict=True):
            used[label] = used.get(label, 0.0) + device_us
        ranked = sorted(used, key=lambda label: (-used[label], label))
        rows: dict[str, dict[str, list[float]]] = {}
        for label in [*ranked[:NAMED], *([OTHERS] if len(ranked) > NAMED else [])]:
            chosen = np.isin(labels, ranked[NAMED:]) if label == OTHERS else labels == label
            sums = weights[:, chosen] @ inside[chosen]
            rows[label] = {
                name: _rounded(row / part_us if name in RATES else row)
                for name, row in zip(names, sums, strict=True)
            }
        series["by"][grouping] = rows
    return series


def _counts(jobs: Sequence[Job], now_us: int) -> list[int]:
    """Return the number of rows of each job: its spans, and its wait."""
    return [len(spans_of(job, now_us)) + 1 for job in jobs]


def _spans(
    jobs: Sequence[Job], receipts: Mapping[int, Mapping[str, Any]], now_us: int
) -> tuple[Floats, Floats, Floats]:
    """Return begin and end of every span, and what weighs in it, per microsecond.

    The weights are rows of: devices, joules, money, grams, waiting jobs.
    """
    begin_us: list[float] = []
    over_us: list[float] = []
    weights: list[tuple[float, ...]] = []
    for job in jobs:
        spans, receipt = spans_of(job, now_us), receipts[job.id]
        held = [max(1, sum(row.mask.bit_count() for row in span.rows)) for span in spans]
        device_us = sum(
            count * (span.over_us - span.began_us) for count, span in zip(held, spans, strict=True)
        )
        of_device = [
            receipt[name] / device_us if device_us > 0 else 0.0
            for name in ("energy_j", "cost", "carbon_g")
        ]
        for count, span in zip(held, spans, strict=True):
            begin_us.append(span.began_us)
            over_us.append(max(span.began_us, span.over_us))
            weights.append((count, *(count * value for value in of_device), 0.0))
        begin_us.append(job.submit_us)
        over_us.append(max(job.submit_us, job.first_start_us or job.end_us or now_us))
        weights.append((0.0, 0.0, 0.0, 0.0, 1.0))
    table = np.array(weights, float).reshape(-1, 5).T
    return np.array(begin_us, float), np.array(over_us, float), table


def _rounded(row: Floats) -> list[float]:
    return [float(f"{value:.{DECIMALS}g}") for value in row.tolist()]
