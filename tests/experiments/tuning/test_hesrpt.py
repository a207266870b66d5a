"""The market against the optimum that is known, on a small cluster."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.experiments.tuning.hesrpt import gap_pct, optimum_s


def test_the_optimum_of_one_job_and_of_linear_speed() -> None:
    assert optimum_s(np.array([800.0]), 0.5, 16) == pytest.approx(200.0)
    # Nearly linear: shortest first, each on all devices. (10 + 30 + 60) / 3 on ten devices.
    assert optimum_s(np.array([300.0, 100.0, 200.0]), 0.99, 10) == pytest.approx(
        (10 + 30 + 60) / 3, rel=0.03
    )


@pytest.mark.parametrize("power", [0.3, 0.8])
def test_the_market_is_close_to_the_optimum(power: float) -> None:
    assert 0.0 < gap_pct(power, 0, jobs=40, devices=128) < 8.0
