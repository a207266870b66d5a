"""Nets learn patterns within their budget, with the same result for the same seed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.predict.load.cases import DAY, daily

from flyball.predict.backtest import coverage, mae
from flyball.predict.load import files
from flyball.predict.series import Series

pytest.importorskip("torch")

from flyball.predict.load.lstm import Lstm
from flyball.predict.load.neural import Neural, Settings
from flyball.predict.load.transformer import Transformer

QUICK = Settings(updates=60, batch=64, width=16, rate=8e-3)


def beats(count: int = 1_500, seed: int = 3) -> Series:
    """Busy for five steps, idle for three, with a little noise."""
    steps = np.arange(count)
    noise = np.random.default_rng(seed).normal(size=count)
    return Series("beats", 0.0, 0.05, np.where(steps % 8 < 5, 90.0, 5.0) + 2 * noise)


def test_the_lstm_follows_a_beat_that_the_last_value_misses() -> None:
    series, cut = beats(), 1_000
    net = Lstm(QUICK)
    net.fit([series.head(cut)], (1, 4))
    origins = np.arange(cut, len(series) - 4)
    for lead in (1, 4):
        actual = series.values[origins + lead]
        said = net.outlook(series, origins, lead)
        assert mae(actual, said.median) < 0.5 * mae(actual, series.values[origins])


def test_the_transformer_knows_the_time_of_day() -> None:
    series, cut = daily(40), 30 * DAY
    net = Transformer(QUICK)
    net.fit([series.head(cut)], (12,))
    origins = np.arange(cut, len(series) - 12)
    actual = series.values[origins + 12]
    said = net.outlook(series, origins, 12)
    assert mae(actual, said.median) < 0.3 * mae(actual, series.values[origins])
    assert 70 < coverage(actual, said.quantiles[:, 0], said.quantiles[:, -1]) <= 100


@pytest.mark.parametrize("kind", [Lstm, Transformer])
def test_the_same_seed_gives_the_same_net(kind: type[Neural]) -> None:
    series = daily()
    first, second = kind(replace(QUICK, updates=5)), kind(replace(QUICK, updates=5))
    for net in (first, second):
        net.fit([series], (1,))
    origins = np.arange(100, 200)
    np.testing.assert_array_equal(
        first.outlook(series, origins, 1).quantiles, second.outlook(series, origins, 1).quantiles
    )
    other = kind(replace(QUICK, updates=5, seed=2))
    other.fit([series], (1,))
    assert not np.array_equal(
        first.outlook(series, origins, 1).mean, other.outlook(series, origins, 1).mean
    )


@pytest.mark.parametrize("kind", [Lstm, Transformer])
def test_training_ends_with_its_budget(kind: type[Neural]) -> None:
    net = kind(Settings(updates=1_000_000, budget_s=0.3))
    net.fit([daily()], (1, 4))
    assert 1 <= net.trained["updates"] < 1_000_000
    assert net.trained["cpu_s"] >= 0.3


def test_values_that_are_missing_teach_nothing_and_a_file_brings_the_net_back(
    tmp_path: Path,
) -> None:
    series = daily()
    values = series.values.copy()
    values[::3] = math.nan
    net = Lstm(replace(QUICK, updates=10))
    net.fit([replace(series, values=values)], (1, 6))
    origins = np.arange(300, 360)
    said = net.outlook(series, origins, 1)
    assert np.isfinite(said.quantiles).all()
    weights, card = files.write(tmp_path, "lstm", net)
    assert (weights.name, card.name) == ("lstm.weights.safetensors", "lstm.json")
    # What a card names lies beside it, wherever it says it is.
    card.write_text(card.read_text().replace("file:", "file:../../elsewhere/"))
    again = files.read(tmp_path, "lstm").outlook(series, origins, 1)
    np.testing.assert_array_equal(said.quantiles, again.quantiles)
