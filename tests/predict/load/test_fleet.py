"""Many series at once have the same forecasts as each alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.predict.load.cases import DAY, daily

from flyball.core.errors import BadInput
from flyball.predict.load.contract import LEVELS, certain
from flyball.predict.load.fleet import DEFAULT, Fleet
from flyball.predict.load.naive import Yesterday
from flyball.predict.load.smoothing import Smoothing, SmoothingSettings
from flyball.predict.load.walk import walk


@pytest.mark.parametrize("lead", [1, 5, DAY, DAY + 3])
@pytest.mark.parametrize("settings", [DEFAULT, SmoothingSettings(0.0, 0.4, 0.1, 1.0)])
def test_a_fleet_forecasts_like_the_walk_of_each_series(
    lead: int, settings: SmoothingSettings
) -> None:
    panel = [daily(6, seed) for seed in range(3)]
    panel[1].values[100:110] = math.nan
    fleet = Fleet(3, 1_800.0, lead, settings)
    said = []
    for step in range(len(panel[0])):
        fleet.observe(np.array([member.values[step] for member in panel]))
        said.append(fleet.forecast().quantiles)
    origins = np.arange(len(panel[0]))
    for index, series in enumerate(panel):
        smoothing = Smoothing()
        smoothing.settings = {lead: settings}
        outlooks = {
            "last": certain(series.filled),
            "yesterday": Yesterday().outlook(series, origins, lead),
            "smoothing": smoothing.outlook(series, origins, lead),
        }
        alone = walk(series, outlooks, origins, lead, ("last", "smoothing"))
        together = np.array(said)[:, index]
        np.testing.assert_allclose(together, alone.quantiles, rtol=1e-9, atol=1e-9)


def test_shapes_and_bad_input() -> None:
    fleet = Fleet(2, 60.0, 1)
    with pytest.raises(BadInput, match="observe a step first"):
        fleet.forecast()
    fleet.observe(np.array([1.0, math.nan]))
    mean, quantiles = fleet.forecast()
    assert mean.tolist() == [1.0, 0.0]
    assert quantiles.shape == (2, len(LEVELS))
    with pytest.raises(BadInput, match="use at least 1"):
        Fleet(0, 60.0, 1)
