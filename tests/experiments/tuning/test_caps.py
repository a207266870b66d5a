"""The bench of caps: curves from measurements, choice on one half, score on the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data
from flyball.experiments.tuning import caps
from flyball.experiments.tuning.caps import (
    FRACTIONS,
    Configuration,
    choose,
    configuration,
    read,
    rows,
)


def test_a_configuration_follows_its_own_measurements() -> None:
    """Draws 200 W; limits of 100, 150 and 250 W were measured."""
    measured = configuration("k", np.array([[100, 40.0, 90], [150, 25, 140], [250, 20, 200]]))
    assert measured.binds
    assert measured.time[0] == measured.energy[0] == 1.0
    at_75 = int(np.flatnonzero(np.isclose(FRACTIONS, 0.75))[0])
    assert measured.time[at_75] == pytest.approx(25 / 20)
    assert measured.energy[at_75] == pytest.approx(25 / 20 * (140 + 200 / 3) / (200 + 200 / 3))
    assert measured.time[-1] == pytest.approx(2.0)


def test_a_limit_above_the_draw_does_not_bind() -> None:
    measured = configuration("k", np.array([[100, 20.0, 50], [150, 20, 50], [250, 20, 50]]))
    assert not measured.binds
    assert (measured.time == 1.0).all() and measured.energy == pytest.approx(np.ones(11))


def flat(kind: str, slope: float) -> Configuration:
    steps = np.arange(11.0)
    time, power = np.asarray(1 + slope * steps), np.asarray(1 - 0.04 * steps)
    return Configuration(kind, time, power, True)


def test_each_kind_gets_the_strongest_cap_that_it_bears() -> None:
    training = [flat("steep", 0.06)] * 20 + [flat("mild", 0.005)] * 20
    steep, mild = choose(training, "steep", True), choose(training, "mild", True)
    assert steep < choose(training, "steep", False) == choose(training, "mild", False) < mild


@pytest.fixture
def measured() -> None:
    try:
        shared_data("zeus")
    except DataAbsent as absent:
        pytest.skip(str(absent))


@pytest.mark.usefixtures("measured")
def test_all_configurations_are_read() -> None:
    assert [len(read(name)) for name in caps.TYPES] == [68, 53, 51, 45]


@pytest.mark.usefixtures("measured")
def test_caps_save_what_they_must_on_configurations_kept_back() -> None:
    table = rows()
    by_case = {(row["case"], row["metric"]): row for row in table}
    pooled = by_case["caps on all types, by data set and network", "node energy saved"]
    assert pooled["value"] >= pooled["bar"] == 7.0
    assert pooled["low"] < pooled["value"] < pooled["high"]
    slower = by_case["caps on all types, by data set and network", "slower"]
    assert slower["value"] <= 6.0
    assert rows() == table


def test_without_the_data_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYBALL_DATA", str(tmp_path))
    with pytest.raises(DataAbsent):
        rows()
