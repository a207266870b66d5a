"""Budgets live: the account of a day, the limit of the draw, and what a restart remembers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.control.ask.bills import Prices
from flyball.control.decide.day_budget import DayBudget, Limits, day_budget
from flyball.control.decide.verify import Verifier
from flyball.core.errors import BadInput
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode
from flyball.core.signals import DAY_US, HOUR_US, Signal

MIDNIGHT_US = 20_000 * DAY_US
NODES = (LiveNode("g", "V100", 4, 16, 65536, ("u0", "u1", "u2", "u3")),)
FLAT = Signal.flat(1.0)
GRAMS = Signal.flat(1000.0)


@pytest.mark.parametrize("kind", ["money", "carbon"])
def test_the_rest_of_the_budget_lasts_until_midnight(kind: str) -> None:
    if kind == "money":
        budget = DayBudget(Limits(money_per_day=24.0), (FLAT, None))
    else:
        budget = DayBudget(Limits(carbon_kg_per_day=24.0), (None, GRAMS))
    assert budget.values(MIDNIGHT_US)["limit_w"] == pytest.approx(1000.0)
    budget.drew(1000.0, MIDNIGHT_US)
    noon = budget.values(MIDNIGHT_US + 12 * HOUR_US)
    assert noon["limit_w"] == pytest.approx(1000.0)
    assert noon["money_spent" if kind == "money" else "carbon_g_spent"] == pytest.approx(
        12.0 if kind == "money" else 12_000.0
    )
    budget.drew(0.0, MIDNIGHT_US + 12 * HOUR_US)
    assert budget.limit_w(MIDNIGHT_US + 18 * HOUR_US) == pytest.approx(2000.0)
    budget.drew(3000.0, MIDNIGHT_US + 18 * HOUR_US)
    assert budget.values(MIDNIGHT_US + 23 * HOUR_US)["limit_w"] == 1.0, "nothing is left"
    tomorrow = budget.values(MIDNIGHT_US + 25 * HOUR_US)
    assert tomorrow["limit_w"] == pytest.approx(21_000.0 / 23.0), "an hour of 3 kW is of this day"


def test_a_budget_needs_its_signal_and_none_is_none() -> None:
    assert day_budget(Limits(), (FLAT, None)) is None
    assert day_budget(Limits(power_w=5.0), (None, None)) is not None
    with pytest.raises(BadInput, match="--carbon"):
        day_budget(Limits(carbon_kg_per_day=5.0), (FLAT, None))


def test_an_empty_cluster_draws_what_its_idle_nodes_do(tmp_path: Path) -> None:
    """The account goes on before the first job comes, and after the last one has gone."""
    rig = Rig(tmp_path, nodes=NODES, prices=Prices(limits=Limits(power_w=1e9)))
    budget = rig.plane.decider.budget
    assert budget is not None
    rig.pass_s(90)
    empty_w = budget.account(rig.now)["drawn_w"]
    assert empty_w > 0
    job = rig.submit(gpus=4, estimate_s=1000.0)
    rig.pass_s(1)
    assert budget.account(rig.now)["drawn_w"] > empty_w
    rig.plane.cancel(job)
    rig.pass_s(90)
    assert budget.account(rig.now)["drawn_w"] == pytest.approx(empty_w)


def drawn_by_one_job(folder: Path) -> float:
    """Return what the cluster draws with one of the jobs below."""
    folder.mkdir()
    rig = Rig(folder, nodes=NODES, prices=Prices(limits=Limits(power_w=1e9)))
    rig.submit(gpus=2, estimate_s=1000.0)
    rig.settle()
    assert rig.plane.decider.budget is not None
    return rig.plane.decider.budget.values(rig.now)["drawn_w"]


@pytest.mark.parametrize("kind", ["money", "carbon", "power"])
def test_a_start_beyond_the_budget_waits(tmp_path: Path, kind: str) -> None:
    draw_w = 1.05 * drawn_by_one_job(tmp_path / "probe")
    a_day = 24.0 * draw_w / 1000.0
    limits = {
        "money": Limits(money_per_day=a_day),
        "carbon": Limits(carbon_kg_per_day=a_day),
        "power": Limits(power_w=draw_w),
    }
    prices = Prices(price=FLAT, carbon=GRAMS, limits=limits[kind])
    rig = Rig(tmp_path, nodes=NODES, prices=prices, begin_us=MIDNIGHT_US)
    first, second = (rig.submit(gpus=2, estimate_s=1000.0) for _ in range(2))
    rig.pass_s(500)
    assert rig.states(first, second) == [JobState.RUNNING, JobState.PENDING]
    why = rig.plane.ask.why(second)
    assert why["token"] == "power-budget"
    # A control plane that comes back goes on with the account.
    assert rig.plane.decider.budget is not None
    before = rig.plane.decider.budget.values(rig.now)
    rig.plane.close()
    rig.open()
    after = rig.plane.decider.budget.values(rig.now)
    assert (after["money_spent"], after["limit_w"]) == pytest.approx(
        (before["money_spent"], before["limit_w"])
    )
    assert before["money_spent"] > 0.0
    rig.pass_s(600)
    assert rig.states(first, second) == [JobState.COMPLETED, JobState.RUNNING]
    verdict = Verifier().follow(rig.plane.journal.events(0, 10_000))
    assert (verdict.decisions > 2, verdict.differing) == (True, [])
