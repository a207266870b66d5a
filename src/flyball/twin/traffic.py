"""The requests of a service over time: how many come when, and in what bursts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats
from flyball.physics.serving import Lengths

BLOCK_S = 10.0
"""Within a block requests come evenly at random; bursts make blocks differ."""


@dataclass(frozen=True)
class Traffic:
    """The requests of a service over time.

    Attributes:
        step_s: between two rates.
        rates_rps: mean rate of each step.
        dispersion: variance over mean of the requests counted over a minute or so, for each
            step; 1 = at random, more = bursts. Bursts move requests about within a step.
        lengths: what requests are like.
        clump: requests that come together and are alike. They are simulated as one, which is
            as many times faster and by itself makes arrivals as bursty as `dispersion = clump`.
        steps: the rate is constant within a step and jumps; else it goes in straight lines
            between the middles of steps.
    """

    step_s: float
    rates_rps: Floats
    dispersion: Floats
    lengths: Lengths
    clump: int = 1
    steps: bool = False

    @property
    def span_s(self) -> float:
        return self.step_s * len(self.rates_rps)

    def block_rates(self, seed: int) -> Floats:
        """The rate of each block, bursts included."""
        each = round(self.step_s / BLOCK_S)
        count = len(self.rates_rps) * each
        step = np.arange(count) // each
        base = self.rates_rps[step]
        if not self.steps:
            middles = (np.arange(count) + 0.5) / each - 0.5
            base = np.interp(middles, np.arange(len(self.rates_rps)), self.rates_rps)
        more = np.maximum(self.dispersion[step] - self.clump, 0.0)
        spread = more / np.maximum(base * BLOCK_S, 1e-9)
        drawn = np.random.default_rng((seed, 0)).standard_gamma(1.0 / np.maximum(spread, 1e-9))
        factor = np.where(spread > 1e-9, drawn * spread, 1.0)
        # What a step brings in all was recorded; only when within it is not known.
        kept = np.bincount(step, base * factor)
        factor = factor * (np.bincount(step, base) / np.where(kept > 0, kept, 1.0))[step]
        rates: Floats = base * factor
        return rates
