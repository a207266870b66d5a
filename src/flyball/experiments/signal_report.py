"""What is reported of a cluster's price and carbon intensity."""

from __future__ import annotations

from typing import Any

from flyball.core.cluster import Cluster
from flyball.core.signals import Signal
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload


def describe_signals(cluster: Cluster) -> dict[str, Any]:
    """Return the signals of a cluster for JSON; empty without signals."""
    described: dict[str, Any] = {}
    if cluster.price is not None:
        described["price_per_kwh"] = _described(cluster.price)
    if cluster.carbon is not None:
        described["carbon_g_per_kwh"] = _described(cluster.carbon)
    if described and cluster.currency:
        described["currency"] = cluster.currency
    return described


def _described(signal: Signal) -> dict[str, Any]:
    span_us = signal.end_us - signal.begin_us
    return {
        "source": signal.describe(),
        "mean": signal.integral(signal.begin_us, signal.end_us) / span_us,
        "low": float(signal.values.min()),
        "high": float(signal.values.max()),
        "steps": len(signal.values),
        "step_s": signal.step_us / US_PER_S or None,
    }


def signal_notes(cluster: Cluster, workload: Workload) -> list[str]:
    """Return what is assumed of the signals over the arrivals of a workload."""
    first_us, last_us = int(workload.submit_us[0]), int(workload.submit_us[-1])
    return [
        note
        for signal in (cluster.price, cluster.carbon)
        if signal is not None
        for note in signal.alignment(workload.origin_us, first_us, last_us)
    ]
