"""Figures over time and of a day: what is spread over a span adds up to the receipts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flyball.control.ask.energy_today import EnergyToday
from flyball.control.ask.history_series import NAMED, OTHERS, history_series
from flyball.control.jobs.usage import SPANS
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import LiveNode
from flyball.core.signals import DAY_US, HOUR_US
from flyball.physics import catalogue

MIDNIGHT_US = 20_000 * DAY_US
NODE = LiveNode("g", "V100", 4, 16, 65536, ("u0", "u1", "u2", "u3"))


def ended(number: int, user: str, begin_h: float, over_h: float, mask: int = 1) -> Job:
    """Return a job that ran between two hours of a day, submitted an hour before."""
    begin_us, over_us = (MIDNIGHT_US + round(hours * HOUR_US) for hours in (begin_h, over_h))
    job = Job(number, JobSpec(("true",), user=user, gpus=1), begin_us - HOUR_US)
    spans = [[begin_us, over_us, [[0, mask]], None]]
    return replace(
        job, state=JobState.COMPLETED, first_start_us=begin_us, end_us=over_us,
        values={SPANS: spans},
    )  # fmt: skip


def receipt(job: Job) -> dict[str, Any]:
    return {"energy_j": 1000.0 * job.id, "energy_source": "modelled", "cost": 2.0, "carbon_g": 3.0}


def test_parts_add_up_to_the_receipts() -> None:
    jobs = [ended(1, "ada", 2, 4, 0b11), ended(2, "ada", 3, 5), ended(3, "bob", 6, 7)]
    receipts = {job.id: receipt(job) for job in jobs}
    begin_us, until_us = MIDNIGHT_US + HOUR_US, MIDNIGHT_US + 9 * HOUR_US
    series = history_series(jobs, receipts, begin_us, until_us, until_us)
    ada, bob = series["by"]["user"]["ada"], series["by"]["user"]["bob"]
    assert sum(ada["energy_j"]) == pytest.approx(3000.0, rel=1e-3)
    assert sum(bob["energy_j"]) == pytest.approx(3000.0, rel=1e-3)
    assert sum(bob["cost"]) == pytest.approx(2.0, rel=1e-3)
    part_h = 8 / len(ada["held"])
    assert sum(ada["held"]) * part_h == pytest.approx(2 * 2 + 2, rel=1e-3)
    assert sum(bob["waiting"]) * part_h == pytest.approx(1.0, rel=1e-3)
    assert max(ada["held"]) == pytest.approx(3.0)
    assert len(series["edges"]) == len(ada["held"]) + 1


def test_many_names_are_added_up() -> None:
    jobs = [ended(at, f"user-{at}", 1, 1 + at / 10) for at in range(1, NAMED + 4)]
    receipts = {job.id: receipt(job) for job in jobs}
    series = history_series(jobs, receipts, MIDNIGHT_US, MIDNIGHT_US + DAY_US, MIDNIGHT_US + DAY_US)
    rows = series["by"]["user"]
    assert len(rows) == NAMED + 1
    assert sum(rows[OTHERS]["energy_j"]) == pytest.approx(1000.0 * (1 + 2 + 3), rel=1e-3)


def test_only_what_lies_in_the_day_counts() -> None:
    """Half of a job that ran across midnight, all of one of the day; each is read once."""
    across, within = ended(1, "ada", -1, 1), ended(2, "ada", 2, 3)
    asked: list[int] = []

    def all_ended(limit: int, since_us: int) -> list[Job]:
        asked.append(since_us)
        jobs = [job for job in (within, across) if job.end_us >= since_us]
        return jobs[:limit]

    today = EnergyToday(all_ended, receipt, lambda: MIDNIGHT_US - DAY_US)
    now_us = MIDNIGHT_US + 4 * HOUR_US
    view = today.view([NODE], [], now_us)
    assert view["jobs_j"] == pytest.approx(1000.0 / 2 + 2000.0)
    assert view["cost"] == pytest.approx(1.0 + 2.0)
    idle_w = catalogue.get("V100").idle_w
    assert view["idle_j"] == pytest.approx(idle_w * 3600 * (4 * 4 - 2))
    assert today.view([NODE], [], now_us)["jobs_j"] == view["jobs_j"]
    assert asked == [MIDNIGHT_US, within.end_us]
    tomorrow = today.view([NODE], [], now_us + DAY_US)
    assert tomorrow["jobs_j"] == 0.0
    assert tomorrow["since"] == (MIDNIGHT_US + DAY_US) / 1e6
