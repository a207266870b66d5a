"""Forecasts of requests: the true rates look ahead, the live predictor does not."""

from __future__ import annotations

import numpy as np

from flyball.experiments.forecasts.services import true_rates
from flyball.experiments.tuning.replicas import LEAD, Week


def test_true_rates_are_the_highest_until_replicas_are_ready() -> None:
    arrivals = np.array([60.0, 0.0, 120.0, 0.0, 0.0, 0.0, 600.0, 0.0])
    rates = true_rates(Week("m-small", False, 0), arrivals)
    assert len(rates) == len(arrivals)
    expected = [max(arrivals[at + 1 : at + 1 + LEAD], default=0.0) / 60.0 for at in range(7)]
    assert rates[:7].tolist() == expected
