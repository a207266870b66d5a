"""Forecasts are corrected by earlier outcomes, each edge on its own, where that has paid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flyball.control.ask.start_bands import Edges
from flyball.watch.correction import LEAST_OUTCOMES, Correction, Shift, losses_s, quantile

RAW = Edges(100.0, 200.0)


def follow(correction: Correction, waits_s: list[float], raw: Edges = RAW) -> list[Edges]:
    """Forecast one job after another, each once the last has started; return what was shown."""
    shown, now_s = [], 0.0
    for job, wait_s in enumerate(waits_s):
        correction.advance(now_s)
        shown.append(correction.show(job, raw, now_s, teaches=True))
        now_s += wait_s
        correction.started(job, now_s)
    correction.advance(now_s)
    return shown


def test_the_loss_of_two_edges() -> None:
    assert losses_s(Edges(10.0, 20.0), 10.0) == pytest.approx((0.0, 1.0))
    assert losses_s(Edges(10.0, 20.0), 30.0) == pytest.approx((10.0, 9.0))


def test_a_quantile_is_not_exceeded_by_its_part() -> None:
    assert quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile(list(range(1, 11)), 0.9) == 9.0
    assert quantile([], 0.9) == 1.0


def test_nothing_is_corrected_before_there_are_outcomes() -> None:
    correction = Correction()
    assert set(follow(correction, [4000.0] * LEAST_OUTCOMES)) == {RAW}


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_edges_hold_as_often_as_they_state(scale: float) -> None:
    rng = np.random.default_rng(5)
    waits_s = (scale * 100.0 * np.exp(0.8 * rng.normal(size=600))).tolist()
    correction = Correction()
    shown = follow(correction, waits_s)
    for at, level in enumerate((0.5, 0.9)):
        held = [wait_s <= edges[at] for wait_s, edges in zip(waits_s, shown, strict=True)]
        assert sum(held[100:]) / len(held[100:]) == pytest.approx(level, abs=0.12)
    raw_s, shown_s = (
        np.sum([losses_s(edges, wait_s) for edges, wait_s in zip(rows, waits_s, strict=True)])
        for rows in ([RAW] * len(waits_s), shown)
    )
    assert shown_s <= raw_s + 1e-9 or scale == 1.0


def test_one_edge_may_be_corrected_alone() -> None:
    correction = Correction()
    follow(correction, [99.0, 101.0, 98.0, 102.0] * 30)  # p50 is right, p90 far too late
    p50, p90 = correction.bands
    assert p50 == pytest.approx(1.0, abs=0.02) and p90 < 0.7


def test_jobs_that_wait_beyond_an_edge_count_before_they_start() -> None:
    correction = Correction()
    for job in range(LEAST_OUTCOMES):
        correction.show(job, RAW, 0.0, teaches=True)
    correction.advance(150.0)
    assert correction.learnt.p50 > 1.0 and correction.learnt.p90 == 1.0
    correction.advance(5000.0)
    assert correction.learnt.p90 > 5.0
    assert correction.bands == Shift(), "nothing is judged yet"


def test_what_rests_on_stated_limits_teaches_nothing() -> None:
    correction = Correction()
    for job in range(100):
        correction.show(job, RAW, 0.0, teaches=False)
        correction.started(job, 5.0)
        correction.advance(10.0)
    assert correction.learnt == Shift()


def test_a_cancelled_job_is_not_judged() -> None:
    correction = Correction()
    correction.show(1, Edges(10.0, 20.0), 0.0, teaches=True)
    correction.forget(1)
    correction.started(1, 5.0)
    assert all(math.isnan(part) for part in correction.coverage())


def test_an_immediate_start_stays_one() -> None:
    assert Shift(2.0, 2.0).correct(Edges(0.0, 0.0)) == Edges(0.0, 0.0)
    assert Shift(2.0, 0.5).correct(Edges(60.0, 70.0)) == Edges(150.0, 150.0)
