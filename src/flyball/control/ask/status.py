"""Health and metrics of the control plane, for `/healthz` and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flyball.control.jobs.live_state import LiveState
from flyball.control.journal.store import Journal
from flyball.core.errors import FlyballError
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode

Metric = tuple[str, dict[str, str], float]
"""Name, labels, value. A name that ends in `_total` is a counter, any other a gauge."""
HEALTH_TIMEOUT_S = 5.0
"""Longest delay of the journal or the loop that counts as healthy."""


class Pulse:
    """Counts cycles; written by the loop, read from any thread."""

    def __init__(self) -> None:
        self.cycles = 0
        self.failures = 0
        self.last_error = ""
        self.busy_s = 0.0
        self.worst_s = 0.0
        self.last_us = 0

    def beat(self, now_us: int, took_s: float) -> None:
        """Count a completed cycle."""
        self.cycles += 1
        self.busy_s += took_s
        self.worst_s = max(self.worst_s, took_s)
        self.last_us = now_us

    def missed(self, error: Exception) -> None:
        """Count a cycle that failed."""
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"


def health(journal: Journal, pulse: Pulse, now_us: Callable[[], int]) -> dict[str, Any]:
    """Check that the control plane works: an append must become durable, and the loop must run."""
    checks: dict[str, Any] = {}
    try:
        journal.append([]).wait(HEALTH_TIMEOUT_S)
        checks["journal"] = "ok"
    except FlyballError as error:
        checks["journal"] = str(error)
    age_s = (now_us() - pulse.last_us) / 1e6 if pulse.last_us else 0.0
    checks["loop"] = "ok" if age_s < HEALTH_TIMEOUT_S else f"the last cycle ended {age_s:.0f} s ago"
    return {"ok": all(result == "ok" for result in checks.values()), "checks": checks}


def metrics(
    live_state: LiveState,
    journal: Journal,
    pulse: Pulse,
    nodes: Sequence[LiveNode],
    decisions: int,
) -> list[Metric]:
    """Return the metrics of the control plane for Prometheus."""
    counts = journal.counts()
    rows: list[Metric] = [
        ("flyball_jobs", {"state": state.value}, float(counts.get(state, 0))) for state in JobState
    ]
    with live_state.lock:
        running = [job for job in live_state.jobs.values() if job.rows]
        seq = live_state.seq
    used = sum(row.mask.bit_count() for job in running for row in job.rows)
    rows += [
        ("flyball_devices", {}, float(sum(node.devices for node in nodes))),
        ("flyball_devices_used", {}, float(used)),
        ("flyball_events_total", {}, float(seq)),
        ("flyball_commits_total", {}, float(journal.commits)),
        ("flyball_decisions_total", {}, float(decisions)),
        ("flyball_cycles_total", {}, float(pulse.cycles)),
        ("flyball_cycle_failures_total", {}, float(pulse.failures)),
        ("flyball_cycle_seconds_total", {}, pulse.busy_s),
        ("flyball_cycle_worst_seconds", {}, pulse.worst_s),
    ]
    return rows


def learned_metrics(view: Mapping[str, Any] | None) -> list[Metric]:
    """Return the metrics of a learned policy; none if the cluster follows none."""
    if view is None:
        return []
    fallbacks: list[Metric] = [
        ("flyball_policy_fallbacks_total", {"reason": reason}, float(count))
        for reason, count in sorted(view["fallbacks"].items())
    ]
    choices: Metric = ("flyball_policy_choices_total", {"policy": view["hash"]}, view["choices"])
    return [choices, *fallbacks]
