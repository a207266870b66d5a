"""Periods by family."""

from __future__ import annotations

import math

import pytest

from flyball.core.errors import BadInput, UnknownName
from flyball.core.units import parse_duration_s
from flyball.monitor.rates import DEFAULT, FAMILIES, parse_rates


def test_the_slow_end_by_default() -> None:
    assert parse_rates([]) == DEFAULT
    assert DEFAULT == {
        "compute": 0.1,
        "memory": 0.2,
        "network": 0.5,
        "power": 1.0,
        "application": 0.5,
    }
    assert all(periods.fast_s < periods.slow_s for periods in FAMILIES.values())


def test_settings() -> None:
    rates = parse_rates(["compute=50ms", "power=2s", "memory=0.1"])
    assert (rates["compute"], rates["power"], rates["memory"]) == (0.05, 2.0, 0.1)
    assert rates["network"] == DEFAULT["network"]


@pytest.mark.parametrize("text", ["compute", "compute=", "compute=1ms", "power=2h", "power=61s"])
def test_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--rate"):
        parse_rates([text])


def test_unknown_family() -> None:
    with pytest.raises(UnknownName, match="did you mean 'memory'"):
        parse_rates(["memroy=1s"])


@pytest.mark.parametrize("text", ["", "ms", "s", "fast", "1 x"])
def test_no_period(text: str) -> None:
    assert math.isnan(parse_duration_s(text))
