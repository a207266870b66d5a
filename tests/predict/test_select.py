"""The choice among forecasters follows their losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flyball.core.results import Floats
from flyball.predict.ledger import Ledger, better
from flyball.predict.load.contract import Outlook, certain
from flyball.predict.load.walk import walk, walk_panel
from flyball.predict.select import (
    AVERAGE,
    BOTTOM_UP,
    FAR_BOTTOM_UP,
    SEASONAL,
    ForecastOffer,
    interval_score,
    new_tracker,
)
from flyball.predict.series import Series, whole_numbers

RNG = np.random.default_rng(7)


def outlooks_of(**points: Floats) -> dict[str, Outlook]:
    return {name: certain(values) for name, values in points.items()}


def test_the_better_one_is_used_and_a_turn_of_fortune_is_followed() -> None:
    truth = np.cumsum(RNG.normal(size=2_001))
    good, bad = truth[1:] + 0.1 * RNG.normal(size=2_000), truth[1:] + RNG.normal(size=2_000)
    first = np.where(np.arange(2_000) < 1_000, good, bad)
    second = np.where(np.arange(2_000) < 1_000, bad, good)
    series = Series("a", 0.0, 3_600.0, truth)  # the memory is four days of hours
    walked = walk(series, outlooks_of(a=first, b=second), np.arange(2_000), 1, ["a"])
    used = np.array(walked.names)[walked.used]
    assert (used[200:1_000] != "b").all()
    assert (used[1_400:] != "a").all()


def test_averaging_is_used_where_it_wins() -> None:
    truth = np.zeros(1_501)
    one, other = RNG.normal(size=1_500), RNG.normal(size=1_500)
    series = Series("a", 0.0, 3_600.0, truth)
    walked = walk(series, outlooks_of(a=one, b=other), np.arange(1_500), 1, ["a"])
    late = np.array(walked.names)[walked.used[300:]]
    assert (late == AVERAGE).mean() > 0.8
    assert np.abs(walked.median[300:]).mean() < 0.85 * np.abs(one[300:]).mean()


def test_an_outcome_is_learnt_only_after_its_lead() -> None:
    truth = np.arange(310.0)
    said = outlooks_of(a=np.zeros(300), b=truth[10:])
    walked = walk(Series("a", 0.0, 1.0, truth), said, np.arange(300), 10, ["a"])
    assert (walked.used[:10] == 0).all()
    assert walked.used[-1] == 1
    assert (walked.bands[:10, 0] == 0.0).all()


def test_missing_outcomes_teach_nothing() -> None:
    truth = np.full(200, math.nan)
    truth[:3] = 1.0
    walked = walk(
        Series("a", 0.0, 1.0, truth), outlooks_of(a=np.full(150, 5.0)), np.arange(2, 152), 1, ["a"]
    )
    assert np.isfinite(walked.quantiles).all()


def test_quantiles_never_decrease_and_hold_the_median() -> None:
    truth = RNG.poisson(1.0, 800).astype(float)
    series = Series("a", 0.0, 600.0, truth)
    spread = np.sort(RNG.uniform(0, 3, (700, 7)), axis=1)
    said = {"a": Outlook(spread[:, 3], spread), "b": certain(np.ones(700))}
    walked = walk(series, said, np.arange(700), 2, ["a", "b"])
    assert (np.diff(walked.quantiles, axis=1) >= 0).all()
    assert (walked.quantiles >= 0).all()
    np.testing.assert_array_equal(walked.quantiles[:, 3], walked.median)


def test_the_interval_score_charges_width_and_misses() -> None:
    assert interval_score(1.0, 3.0, 2.0, 0.1) == 2.0
    assert interval_score(1.0, 3.0, 3.5, 0.1) == 12.0
    assert interval_score(1.0, 3.0, 0.0, 0.1) == 22.0


def test_counts_are_forecast_in_whole_numbers() -> None:
    truth = RNG.poisson(2.0, 400).astype(float)
    said = outlooks_of(a=np.full(300, 1.7), b=np.full(300, 2.2))
    walked = walk(Series("a", 0.0, 600.0, truth), said, np.arange(50, 350), 1, ["a"])
    assert set(walked.median[walked.used < 2]) == {2.0}
    assert whole_numbers(np.array([1.0, math.nan]))
    assert not whole_numbers(np.array([1.5]))
    assert not whole_numbers(np.array([math.nan]))


def test_a_series_that_has_seen_little_follows_the_panel() -> None:
    """On nine series `b` is better; on the tenth `a` was, by luck, for a while."""
    lead, count = 20, 400
    rng = np.random.default_rng(9)
    panel, said = [], []
    for index in range(10):
        truth = rng.normal(size=count + lead)
        target = truth[lead : count + lead]
        good = target + 0.5 * rng.normal(size=count)
        bad = target + 1.0 * rng.normal(size=count)
        if index == 9:
            early = np.arange(count) < 60
            good, bad = np.where(early, bad, good), np.where(early, good, bad)
        panel.append(Series(str(index), 0.0, 3_600.0, truth))
        said.append(outlooks_of(a=bad, b=good))
    together = walk_panel(panel, said, np.arange(count), lead, ["a"])[9]
    alone = walk(panel[9], said[9], np.arange(count), lead, ["a"])
    assert (together.used != 0).mean() > (alone.used != 0).mean()
    one = walk_panel(panel[:1], said[:1], np.arange(count), lead, ["a"])[0]
    np.testing.assert_array_equal(
        one.used, walk(panel[0], said[0], np.arange(count), lead, ["a"]).used
    )


def test_few_leads_of_history_ask_for_more_proof() -> None:
    """The same outcomes, after a short and after a long history."""
    lead, count = 24, 300
    rng = np.random.default_rng(11)
    truth = np.zeros(9_000)
    worse, better = rng.normal(size=count), 0.8 * rng.normal(size=count)
    first = []
    for begin in (100, 8_000):
        origins = np.arange(begin, begin + count)
        series = Series("a", 0.0, 3_600.0, truth)
        walked = walk(series, outlooks_of(a=worse, b=better), origins, lead, ["a"])
        first.append(int(np.argmax(walked.used != 0)) if walked.used.any() else count)
    assert first[1] < first[0]


def test_a_burst_that_all_miss_does_not_prevent_a_switch() -> None:
    """A day ahead, for a month; one value is a hundred times as large as the others."""
    lead, days = 24, 30
    rng = np.random.default_rng(12)
    truth = np.full((days + 80) * lead, 0.5)
    truth[-20 * lead] = 100.0
    origins = np.arange(79 * lead, len(truth) - lead)
    worse, better = (0.5 + size * rng.normal(size=len(origins)) for size in (1.0, 0.8))
    walked = walk(
        Series("a", 0.0, 3_600.0, truth), outlooks_of(a=worse, b=better), origins, lead, ["a"]
    )
    assert (walked.used[-15 * lead :] != 0).all()


def test_losses_are_judged_by_their_differences() -> None:
    ledger = Ledger(2, 1.0, 2)
    for losses in ((5.0, 4.0), (700.0, 700.0), (5.0, 3.0), (2.0, 2.0)):
        ledger.add(np.array(losses))
    gains, doubt = ledger.judged(0)
    np.testing.assert_allclose(gains, [0.0, 3.0])
    np.testing.assert_allclose(doubt, [0.0, math.hypot(1.0, 2.0)])  # of each block of two
    assert ledger.count(0) == pytest.approx(712.0**2 / (705.0**2 + 7.0**2))
    assert better(gains, doubt, 1.0, 0) == 1
    assert better(gains, doubt, 1.5, 0) == 0
    assert better(-gains, doubt, 1.0, 1) == 1


def test_published_bands_have_the_nominal_coverage() -> None:
    """The median of one lies outside of the band of another, and must not make it cover more."""
    rng = np.random.default_rng(13)
    truth = rng.normal(size=6_101)
    wide = np.sort(rng.normal(size=(6_000, 7)), axis=1)
    point = certain(truth[101:] + 0.8 * rng.normal(size=6_000))
    walked = walk(
        Series("a", 0.0, 3_600.0, truth),
        {"a": point, "b": Outlook(wide[:, 3], wide)},
        np.arange(100, 6_100),
        1,
        ["b"],
    )
    low, high = walked.quantiles[1_000:, 0], walked.quantiles[1_000:, -1]
    inside = (low <= truth[1_101:]) & (truth[1_101:] <= high)
    assert (walked.used != 1).all()
    assert inside.mean() == pytest.approx(0.9, abs=0.005)


def test_with_few_days_yesterday_must_have_been_better_to_be_trusted() -> None:
    day, rng = 24, np.random.default_rng(14)
    names = ("last", SEASONAL)
    shape = np.sin(2 * np.pi * np.arange(day) / day)
    for strength, days, lead, trusted in (
        (0.3, 10, 6, 0),
        (0.3, 30, 6, 1),
        (5.0, 10, 6, 1),
        (5.0, 10, 2 * day, 1),
        (0.0, 30, 6, 0),  # it never moved
    ):
        values = strength * np.tile(shape, days) + min(2 * strength, 1.0) * rng.normal(
            size=days * day
        )
        series = Series("a", 0.0, 3_600.0, values)
        tracker = new_tracker(series, len(values) - 1, names, 1, lead)
        offer = ForecastOffer(np.arange(2.0), np.arange(2.0), [[(0.0, 3.0)] * 3])
        assert tracker.propose(offer).used == trusted


def test_a_series_of_parts_trusts_them_near_and_the_clock_as_well_far_ahead() -> None:
    parts = {"x": np.ones(240)}
    series = Series("a", 0.0, 3_600.0, np.ones(240), parts=parts)
    names = ("last", BOTTOM_UP, FAR_BOTTOM_UP)
    offer = ForecastOffer(np.arange(3.0), np.arange(3.0), [[(0.0, 3.0)] * 3])
    used = [new_tracker(series, 200, names, 1, lead).propose(offer).used for lead in (1, 3, 4, 24)]
    assert used == [1, 1, 2, 2]
    fewer = ForecastOffer(np.arange(2.0), np.arange(2.0), [[(0.0, 3.0)] * 3])
    assert new_tracker(series, 200, names[:2], 1, 24).propose(fewer).used == 1


def test_a_series_of_milliseconds_forgets_within_minutes() -> None:
    fast = new_tracker(Series("a", 0.0, 0.05, np.zeros(100)), 50, ("a",), 1, 1)
    assert 0.5 ** (1 / 5_000) < fast.keep < 1.0 < fast.keep + 2e-4


def fading(whole: bool = False, count: int = 900) -> tuple[Floats, Floats]:
    """The used one is clearly the better for a while, then no better than the one trusted first:
    what is said in the end, and what that one said."""
    truth = np.zeros(count + 1)
    first = np.where(RNG.random(count) < 0.5, 10.0, -10.0)
    other = np.where(np.arange(count) < 300, 0.0, -first)
    tracker = new_tracker(Series("a", 0.0, 3_600.0, truth + 0.5 * (not whole)), 0, ("a", "b"), 1, 1)
    said = np.empty(count)
    for at in range(count):
        point = np.array([first[at], other[at]])
        said[at] = tracker.propose(ForecastOffer(point, point, [[(0.0, 0.0)] * 3])).median
        tracker.learn(float(truth[at]))
    return said, first


def test_a_lead_that_fades_is_followed_back() -> None:
    said, first = fading()
    assert (said[100:300] == 0.0).all()
    back = said[320:] / first[320:]  # -1: all the way with the other; 1: none of it
    assert back[0] == -1.0
    assert back[-1] > -0.5
    assert np.mean(np.diff(back) >= -1e-9) > 0.9


def test_whole_numbers_stay_whole_on_the_way() -> None:
    said, _first = fading(whole=True)
    assert (said == np.rint(said)).all()
    assert len(np.unique(said)) > 4
