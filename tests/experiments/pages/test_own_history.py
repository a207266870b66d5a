"""What happened in a span, added up from a journal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.api.world import World
from tests.experiments.pages.test_document import check_alone

from flyball.control.ask.bills import Prices
from flyball.control.jobs.request import cluster_of
from flyball.control.journal.history import History
from flyball.core.jobs import JobSpec
from flyball.core.signals import Signal
from flyball.core.units import US_PER_S
from flyball.experiments.pages.history_page import history_page
from flyball.experiments.pages.own_history import Account, account

HOUR = 3600.0
PRICES = Prices(2.0, Signal.flat(0.3), "EUR", Signal.flat(400.0))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "state", int((time.time() - 5 * HOUR) * 1e6))
    yield world
    world.plane.close()


def submit(world: World, user: str, cpus: int, hours: float, **more: object) -> int:
    spec = JobSpec(("true",), user=user, cpus=cpus, estimate_s=hours * HOUR, **more)  # type: ignore[arg-type]
    return world.plane.submit([spec])[0]


def read(world: World, since_us: float, until_us: float) -> Account:
    with History(world.folder / "journal.db") as history:
        cluster = cluster_of(history.nodes(), "here")
        return account(history.every_job(), cluster, PRICES, int(since_us), int(until_us))


def test_jobs_are_counted_for_the_part_in_the_span(world: World) -> None:
    begin_us = world.now
    submit(world, "ada", 4, 1.0)
    submit(world, "bob", 4, 2.0, tenant="vision")
    world.step()
    waiting = submit(world, "ada", 4, 1.0, name="<b>big</b>")
    world.step(HOUR)  # the first ends, the third starts
    cancelled = submit(world, "eve", 4, 1.0)
    world.step(HOUR / 2)
    world.plane.cancel(cancelled)
    world.step(HOUR / 2)
    world.step(HOUR)
    whole = read(world, begin_us, world.now)
    assert whole.devices == 8
    assert whole.total.submitted == 4
    assert whole.total.ended == {"COMPLETED": 3, "CANCELLED": 1}
    assert whole.total.device_h == pytest.approx(4 + 8 + 4, rel=1e-3)
    assert whole.by_user["ada"].device_h == pytest.approx(8.0, rel=1e-3)
    assert whole.by_user["ada"].wait_quantile_s(1.0) == pytest.approx(HOUR, rel=1e-3)
    assert whole.by_tenant["vision"].submitted == 1
    assert whole.utilisation == pytest.approx(16 / 24, rel=1e-2)
    assert whole.total.money > 2.0 * 16
    assert whole.total.measured_kwh == 0.0 < whole.total.kwh
    hours = np.diff(whole.edges_us) / US_PER_S / HOUR
    assert (whole.used * hours).sum() == pytest.approx(16.0, rel=1e-3)
    assert whole.used.max() == pytest.approx(8.0, rel=1e-3)
    assert whole.waiting.max() == pytest.approx(1.0, rel=1e-3)
    # The last hour and a half only.
    part = read(world, begin_us + 1.5 * HOUR * 1e6, world.now)
    assert part.total.device_h == pytest.approx(4.0, rel=1e-2)
    assert part.total.submitted == 0
    assert part.total.wait_s == []
    assert part.total.kwh == pytest.approx(whole.total.kwh / 4, rel=1e-2)
    # Before anything happened.
    assert read(world, begin_us - 9e9, begin_us - 8e9).jobs == []
    assert waiting in {job.id for job in whole.jobs}
    text = history_page(whole, PRICES, [], "flyball report", ["a <note>"])
    outline = check_alone(text)
    assert "<b>big" not in text
    for words in ("ada used most: 8 device-hours, 50 % of all.", "16 device-hours", "a <note>"):
        assert any(words in shown for shown in outline.texts), words


def test_a_job_that_runs_counts_up_to_now(world: World) -> None:
    begin_us = world.now
    submit(world, "ada", 2, 10.0)
    world.step()
    world.step(HOUR)
    found = read(world, begin_us, world.now)
    assert found.total.device_h == pytest.approx(2.0, rel=1e-3)
    assert found.total.ended == {}
