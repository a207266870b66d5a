"""Forecasts are corrected by earlier outcomes only where that has paid."""

from __future__ import annotations

import math

import pytest

from flyball.control.ask.start_bands import Edges
from flyball.watch.correction import LEAST_OUTCOMES, Correction, loss_s


def test_the_loss_of_two_edges() -> None:
    assert loss_s(Edges(10.0, 20.0), 10.0) == pytest.approx(1.0)
    assert loss_s(Edges(10.0, 20.0), 30.0) == pytest.approx(10.0 + 9.0)


def test_nothing_is_corrected_before_there_are_outcomes() -> None:
    correction, raw = Correction(), Edges(100.0, 200.0)
    for job in range(LEAST_OUTCOMES - 1):
        assert correction.show(job, raw, 0.0, teaches=True) == raw
        correction.started(job, 4000.0)
    assert not correction.helps


def test_forecasts_that_are_always_too_early_are_corrected() -> None:
    correction, raw = Correction(), Edges(100.0, 200.0)
    for job in range(100):
        now_s = job * 1000.0
        correction.show(job, raw, now_s, teaches=True)
        correction.started(job, now_s + 600.0)
    shown = correction.show(1000, raw, 1e6, teaches=True)
    assert correction.helps and shown.p90_s > 400.0
    assert correction.bands.correct(raw).p90_s > 400.0


def test_forecasts_that_hold_are_left_alone() -> None:
    correction, raw = Correction(), Edges(100.0, 102.0)
    for job in range(100):  # all are open at a time: the correction sees nothing until too late
        correction.show(job, raw, 0.0, teaches=True)
    for job in range(100):
        correction.started(job, 99.0 if job % 2 else 101.0)
    assert correction.coverage() == [0.5, 1.0]
    assert not correction.helps
    assert correction.show(1000, raw, 1e6, teaches=True) == raw


def test_a_cancelled_job_is_not_judged() -> None:
    correction = Correction()
    correction.show(1, Edges(10.0, 20.0), 0.0, teaches=True)
    correction.forget(1)
    correction.started(1, 5.0)
    assert all(math.isnan(part) for part in correction.coverage())
