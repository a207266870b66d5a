"""Goals of an operator as settings of the tuners."""

from __future__ import annotations

import pytest

from flyball.core.errors import BadInput, UnknownName
from flyball.live import make_tuners
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import Weights
from flyball.tune.power import Power
from flyball.tune.weight_settings import read_weights, weight_settings


def test_goals_that_are_not_named_count_nothing() -> None:
    assert read_weights("completion=1") == Weights(0.0, 0.0, 1.0)
    assert read_weights(" work=2, energy = 0.5") == Weights(2.0, 0.5, 0.0)


def test_settings_make_the_tuners_that_weights_make() -> None:
    weights = Weights(0.0, 1.0, 2.0)
    names = ("elastic", "power")
    tuners = make_tuners(names, weight_settings("energy=1,completion=2", names))
    assert tuners == {"elastic": weights.elastic(Elastic()), "power": weights.power(Power())}
    assert tuners["elastic"] != Elastic()


def test_equal_weights_change_nothing() -> None:
    assert weight_settings("work=3,energy=3,completion=3", ("elastic", "share")) == []


@pytest.mark.parametrize("text", ["completion", "completion=x", "work=-1", "work=0", "work=nan"])
def test_what_is_no_weight(text: str) -> None:
    with pytest.raises(BadInput, match="weights"):
        weight_settings(text, ("elastic",))


def test_an_unknown_goal_and_no_tuner() -> None:
    with pytest.raises(UnknownName, match="did you mean 'completion'"):
        weight_settings("completon=1", ("elastic",))
    with pytest.raises(BadInput, match="changes none of the tuners"):
        weight_settings("work=1", ("replicas",))
