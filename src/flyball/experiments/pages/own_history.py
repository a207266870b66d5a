"""What happened on a live cluster in a span of time: read from its journal, added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from flyball.control.ask.bills import Prices
from flyball.control.ask.receipts import receipt
from flyball.control.jobs.usage import spans_of
from flyball.core.cluster import Cluster
from flyball.core.jobs import Job, JobState
from flyball.core.results import Floats
from flyball.core.units import J_PER_KWH, MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S

BINS = 168
"""Number of parts of the span in the curves: an hour each of a week."""


@dataclass
class Usage:
    """Adds up jobs: of one user, one tenant, or all.

    Attributes:
        wait_s: of each job that started in the span, until its first start.
        device_h, kwh, money, carbon_g: of the part of each job that lies in the span.
        measured_kwh: the part of the energy that was measured; the rest is modelled.
    """

    submitted: int = 0
    ended: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wait_s: list[float] = field(default_factory=list)
    device_h: float = 0.0
    kwh: float = 0.0
    measured_kwh: float = 0.0
    money: float = 0.0
    carbon_g: float = 0.0

    @property
    def failed(self) -> int:
        """Number of jobs that ended neither completed nor cancelled."""
        good = (JobState.COMPLETED, JobState.CANCELLED)
        return sum(count for state, count in self.ended.items() if state not in good)

    def wait_quantile_s(self, part: float) -> float:
        """Return a quantile of the waits, NaN if there is none."""
        return float(np.quantile(self.wait_s, part)) if self.wait_s else float("nan")


@dataclass
class Account:
    """What happened in a span.

    Attributes:
        by_user, by_tenant, by_class: usage by name.
        edges_us: of the parts of the span.
        used, waiting: mean number of devices in use and of waiting jobs in each part.
        jobs: that were there in the span, the latest submission first.
    """

    since_us: int
    until_us: int
    devices: int
    total: Usage
    by_user: dict[str, Usage]
    by_tenant: dict[str, Usage]
    by_class: dict[str, Usage]
    edges_us: Floats
    used: Floats
    waiting: Floats
    jobs: list[Job]

    @property
    def utilisation(self) -> float:
        """Share of the devices' time that jobs held."""
        hours = (self.until_us - self.since_us) / US_PER_S / S_PER_HOUR
        return self.total.device_h / (hours * self.devices) if hours and self.devices else 0.0


def account(
    jobs: Iterable[Job],
    cluster: Cluster,
    prices: Prices,
    since_us: int,
    until_us: int,
    tell: Callable[[int], None] = lambda count: None,
) -> Account:
    """Add up the jobs of a span.

    Args:
        jobs: all of the journal, in any order.
        cluster: its nodes.
        prices: what devices and energy cost.
        tell: called with the number of jobs read, now and then.
    """
    total = Usage()
    groups: tuple[dict[str, Usage], ...] = tuple(defaultdict(Usage) for _ in range(3))
    held: list[tuple[float, float, float]] = []
    waits: list[tuple[float, float, float]] = []
    present: list[Job] = []
    for count, job in enumerate(jobs, 1):
        if count % 1000 == 0:
            tell(count)
        over_us = job.end_us if job.state.final else until_us
        if job.submit_us >= until_us or over_us < since_us:
            continue
        present.append(job)
        spans = _clipped(job, since_us, until_us)
        held += spans
        queued_until = job.first_start_us or over_us
        waits.append((max(job.submit_us, since_us), min(queued_until, until_us), 1.0))
        keys = (job.spec.user or "-", job.spec.tenant or "-", job.spec.kind or "not stated")
        usages = [total, *(group[key] for group, key in zip(groups, keys, strict=True))]
        _add(usages, job, cluster, prices, (since_us, until_us), spans)
    edges = np.linspace(since_us, until_us, BINS + 1)
    return Account(
        since_us, until_us, cluster.device_count, total,
        dict(groups[0]), dict(groups[1]), dict(groups[2]),
        edges, _mean_level(held, edges), _mean_level(waits, edges), present,
    )  # fmt: skip


def _clipped(job: Job, since_us: int, until_us: int) -> list[tuple[float, float, float]]:
    """Return the parts of a job's attempts in the span: begin, end, devices."""
    share = job.spec.milli / MILLI_PER_DEVICE if job.spec.gpus else 1.0
    parts: list[tuple[float, float, float]] = []
    for span in spans_of(job, until_us):
        begin, end = max(span.began_us, since_us), min(span.over_us, until_us)
        if end > begin:
            parts.append((begin, end, share * sum(row.mask.bit_count() for row in span.rows)))
    return parts


def _add(
    usages: Sequence[Usage],
    job: Job,
    cluster: Cluster,
    prices: Prices,
    window_us: tuple[int, int],
    spans: Sequence[tuple[float, float, float]],
) -> None:
    since_us, until_us = window_us
    device_s = sum((end - begin) * devices for begin, end, devices in spans) / US_PER_S
    bill = receipt(job, cluster, prices, until_us)
    whole_s = bill["device_hours"] * S_PER_HOUR
    part = min(1.0, device_s / whole_s) if whole_s else 0.0
    kwh = part * bill["energy_j"] / J_PER_KWH
    for usage in usages:
        usage.submitted += job.submit_us >= since_us
        if job.state.final and since_us <= job.end_us < until_us:
            usage.ended[job.state] += 1
        if since_us <= job.first_start_us < until_us:
            usage.wait_s.append((job.first_start_us - job.submit_us) / US_PER_S)
        usage.device_h += device_s / S_PER_HOUR
        usage.kwh += kwh
        usage.measured_kwh += kwh if bill["energy_source"] == "measured" else 0.0
        usage.money += part * bill["cost"]
        usage.carbon_g += part * bill["carbon_g"]


def _mean_level(parts: Sequence[tuple[float, float, float]], edges: Floats) -> Floats:
    """Return the mean of a sum of steps (begin, end, height) between neighbouring edges."""
    area = np.zeros(len(edges))
    for begin, end, height in parts:
        area += height * np.clip(edges - begin, 0.0, max(end - begin, 0.0))
    levels: Floats = np.diff(area) / np.diff(edges)
    return levels
