"""Adjustments of tuners: every reason that a tuner gives has an action."""

from __future__ import annotations

from flyball.experiments.adjustments import ACTIONS
from flyball.schedule.explain.tuned import UNITS


def test_every_reason_of_a_tuner_has_an_action() -> None:
    assert set(UNITS) - set(ACTIONS) == set()
