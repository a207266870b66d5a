"""Requests of a service over time: their rate, and their bursts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats
from flyball.physics.serving import Lengths

BLOCK_S = 10.0
"""Length of a block: arrivals are uniformly random within one; bursts make blocks differ."""


@dataclass(frozen=True)
class Traffic:
    """Describes the requests of a service over time.

    Attributes:
        step_s: time between two rates.
        rates_rps: mean rate of each step.
        dispersion: variance over mean of the requests counted over a minute or so, for each
            step; 1 = at random, more = bursts. Bursts move requests within a step.
        lengths: prompt and output lengths of the requests.
        clump: number of identical requests that arrive together. They are simulated as one, which
            is as many times faster and by itself makes arrivals as bursty as `dispersion = clump`.
        steps: the rate is constant within a step and jumps; else it is interpolated linearly
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
        """Return the rate of each block, bursts included."""
        blocks_per_step = round(self.step_s / BLOCK_S)
        count = len(self.rates_rps) * blocks_per_step
        step = np.arange(count) // blocks_per_step
        base = self.rates_rps[step]
        if not self.steps:
            middles = (np.arange(count) + 0.5) / blocks_per_step - 0.5
            base = np.interp(middles, np.arange(len(self.rates_rps)), self.rates_rps)
        more = np.maximum(self.dispersion[step] - self.clump, 0.0)
        spread = more / np.maximum(base * BLOCK_S, 1e-9)
        drawn = np.random.default_rng((seed, 0)).standard_gamma(1.0 / np.maximum(spread, 1e-9))
        factor = np.where(spread > 1e-9, drawn * spread, 1.0)
        # The total of a step was recorded; only the times within it are not known.
        kept = np.bincount(step, base * factor)
        factor = factor * (np.bincount(step, base) / np.where(kept > 0, kept, 1.0))[step]
        rates: Floats = base * factor
        return rates
