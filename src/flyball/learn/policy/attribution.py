"""Says which numbers of an observation moved a choice: gradient times input, in one backward pass.

The choice is that of a strategy over the incumbent, or, where the strategy is the incumbent's, the
residual furthest from 0. A number's part is the gradient of this at the observation, times how far
the number is from its mean in training. Numbers of the pattern and the queue are added up, as no
single one says much.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from flyball.learn.env.spaces import RESIDUALS, SLICES, STRATEGIES, Vector, number_names
from flyball.learn.policy.forward import PATTERN, Net, Output

SHOWN = 5
"""Numbers named at most."""
SUMMED = ("pattern", "queue")

Features = list[tuple[str, float]]


def moved_by(net: Net, observation: Vector, out: Output, h: Vector, c: Vector) -> Features:
    """Return what moved a choice most, with its part; above 0 = towards it.

    Args:
        net: that of the policy.
        observation: what it saw.
        out: what it said.
        h, c: its memory before.
    """
    x = net.normalised(observation)
    best, of_outputs = int(np.argmax(out.q)), np.zeros(len(STRATEGIES) + len(RESIDUALS), np.float32)
    if best:
        weights = net.tensor("advantage.weight")
        gradient = weights[best] - weights[0]
        of_outputs[best], of_outputs[0] = 1.0, -1.0
    else:
        means = net.tensor("mean.weight").reshape(-1, len(RESIDUALS), len(out.hidden))[0]
        at = int(np.argmax(np.abs(out.residuals)))
        gradient = means[at] * np.sign(out.residuals[at])
        of_outputs[len(STRATEGIES) + at] = np.sign(out.residuals[at])
    parts = (net.gradient(x, h, c, gradient) + net.rule_gradient(of_outputs)) * x
    return _named(parts)


def _named(parts: Vector) -> Features:
    """Return the largest parts with their names."""
    rest = max(SLICES[name].stop for name in SUMMED)
    largest = rest + np.argsort(-np.abs(parts[rest:]), kind="stable")[:SHOWN]
    names = _names()
    named = [(f"{name} as a whole", float(parts[SLICES[name]].sum())) for name in SUMMED]
    named += [(names[at], float(parts[at])) for at in largest.tolist()]
    named.sort(key=lambda part: -abs(part[1]))
    return [(name, round(part, 3)) for name, part in named[:SHOWN] if part]


@cache
def _names() -> tuple[str, ...]:
    return tuple(number_names())


assert PATTERN.start == 0, "the pattern comes first, so that its gradient does"
