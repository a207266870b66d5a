"""Every registered forecaster keeps the contract, on fair series and on foul ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.predict.load.cases import DAY, counts, daily, wander

from flyball.core.errors import BadInput, Unavailable, UnknownName
from flyball.predict.load import files, registry
from flyball.predict.load.contract import LEVELS, LoadForecaster, Outlook
from flyball.predict.series import Series

LEADS = (1, 4, DAY)
SERIES: dict[str, Callable[[], Series]] = {"daily": daily, "counts": counts, "wander": wander}


def constant() -> Series:
    return Series("constant", 0.0, 1_800.0, np.full(10 * DAY, 7.0))


def zeros() -> Series:
    return Series("zeros", 0.0, 1_800.0, np.zeros(10 * DAY))


def holes() -> Series:
    series = daily(seed=4, name="holes")
    values = series.values.copy()
    values[np.random.default_rng(5).random(len(values)) < 0.3] = np.nan
    values[200:260] = np.nan
    return replace(series, values=values)


def missing() -> Series:
    return Series("missing", 0.0, 1_800.0, np.full(100, np.nan))


def two() -> Series:
    return Series("two", 0.0, 1_800.0, np.array([1.0, 2.0]))


def milliseconds() -> Series:
    rng = np.random.default_rng(6)
    return Series("fast", 0.0, 0.05, rng.random(1_200))


def odd_step() -> Series:
    return Series("odd", 0.0, 7_000.0, np.random.default_rng(7).random(600))


FOUL = {
    make.__name__: make for make in (constant, zeros, holes, missing, two, milliseconds, odd_step)
}


@pytest.fixture(params=registry.names())
def forecaster(request: pytest.FixtureRequest) -> LoadForecaster:
    kind = registry.get_forecaster(str(request.param))
    if request.param in registry.NETS:  # a few updates keep the contract as well as many
        from flyball.predict.load.neural import Neural, Settings

        assert issubclass(kind, Neural)
        return kind(Settings(updates=12, batch=64, width=16))
    forecaster: LoadForecaster = kind()
    return forecaster


def check(outlook: Outlook, count: int) -> None:
    assert outlook.mean.shape == (count,)
    assert outlook.quantiles.shape == (count, len(LEVELS))
    assert np.isfinite(outlook.mean).all()
    assert np.isfinite(outlook.quantiles).all()
    assert (np.diff(outlook.quantiles, axis=1) >= -1e-9).all()
    np.testing.assert_array_equal(outlook.median, outlook.quantiles[:, 3])


@pytest.mark.parametrize("case", SERIES)
def test_answers_for_many_origins_and_is_the_same_twice(
    forecaster: LoadForecaster, case: str
) -> None:
    series = SERIES[case]()
    cut = 14 * DAY
    forecaster.fit([series.head(cut)], LEADS)
    origins = np.arange(cut, cut + 60)
    for lead in (*LEADS, 7):  # the last was not fitted
        outlook = forecaster.outlook(series, origins, lead)
        check(outlook, len(origins))
        again = forecaster.outlook(series, origins, lead)
        np.testing.assert_array_equal(outlook.quantiles, again.quantiles)
        one = forecaster.outlook(series, origins[30:31], lead)
        np.testing.assert_allclose(one.quantiles[0], outlook.quantiles[30], rtol=1e-6, atol=1e-9)
        if case != "wander":
            assert outlook.quantiles.min() >= 0 or forecaster.__class__.__name__ == "Smoothing"


@pytest.mark.parametrize("case", SERIES)
def test_nobody_looks_ahead(forecaster: LoadForecaster, case: str) -> None:
    series = SERIES[case]()
    beside = np.random.default_rng(8).random(len(series))
    series = replace(series, also={"beside": beside})
    cut, origin = 14 * DAY, 15 * DAY + 5
    forecaster.fit([series.head(cut)], LEADS)
    after = series.values.copy()
    after[origin + 1 :] = 1e6
    changed = beside.copy()
    changed[origin + 1 :] = -1e6
    other = replace(series, values=after, also={"beside": changed})
    origins = np.arange(cut, origin + 1)
    for lead in LEADS:
        first = forecaster.outlook(series, origins, lead)
        second = forecaster.outlook(other, origins, lead)
        np.testing.assert_allclose(first.quantiles, second.quantiles, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(first.mean, second.mean, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("case", FOUL)
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
def test_foul_series_do_no_harm(forecaster: LoadForecaster, case: str) -> None:
    series = FOUL[case]()
    cut = max(1, len(series) // 2)
    forecaster.fit([series.head(cut)], LEADS)
    origins = np.arange(cut, len(series))
    for lead in LEADS:
        check(forecaster.outlook(series, origins, lead), len(origins))
    if case == "constant":
        np.testing.assert_allclose(forecaster.outlook(series, origins, 1).median, 7.0, rtol=0.01)


def test_a_panel_is_learnt_together(forecaster: LoadForecaster) -> None:
    panel = [daily(), counts(), wander()]
    forecaster.fit([series.head(14 * DAY) for series in panel], (1,))
    for series in panel:
        check(forecaster.outlook(series, np.arange(15 * DAY, 16 * DAY), 1), DAY)


def test_before_it_is_fitted_it_says_something(forecaster: LoadForecaster) -> None:
    check(forecaster.outlook(daily(), np.arange(100, 110), 2), 10)


def test_what_was_learnt_is_saved_without_pickle(
    forecaster: LoadForecaster, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    series = daily()
    forecaster.fit([series.head(14 * DAY)], LEADS)
    name = request.node.callspec.params["forecaster"]
    paths = files.write(tmp_path, name, forecaster)
    assert {path.suffix for path in paths} <= {".json", ".safetensors"}
    other = files.read(tmp_path, name)
    assert type(other) is type(forecaster)
    origins = np.arange(15 * DAY, 16 * DAY)
    for lead in LEADS:
        first, second = (loaded.outlook(series, origins, lead) for loaded in (forecaster, other))
        np.testing.assert_allclose(first.quantiles, second.quantiles, rtol=1e-9)
        np.testing.assert_allclose(first.mean, second.mean, rtol=1e-9)


def test_unknown_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'trees'"):
        registry.get_forecaster("treees")


def test_without_torch_there_are_no_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "has_torch", lambda: False)
    assert not set(registry.names()) & set(registry.NETS)
    assert not set(registry.candidates([daily()])) & set(registry.NETS)
    with pytest.raises(Unavailable, match=r"needs torch; pip install flyball\[learn\]"):
        registry.get_forecaster("lstm")


def test_the_budget_says_who_takes_part() -> None:
    series = daily()
    all_of_them = set(registry.names()) - {registry.PARTS}  # it has none
    assert set(registry.candidates([series])) == all_of_them
    assert set(registry.candidates([replace(series, parts={"a": series.values})])) == {
        *all_of_them,
        registry.PARTS,
    }
    assert registry.candidates([series], budget_s=0.0) == [*registry.NAIVE, "same-time"]
    cheap = registry.candidates([series], leads=2, budget_s=10.0)
    assert "trees" in cheap
    assert not set(cheap) & set(registry.NETS)
    # Twice the fits cost twice as much.
    assert "trees" not in registry.candidates([series], leads=2, budget_s=10.0, fits=40)


@pytest.mark.parametrize("text", ["", "[1]", '{"forecaster": "last"', '{"forecaster": "linear"}'])
def test_a_spoilt_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "linear.json").write_text(text)
    with pytest.raises(BadInput, match="not a saved forecaster"):
        files.read(tmp_path, "linear")
    with pytest.raises(BadInput, match="not a saved forecaster"):
        files.read(tmp_path, "none")
