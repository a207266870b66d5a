"""What is forecast survives the journal, in its present and its former form."""

from __future__ import annotations

import json

import numpy as np

from flyball.core.forecast import (
    NO_OUTLOOK,
    Forecast,
    Outlook,
    outlook_as_json,
    outlook_from_json,
)

RISING = Forecast(
    (0.05, 0.5, 0.95),
    np.array([[1.0, 1.5, 2.0], [2.0, 3.0, 2.5], [4.0, 9.0, 6.0]]),
    np.array([2.0, 3.0, 4.0]),
    300.0,
)


def same(one: Forecast | None, other: Forecast | None) -> bool:
    assert one is not None and other is not None
    return (
        one.levels == other.levels
        and one.step_s == other.step_s
        and np.array_equal(one.quantiles, other.quantiles)
        and np.array_equal(one.mean, other.mean)
    )


def test_the_nearest_level_is_read() -> None:
    assert RISING.row(0.9).tolist() == [4.0, 9.0, 6.0]
    assert RISING.row(0.0).tolist() == [1.0, 1.5, 2.0]


def test_a_value_at_a_lead_and_the_peak_up_to_it() -> None:
    assert [RISING.at(0.95, ahead_s) for ahead_s in (0, 300, 301, 900, 9000)] == [4, 4, 9, 6, 6]
    assert [RISING.peak(0.95, ahead_s) for ahead_s in (0, 300, 301, 900, 9000)] == [4, 4, 9, 9, 9]


def test_an_outlook_survives_json() -> None:
    outlook = Outlook(load=RISING, carbon=RISING._replace(step_s=3600.0), requests={3: RISING})
    again = outlook_from_json(json.loads(json.dumps(outlook_as_json(outlook))))
    assert same(again.load, outlook.load) and same(again.carbon, outlook.carbon)
    assert again.price is None
    assert same(again.requests[3], RISING) and set(again.requests) == {3}


def test_no_outlook_is_null_on_record() -> None:
    assert outlook_as_json(NO_OUTLOOK) is None
    assert outlook_from_json(None) == NO_OUTLOOK


def test_an_older_journal_holds_one_forecast_of_load_by_the_minute() -> None:
    values = {"levels": [0.05, 0.95], "quantiles": [[1.0], [2.0]], "mean": [1.5]}
    outlook = outlook_from_json(values)
    assert outlook.load is not None and outlook.load.step_s == 60.0
    assert outlook.load.peak(0.9, 60.0) == 2.0 and outlook.price is None
