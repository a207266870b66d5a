"""Trains the contextual bandit: rewards of single epochs, each from the incumbent's same state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.learn.env.govern import GovernBatch, GovernSettings
from flyball.learn.env.spaces import SIZE
from flyball.learn.rivals.bandit import LinUcb
from flyball.learn.rivals.look_ahead import candidates
from flyball.learn.training.sources import TRAIN, problems_of
from flyball.learn.training.trainers import Row, Saved, Setup

RUNS, EPOCHS, BURN_IN = 16, 48, 12
WIDTH = 0.5
REWARD_BOUND = 3.0


class BanditTrainer:
    """Trains `LinUcb`; one step is an episode of every environment."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.bandit = setup, LinUcb.new(WIDTH)
        self.steps = self.epochs = 0
        self.low, self.high = np.full(SIZE, np.inf), np.full(SIZE, -np.inf)
        settings = GovernSettings(
            epoch_s=setup.epoch_s, epochs=EPOCHS, burn_in=BURN_IN, tail=0, resync=1,
            threads=setup.threads,
        )  # fmt: skip
        self._batch = GovernBatch(RUNS, settings, setup.seed)

    def step(self, progress: float) -> Row:
        """Run an episode of every environment, learning after every epoch."""
        s, batch = self.setup, self._batch
        problems = problems_of(s.source, s.seed, TRAIN, self.steps * RUNS, RUNS)
        for run in range(RUNS):
            batch.reseed(run, s.seed + self.steps * RUNS + run)
        seen = np.stack([batch.reset(run, problem) for run, problem in enumerate(problems)])
        strategies, residuals = candidates(int(batch.pools.max()) + 1)
        total = 0.0
        for _ in range(EPOCHS):
            arms = self.bandit.arms(seen, batch.pools, self.bandit.width)
            step = batch.step(strategies[arms], residuals[arms])
            rewards = np.clip(np.asarray(step.rewards, float), -REWARD_BOUND, REWARD_BOUND)
            self.bandit.learn(seen, arms, rewards)
            seen = step.observations.copy()
            self.low = np.minimum(self.low, seen.min(axis=0))
            self.high = np.maximum(self.high, seen.max(axis=0))
            total += float(rewards.mean())
        self.steps += 1
        self.epochs += RUNS * EPOCHS
        return {"reward": total / EPOCHS}

    def policy(self) -> LinUcb:
        """Return the bandit, which tries nothing for its own sake."""
        return self.bandit

    def served(self) -> tuple[dict[str, Any], Mapping[str, npt.NDArray[np.float32]]] | None:
        """Return None: a policy file has residuals for a strategy, not settings to choose from."""
        return None

    def save(self) -> Saved:
        """Return the estimates."""
        arrays = {"precision": self.bandit.precision, "rewarded": self.bandit.rewarded}
        values = {"steps": self.steps, "epochs": self.epochs}
        return Saved(values, {**arrays, "low": self.low, "high": self.high})

    def restore(self, saved: Saved) -> None:
        """Go on where a state was saved."""
        self.steps, self.epochs = saved.values["steps"], saved.values["epochs"]
        self.bandit.precision = saved.arrays["precision"]
        self.bandit.rewarded = saved.arrays["rewarded"]
        self.low, self.high = saved.arrays["low"], saved.arrays["high"]
