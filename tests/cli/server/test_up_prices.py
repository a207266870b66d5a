"""Prices of a live cluster: constants, a file, the simulated cluster's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flyball.cli.server.nodes import signals_text
from flyball.cli.server.up_prices import live_prices
from flyball.control.decide.day_budget import Limits
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import BadInput
from flyball.core.signals import Signal

CLUSTER = Cluster(
    "c", (NodeGroup("a", 1, "V100", 1),), price=Signal.flat(0.1), carbon=Signal.flat(5.0)
)


def test_constants_win_over_a_file_and_a_file_over_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("price: 0.3\ncarbon: 400\ncurrency: EUR\n")
    prices = live_prices(2.0, None, 50.0, None, file, CLUSTER)
    assert prices.price == Signal.flat(0.3)
    assert prices.carbon == Signal.flat(50.0)
    assert (prices.per_device_hour, prices.currency) == (2.0, "EUR")
    assert live_prices(0.0, None, None, None, None, CLUSTER).price == Signal.flat(0.1)
    none = live_prices(0.0, None, None, None, None, None)
    assert (none.signals, none.currency) == ((None, None), "USD")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        live_prices(0.0, None, None, None, tmp_path / "none.yaml", None)


def test_the_line_under_the_nodes() -> None:
    now = {"price_per_kwh": 0.213, "currency": "EUR", "carbon_g_per_kwh": 321.0}
    assert signals_text(now) == "Now 0.213 EUR/kWh and 321 g CO2/kWh."
    assert signals_text({}) == ""


def test_budgets_are_stated_or_the_simulated_clusters() -> None:
    budgeted = replace(CLUSTER, money_per_day=4.0, power_budget_w=500.0)
    limits = live_prices(0.0, None, None, None, None, budgeted, None, 90.0, 2.0).limits
    assert (limits.money_per_day, limits.carbon_kg_per_day, limits.power_w) == (4.0, 90.0, 2000.0)
    assert live_prices(0.0, None, None, None, None, None).limits == Limits()
    with pytest.raises(BadInput, match="--money-per-day -1"):
        live_prices(0.0, None, None, None, None, None, -1.0)
