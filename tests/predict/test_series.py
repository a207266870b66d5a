"""Series from irregular data: gaps, repeats, bad values, wrong clocks."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from flyball.core.errors import BadInput, UnknownName
from flyball.predict.load.table import read_series, time_of
from flyball.predict.series import Series, regular


def test_gaps_stay_missing_and_are_filled_only_on_request() -> None:
    series = regular("a", [0, 10, 20, 50], [1.0, 2.0, 3.0, 6.0])
    assert series.step_s == 10
    np.testing.assert_array_equal(series.values, [1, 2, 3, math.nan, math.nan, 6])
    np.testing.assert_array_equal(series.filled, [1, 2, 3, 3, 3, 6])
    assert series.notes == ("2 of 6 points are missing",)


def test_rows_out_of_order_and_repeated_stamps_are_put_right() -> None:
    series = regular("a", [20, 0, 10, 10], [3.0, 1.0, 2.0, 4.0])
    np.testing.assert_array_equal(series.values, [1, 3, 3])
    assert any("order of time" in note for note in series.notes)
    assert any("averaged" in note for note in series.notes)


def test_infinite_values_and_missing_times_are_left_out() -> None:
    series = regular("a", [0, 1, math.nan, 2, 3], [1.0, math.inf, 5.0, -math.inf, 4.0])
    np.testing.assert_array_equal(series.values, [1, math.nan, math.nan, 4])
    assert "1 rows without a time left out" in series.notes
    assert "2 infinite values taken as missing" in series.notes


def test_values_dated_in_the_future_are_left_out() -> None:
    series = regular("a", [0, 1, 2, 9e9], [1.0, 2.0, 3.0, 4.0], now_s=10.0)
    assert len(series) == 3
    assert "1 rows dated in the future left out" in series.notes


def test_irregular_stamps_are_averaged_on_a_grid() -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.uniform(0.5, 1.5, 200))
    series = regular("a", times, np.ones(200), step_s=5.0)
    assert 35 <= len(series) <= 45
    assert np.nanmax(series.values) == 1.0
    assert any("off the grid" in note for note in series.notes)


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        pytest.param([], [], "no rows", id="empty"),
        pytest.param([0, 1], [math.nan, math.inf], "no numbers in 2 rows", id="all missing"),
        pytest.param([5, 5], [1.0, 2.0], "only one time stamp", id="one instant"),
        pytest.param(
            [0, 1, 2, 1e12], [1, 1, 1, 1], "points; give a larger step", id="a wild stamp"
        ),
    ],
)
def test_what_cannot_be_used_is_refused(
    times: list[float], values: list[float], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        regular("a", times, values)


def test_a_step_must_be_above_zero() -> None:
    with pytest.raises(BadInput, match="step of 0"):
        regular("a", [0, 1], [1, 2], step_s=0.0)


def test_two_points_are_a_series() -> None:
    assert len(regular("a", [0, 60], [1.0, 2.0])) == 2


def test_head_cuts_the_other_series_too() -> None:
    series = Series("a", 0.0, 60.0, np.arange(5.0), also={"b": np.arange(5.0)})
    assert len(series.head(3)) == 3
    assert len(series.head(3).also["b"]) == 3


def test_days_and_spans_in_steps() -> None:
    assert Series("a", 0.0, 600.0, np.zeros(1)).day == 144
    assert Series("a", 0.0, 7_000.0, np.zeros(1)).day == 0
    assert Series("a", 0.0, 600.0, np.zeros(1)).steps(3_600.0) == 6
    assert Series("a", 0.0, 600.0, np.zeros(1)).steps(1.0) == 1


def test_the_clock_follows_daylight_saving() -> None:
    # 2021-03-28 01:00 UTC: Berlin goes from 02:00 to 03:00.
    start = time_of("2021-03-28T00:00")
    series = Series("a", start, 3_600.0, np.zeros(3), zone="Europe/Berlin")
    second, weekday = series.clock(np.arange(3))
    assert (second / 3_600).tolist() == [1, 3, 4]
    assert weekday.tolist() == [3, 3, 3]  # a Sunday


# Files -------------------------------------------------------------------------

TEXT = """time,vc,load,other
2020-05-01 00:00:00,a,1,5
2020-05-01 00:05:00,a,2,
2020-05-01 00:10:00,a,oops,7
2020-05-01 00:00:00,b,9,1
2020-05-01 00:05:00,b,8,1
"""


def test_a_column_of_some_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    series = read_series(path, "load", where={"vc": "a"}, also=["other"])
    assert series.name == "load a"
    assert series.step_s == 300
    np.testing.assert_array_equal(series.values, [1, 2, math.nan])
    np.testing.assert_array_equal(series.also["other"], [5, math.nan, 7])


def test_errors_of_a_file_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(TEXT)
    with pytest.raises(UnknownName, match="did you mean 'load'"):
        read_series(path, "laod")
    with pytest.raises(BadInput, match="no rows with vc=c"):
        read_series(path, "load", where={"vc": "c"})
    with pytest.raises(UnknownName, match="column of"):
        read_series(path, "load", "when")
    with pytest.raises(BadInput, match="no time zone"):
        read_series(path, "load", zone="Mars/Base")
    with pytest.raises(BadInput, match="cannot be read"):
        read_series(tmp_path / "none.csv", "load")
    path.write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="no column of times; name one of a, b with --time"):
        read_series(path, "b")
    path.write_bytes(b"\x1f\x8bnot really")
    with pytest.raises(BadInput, match="cannot be read"):
        read_series(path, "b")
    path.write_bytes(b"time,b\n\xff\xfe,1\n")
    with pytest.raises(BadInput, match="not a CSV file"):
        read_series(path, "b")


def test_times_are_numbers_or_dates() -> None:
    assert time_of("12.5") == 12.5
    assert time_of("1970-01-02") == 86_400
    assert time_of("1970-01-01T01:00:00+01:00") == 0
    assert math.isnan(time_of("soon"))
