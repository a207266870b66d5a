"""Intervals of a change on one history."""

from __future__ import annotations

import math

import numpy as np

from flyball.experiments.pages.intervals import LEAST_BLOCKS, Change, change, text_of


def test_the_same_factor_everywhere_leaves_no_doubt() -> None:
    theirs = np.random.default_rng(1).exponential(100.0, 400)
    found = change(0.5 * theirs, theirs)
    assert found.blocks == 20
    assert np.allclose(found[:3], -50.0)
    assert text_of(found) == "-50 % (-50 to -50)"


def test_few_jobs_have_no_interval() -> None:
    theirs = np.full(LEAST_BLOCKS, 10.0)
    few = change(theirs * 2, theirs)
    assert few.percent == 100.0
    assert math.isnan(few.low)
    assert text_of(few) == "+100 %"
    assert text_of(change(np.zeros(0), np.zeros(0))) == "-"
    assert text_of(Change(math.nan, math.nan, math.nan, 0)) == "-"


def test_the_interval_holds_the_true_change_about_as_often_as_it_says() -> None:
    draws = np.random.default_rng(2)
    held = 0
    for seed in range(200):
        theirs = draws.exponential(100.0, 900)
        ours = theirs * draws.lognormal(-0.02, 0.2, 900)  # true change: 0 percent
        found = change(ours, theirs, seed)
        held += found.low <= 0.0 <= found.high
    assert 175 <= held <= 199


def test_neighbours_that_share_their_fate_widen_it() -> None:
    draws = np.random.default_rng(3)
    theirs = draws.exponential(100.0, 900)
    alone = theirs * draws.lognormal(0.0, 0.5, 900)
    together = theirs * np.repeat(draws.lognormal(0.0, 0.5, 30), 30)
    narrow, wide = change(alone, theirs), change(together, theirs)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
