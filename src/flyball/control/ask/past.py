"""Answers questions about the past: what ran where, what it came to, what the day has used."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import asdict
from typing import Any

from flyball.control.ask.bills import Prices
from flyball.control.ask.energy_today import EnergyToday
from flyball.control.ask.history_series import history_series
from flyball.control.ask.history_spans import COLUMNS, bars, node_rows, totals
from flyball.control.ask.receipts import receipt
from flyball.control.decide.decider import Decider
from flyball.control.journal.history import History
from flyball.core.jobs import Job
from flyball.core.live import LiveNode
from flyball.core.units import to_us

HISTORY_PARTS = frozenset(("bars", "totals"))
"""Parts of a history: what ran where, and what it came to."""


class Past:
    """Answers from ended and running jobs.

    Args:
        active: returns the jobs that have not ended.
    """

    def __init__(
        self,
        journal: History,
        nodes: Sequence[LiveNode],
        decider: Decider,
        prices: Prices,
        active: Callable[[], Sequence[Job]],
        now_us: Callable[[], int],
    ) -> None:
        self._journal, self._nodes, self._decider = journal, nodes, decider
        self._prices, self._active, self._now_us = prices, active, now_us
        self._today = EnergyToday(journal.ended, self._plain_receipt, self._began_us)

    def history(
        self, since_s: float, until_s: float, limit: int, parts: Set[str] = HISTORY_PARTS
    ) -> dict[str, Any]:
        """Return what ran where within a span, and what it came to by user, account and class.

        Energy, cost and carbon are those of whole jobs, modelled where they were not recorded.

        Args:
            until_s: 0 = now.
            limit: maximum number of jobs; the latest ones are taken.
            parts: what is returned of `HISTORY_PARTS`.
        """
        now_us = self._now_us()
        since_us, until_us = to_us(since_s), to_us(until_s) or now_us
        ended = self._journal.ended(limit, max(1, since_us))
        jobs = [job for job in self._active() if job.rows] + ended
        jobs = [job for job in jobs if job.first_start_us and job.first_start_us < until_us]
        first_us = min((job.submit_us for job in jobs), default=since_us)
        answer: dict[str, Any] = {
            "nodes": node_rows(self._nodes),
            "jobs": len(jobs),
            "complete": len(ended) < limit,
            "currency": self._prices.currency,
        }
        if "bars" in parts:
            answer |= {"columns": COLUMNS, "bars": list(bars(jobs, since_us, until_us, now_us))}
        if "totals" in parts:
            receipts = {job.id: self._plain_receipt(job) for job in jobs}
            begin_us = max(since_us, first_us)
            answer["by"] = totals(jobs, receipts)
            answer["series"] = history_series(jobs, receipts, begin_us, until_us, now_us)
        return answer

    def _plain_receipt(self, job: Job) -> dict[str, Any]:
        """Return the receipt of a job without what the agent measured, which takes longer."""
        return receipt(job, self._decider.cluster, self._prices, self._now_us())

    def today(self) -> dict[str, Any]:
        """Return the energy of the running day, and what it has used of the budgets.

        The day begins at midnight UTC. `jobs_j`, `cost` and `carbon_g` are those of jobs, `idle_j`
        is what devices without a job drew by their type.
        """
        now_us = self._now_us()
        running = [job for job in self._active() if job.first_start_us]
        used = self._today.view(self._nodes, running, now_us)
        return {**used, "currency": self._prices.currency, "budget": self._budget_view(now_us)}

    def _budget_view(self, now_us: int) -> dict[str, Any] | None:
        """Return the budgets, what was spent of each, and the limit of the draw; None = none."""
        budget = self._decider.budget
        if budget is None:
            return None
        limits = asdict(budget.limits)
        return {**limits, **budget.account(now_us), "limit_w": budget.limit_w(now_us)}

    def _began_us(self) -> int:
        """Return the time of the first event on record."""
        first = self._journal.events(0, 1)
        return first[0][1].time_us if first else self._now_us()
