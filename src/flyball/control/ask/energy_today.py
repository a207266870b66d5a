"""The energy of the running day: of jobs by their receipts, of idle devices by their idle draw.

A day begins at midnight UTC, as the budgets of a day do (`control.decide.day_budget`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from flyball.control.jobs.usage import spans_of
from flyball.core.jobs import Job
from flyball.core.live import LiveNode
from flyball.core.signals import DAY_US
from flyball.core.units import US_PER_S
from flyball.physics import catalogue

MOST_ENDED = 20_000
"""Maximum number of ended jobs that are read at once; beyond it the day is not complete."""


@dataclass
class _Used:
    """Sums over jobs, as far as they lie in the day."""

    energy_j: float = 0.0
    measured_j: float = 0.0
    cost: float = 0.0
    carbon_g: float = 0.0
    held_idle_j: float = 0.0  # what the devices would have drawn idle meanwhile

    def add(self, other: _Used) -> None:
        """Add another sum."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class EnergyToday:
    """Adds up the energy of the running day. Jobs that have ended are read once.

    Args:
        ended: returns at most so many jobs that ended at an instant or later, the latest first.
        receipt: returns the receipt of a job.
        began_us: returns when the cluster's record begins; idle devices count from then on.
    """

    def __init__(
        self,
        ended: Callable[[int, int], Sequence[Job]],
        receipt: Callable[[Job], Mapping[str, Any]],
        began_us: Callable[[], int],
    ) -> None:
        self._ended, self._receipt, self._began_us = ended, receipt, began_us
        self._midnight_us = -1
        self._past = _Used()
        self._through_us = 0
        self._at_end: set[int] = set()  # jobs that ended at `_through_us`
        self._complete = True

    def view(self, nodes: Sequence[LiveNode], active: Iterable[Job], now_us: int) -> dict[str, Any]:
        """Return joules, money and grams since midnight UTC.

        Args:
            active: the jobs that have not ended.
        """
        midnight_us = now_us - now_us % DAY_US
        if midnight_us != self._midnight_us:
            self._midnight_us, self._past, self._through_us = midnight_us, _Used(), midnight_us
            self._at_end, self._complete = set(), True
        idle_w = [catalogue.get(node.device).idle_w for node in nodes]
        self._take_ended(idle_w, now_us)
        total = _Used(**vars(self._past))
        for job in active:
            if job.first_start_us:
                total.add(self._of(job, idle_w, now_us))
        since_us = max(midnight_us, min(now_us, self._began_us()))
        devices_w = sum(watts * node.devices for watts, node in zip(idle_w, nodes, strict=True))
        idle_j = devices_w * (now_us - since_us) / US_PER_S - total.held_idle_j
        return {
            "since": since_us / US_PER_S,
            "jobs_j": total.energy_j,
            "measured_j": total.measured_j,
            "idle_j": max(0.0, idle_j),
            "cost": total.cost,
            "carbon_g": total.carbon_g,
            "complete": self._complete,
        }

    def _take_ended(self, idle_w: Sequence[float], now_us: int) -> None:
        """Add the jobs that ended since the last time."""
        ended = self._ended(MOST_ENDED, self._through_us)
        self._complete = self._complete and len(ended) < MOST_ENDED
        for job in ended:
            if job.id not in self._at_end:
                self._past.add(self._of(job, idle_w, now_us))
        if ended:
            latest_us = ended[0].end_us
            if latest_us > self._through_us:
                self._through_us, self._at_end = latest_us, set()
            self._at_end |= {job.id for job in ended if job.end_us == latest_us}

    def _of(self, job: Job, idle_w: Sequence[float], now_us: int) -> _Used:
        """Return the part of a job that lies in the day: its share of the device time."""
        total_us = today_us = 0.0
        held_idle_j = 0.0
        for span in spans_of(job, now_us):
            inside_us = max(0, span.over_us - max(span.began_us, self._midnight_us))
            for row in span.rows:
                count = row.mask.bit_count()
                total_us += count * (span.over_us - span.began_us)
                today_us += count * inside_us
                if row.node < len(idle_w):
                    held_idle_j += count * inside_us / US_PER_S * idle_w[row.node]
        if not total_us or not today_us:
            return _Used()
        receipt, share = self._receipt(job), today_us / total_us
        energy_j = receipt["energy_j"] * share
        is_measured = receipt["energy_source"] == "measured"
        return _Used(
            energy_j, energy_j if is_measured else 0.0, receipt["cost"] * share,
            receipt["carbon_g"] * share, held_idle_j,
        )  # fmt: skip
