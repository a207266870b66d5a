"""Policies without a net: numbers of the observation, weighed, give the strategy and residuals.

Three of them differ only in which weights may be other than 0 (`FORMS`):

* `fixed`: none, so one setting whatever is seen: the heuristic, tuned again;
* `rule`: cap and sleep follow the price or carbon of now over the coming day's mean, the load and
  the goals, as the tuner `power` does with `follow`; all else is one setting;
* `linear`: every strategy and residual may follow every feature; `mlp` has a hidden layer between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from flyball.core.errors import UnknownName
from flyball.core.results import Floats, Ints
from flyball.learn.env.spaces import (
    RESIDUALS,
    SIZE,
    STRATEGIES,
    Vector,
    number_names,
    strategy_mask,
)

FORMS = ("fixed", "rule", "linear", "mlp")
HIDDEN = 6
"""Width of the hidden layer of `mlp`."""
FOLLOWING = ("cap", "sleep_s")
"""Residuals that the rule lets follow what is seen."""
OTHERS_AT_FIRST = -1.0
"""Bias of every strategy but the incumbent at first."""


class Feature(NamedTuple):
    """Describes a feature: a weighted sum of numbers of the observation, less a usual value.

    Attributes:
        parts: numbers of the observation and their weights.
        usual: subtracted.
        scale: then divided by, so that features are of like size.
        in_rule: whether the rule reads it.
    """

    name: str
    parts: tuple[tuple[str, float], ...]
    usual: float = 0.0
    scale: float = 1.0
    in_rule: bool = False


def _ahead(subject: str, hours: int) -> str:
    return f"forecast: {subject}, in {hours} h, middle"


FEATURES = (
    # 0 where there is no such signal: its share of the cost is then 0 as well.
    Feature("price", (("cluster: price", 1.0), ("priorities: money", -1.0)), 0.0, 0.3, True),
    Feature("carbon", (("cluster: carbon", 1.0), ("priorities: carbon", -1.0)), 0.0, 0.3, True),
    Feature("price in 2 h", ((_ahead("price", 2), 1.0), ("cluster: price", -1.0)), 0.0, 0.3),
    Feature("price in 8 h", ((_ahead("price", 8), 1.0), ("cluster: price", -1.0)), 0.0, 0.3),
    Feature("carbon in 8 h", ((_ahead("carbon", 8), 1.0), ("cluster: carbon", -1.0)), 0.0, 0.3),
    Feature("used", (("cluster: used", 1.0),), 0.6, 0.3, True),
    Feature("pending devices", (("cluster: pending_devices", 1.0),), 0.3, 0.5, True),
    Feature("pending work", (("cluster: pending_work", 1.0),), 0.5, 0.8),
    Feature("head's work", (("cluster: head_work", 1.0),), 0.3, 0.3),
    Feature("mean wait", (("cluster: mean_wait", 1.0),), 0.3, 0.3),
    Feature("idle nodes", (("cluster: idle_nodes", 1.0),), 0.2, 0.3),
    Feature("load in 4 h", ((_ahead("load", 4), 1.0),), 0.8, 0.8),
    Feature("recent starts", (("cluster: starts", 1.0),), 0.3, 0.4),
    Feature("weight of energy", (("priorities: beta", 1.0),), 1.0, 0.3, True),
)
"""What these policies see. Estimates, forecasts and goals only, as everything they are made of."""
OUTPUTS = len(STRATEGIES) + len(RESIDUALS)


@cache
def feature_matrix() -> tuple[Floats, Floats]:
    """Return the matrix and offset that make features of an observation."""
    places = {name: at for at, name in enumerate(number_names())}
    matrix, offset = np.zeros((len(FEATURES), SIZE)), np.zeros(len(FEATURES))
    for row, feature in enumerate(FEATURES):
        for name, weight in feature.parts:
            matrix[row, places[name]] = weight / feature.scale
        offset[row] = -feature.usual / feature.scale
    return matrix, offset


@dataclass(frozen=True)
class Affine:
    """Chooses by weighted sums of features, perhaps through one hidden layer.

    Attributes:
        weights, bias: of the outputs: odds of the strategies, then residuals.
        hidden, hidden_bias: of the layer before; empty = features are used as they are.
    """

    weights: Floats
    bias: Floats
    hidden: Floats
    hidden_bias: Floats

    def outputs(self, seen: Vector) -> Floats:
        """Return odds of the strategies and residuals, a row per observation."""
        matrix, offset = feature_matrix()
        values = np.asarray(seen, float) @ matrix.T + offset
        if len(self.hidden):
            values = np.tanh(values @ self.hidden.T + self.hidden_bias)
        return np.asarray(values @ self.weights.T + self.bias)

    def begin(self, runs: int) -> Affine:
        """Return itself: it remembers nothing."""
        return self

    def choose(self, rows: Ints, seen: Vector, pools: Ints) -> tuple[Ints, Floats]:
        """Return the strategy with the best odds that is allowed, and the residuals."""
        outputs = self.outputs(seen)
        odds = outputs[:, : len(STRATEGIES)].copy()
        for at, count in enumerate(pools.tolist()):
            odds[at, ~strategy_mask(count)] = -np.inf
        return odds.argmax(axis=1), np.tanh(outputs[:, len(STRATEGIES) :])

    def tensors(self) -> dict[str, Vector]:
        """Return the tensors that serve it, by the names of `policy.forward`."""
        matrix, offset = feature_matrix()
        first, first_bias = matrix, offset
        out = {"norm.mean": np.zeros(SIZE), "norm.scale": np.ones(SIZE)}
        if len(self.hidden):
            out["hidden0.weight"] = self.hidden @ matrix
            out["hidden0.bias"] = self.hidden @ offset + self.hidden_bias
            first, first_bias = np.eye(HIDDEN), np.zeros(HIDDEN)
        weights, bias = self.weights @ first, self.weights @ first_bias + self.bias
        count = len(STRATEGIES)
        out |= {"value.weight": np.zeros((1, weights.shape[1])), "value.bias": np.zeros(1)}
        out |= {"advantage.weight": weights[:count], "advantage.bias": bias[:count]}
        out |= {"mean.weight": weights[count:], "mean.bias": bias[count:]}
        return {name: np.asarray(tensor, np.float32) for name, tensor in out.items()}


# As points of a search -------------------------------------------------------------------


def _free(form: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which weights of the outputs may be other than 0."""
    if form not in FORMS:
        raise UnknownName("form of a policy", form, FORMS)
    inputs = HIDDEN if form == "mlp" else len(FEATURES)
    free = np.zeros((OUTPUTS, inputs), np.bool_)
    if form in ("linear", "mlp"):
        free[:] = True
        free[0] = False  # the odds of the incumbent are 0
    if form == "rule":
        columns = [feature.in_rule for feature in FEATURES]
        for row, residual in enumerate(RESIDUALS):
            free[len(STRATEGIES) + row] = columns if residual.name in FOLLOWING else False
    return free


def first_point(form: str) -> Floats:
    """Return the numbers of a policy that is the incumbent, whatever it sees."""
    bias = np.zeros(OUTPUTS - 1)
    bias[: len(STRATEGIES) - 1] = OTHERS_AT_FIRST
    hidden = np.zeros(0)
    if form == "mlp":  # outputs are 0 while their weights are, so these may be anything
        hidden = np.random.default_rng(0).normal(0.0, 0.4, HIDDEN * (len(FEATURES) + 1))
    return np.concatenate([bias, np.zeros(int(_free(form).sum())), hidden])


def affine_at(form: str, point: Floats) -> Affine:
    """Return the policy of some numbers."""
    free = _free(form)
    bias = np.concatenate([[0.0], point[: OUTPUTS - 1]])
    weights = np.zeros(free.shape)
    end = OUTPUTS - 1 + int(free.sum())
    weights[free] = point[OUTPUTS - 1 : end]
    if form != "mlp":
        return Affine(weights, bias, np.zeros((0, 0)), np.zeros(0))
    layer = point[end:].reshape(HIDDEN, len(FEATURES) + 1)
    return Affine(weights, bias, layer[:, :-1], layer[:, -1])


def widened(form: str, point: Floats, into: str) -> Floats:
    """Return the numbers of the same policy in a form that has more of them."""
    policy = affine_at(form, point)
    assert not (~_free(into) & (policy.weights != 0.0)).any(), f"{into} does not include {form}"
    return np.concatenate([policy.bias[1:], policy.weights[_free(into)]])
