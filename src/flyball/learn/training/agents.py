"""Trains the agent: episodes side by side, in chapters that begin anew.

A chapter is one episode of every environment. All begin together from problems that depend on the
seed and the chapter only, so training that is resumed at a chapter goes on as if never stopped.
Rewards are differences to the incumbent's run of the same problem, so an agent that does what the
incumbent does gets 0, whatever the problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flyball.core.results import Floats, Ints
from flyball.learn.agent import Agent, Settings
from flyball.learn.env.govern import GovernBatch, GovernSettings
from flyball.learn.env.spaces import SIZE, Vector, strategy_mask
from flyball.learn.nets import Memo, Rule
from flyball.learn.rivals.look_ahead import LookSettings, look_ahead
from flyball.learn.training.limits import Limits, excess
from flyball.learn.training.sources import TRAIN, problems_of
from flyball.learn.training.trainers import Row, Saved, Setup
from flyball.learn.whole_runs import whole_runs

EPOCHS = 64
"""Length of an episode: a day and a third at half an hour."""
BURN_IN, TAIL = 12, 8
REWARD_BOUND = 3.0
"""Rewards are clipped to this: one starved job must not outweigh all else that was learned."""
WARM_PROBLEMS, WARM_PASSES = 6, 20
CHECK_LIMITS = 4
"""Chapters between two updates of the multipliers."""
LIMIT_PROBLEMS = 4
RAISES = {"completion": 0, "slo": 0, "fairness": 0, "power": 1}
"""Which term of the reward (throughput, energy) a constraint's multiplier adds to: waits and
unfairness follow from jobs that stay longer, peaks from what is drawn."""


class AgentPolicy:
    """Governs whole runs by an agent, without exploration."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def begin(self, runs: int) -> AgentPolicy._Runs:
        """Return what chooses for so many runs; it remembers each of them."""
        return self._Runs(self._agent, runs)

    class _Runs:
        def __init__(self, agent: Agent, runs: int) -> None:
            self._agent, self._memo = agent, agent.net.blank(runs)

        def choose(self, rows: Ints, seen: Vector, pools: Ints) -> tuple[Ints, Floats]:
            """Choose for some of the runs."""
            at = torch.as_tensor(rows)
            memo = Memo(self._memo.h[at], self._memo.c[at])
            chosen, after = self._agent.act(seen, allowed_of(pools), memo, explore=False)
            self._memo.h[at], self._memo.c[at] = after
            return chosen.strategies, chosen.residuals


def allowed_of(pools: Ints) -> npt.NDArray[np.bool_]:
    """Return which strategies may be chosen, a row per run."""
    return np.stack([strategy_mask(int(count)) for count in pools])


class AgentTrainer:
    """Trains an agent; one step is a chapter.

    Attributes:
        agent: what is trained.
    """

    def __init__(
        self, setup: Setup, settings: Settings, warm: bool = True, rule: Rule | None = None
    ) -> None:
        """
        Args:
            setup: common to trainers.
            settings: of the agent.
            warm: imitate sampled look-ahead first; not done over a rule.
            rule: to begin with; None = the incumbent.
        """
        self.setup, self.warm = setup, warm and rule is None
        self.settings = replace(settings, rollout=min(settings.rollout, EPOCHS))
        self.agent = Agent(self.settings, setup.seed, rule)
        self.limits = Limits(setup.limits)
        self.steps = self.epochs = 0
        self.low, self.high = np.full(SIZE, np.inf), np.full(SIZE, -np.inf)
        self._batch = GovernBatch(
            settings.environments,
            GovernSettings(
                epoch_s=setup.epoch_s, epochs=EPOCHS, burn_in=BURN_IN, tail=TAIL,
                threads=setup.threads,
            ),
            setup.seed,
        )  # fmt: skip

    def step(self, progress: float) -> Row:
        """Run a chapter, learning after every rollout."""
        self.agent.progress = progress
        row: Row = {}
        seen = self._begin()
        if not self.steps:
            row |= self._first(seen)
        allowed, memo = allowed_of(self._batch.pools), self.agent.net.blank(len(seen))
        weights = self._weights()
        losses: dict[str, list[float]] = {}
        returns = np.zeros(len(seen))
        for epoch in range(EPOCHS):
            chosen, after = self.agent.act(seen, allowed, memo, explore=True)
            step = self._batch.step(chosen.strategies, chosen.residuals)
            rewards = np.clip((step.terms * weights).sum(axis=1), -REWARD_BOUND, REWARD_BOUND)
            later = step.observations.copy()
            ended = step.terminated | (epoch == EPOCHS - 1)
            self.agent.remember(seen, allowed, memo, chosen, rewards, later, allowed, after, ended)
            seen, memo = later, after
            returns += rewards
            self._note(seen)
            if (epoch + 1) % self.settings.rollout == 0:
                for name, loss in self.agent.learn().items():
                    losses.setdefault(name, []).append(loss)
        self.steps += 1
        self.epochs += EPOCHS * len(seen)
        if self.setup.limits and self.steps % CHECK_LIMITS == 0:
            self._update_limits()
        row |= {"reward": float(returns.mean()) / EPOCHS, "epsilon": self.agent.epsilon}
        row |= {f"loss_{name}": float(np.mean(values)) for name, values in losses.items()}
        return row | {f"multiplier_{name}": one for name, one in self.limits.multipliers.items()}

    def _begin(self) -> Vector:
        """Begin every episode with the problems of this chapter; return the observations."""
        s, count = self.setup, len(self._batch)
        problems = problems_of(s.source, s.seed, TRAIN, self.steps * count, count)
        for run in range(count):
            self._batch.reseed(run, s.seed + self.steps * count + run)
        seen = [self._batch.reset(run, problem) for run, problem in enumerate(problems)]
        return np.stack(seen)

    def _first(self, seen: Vector) -> Row:
        """Set what observations are normalised by, and learn from look-ahead."""
        s = self.setup
        taught: list[Any] = []
        problems = problems_of(s.source, s.seed + 1, TRAIN, 0, WARM_PROBLEMS)
        if self.warm:
            _, taught = look_ahead(problems, LookSettings(every=2), s.epoch_s, s.seed)
        every = np.stack([*seen, *(lesson.seen for lesson in taught)])
        scale = np.maximum(every.std(axis=0), 0.05)
        for net in (self.agent.net, self.agent.target):
            net.mean.copy_(torch.as_tensor(every.mean(axis=0)))
            net.scale.copy_(torch.as_tensor(scale))
        self._note(every)
        if not taught:
            return {}
        loss = self.agent.imitate(
            np.stack([lesson.seen for lesson in taught]),
            np.array([lesson.strategy for lesson in taught]),
            np.stack([lesson.residuals for lesson in taught]),
            WARM_PASSES,
        )
        return {"imitation": loss}

    def _note(self, seen: Vector) -> None:
        self.low = np.minimum(self.low, seen.min(axis=0))
        self.high = np.maximum(self.high, seen.max(axis=0))

    def _weights(self) -> Floats:
        """Return the weights of the reward's terms by environment: goals, and multipliers."""
        goals = np.stack([problem.priorities[:3] for problem in self._batch.problems])
        for name, multiplier in self.limits.multipliers.items():
            goals[:, RAISES[name]] += multiplier
        return np.asarray(goals / np.maximum(goals.sum(axis=1, keepdims=True), 1.0) * 2.0)

    def _update_limits(self) -> None:
        """Move the multipliers by what the policy of now does to whole runs."""
        s, first = self.setup, self.steps * LIMIT_PROBLEMS
        problems = problems_of(s.source, s.seed + 2, TRAIN, first, LIMIT_PROBLEMS)
        runs = whole_runs(
            [(problem, policy) for policy in (None, self.policy()) for problem in problems],
            s.epoch_s, s.threads,
        )  # fmt: skip
        pairs = list(zip(runs[LIMIT_PROBLEMS:], runs[:LIMIT_PROBLEMS], strict=True))
        allowed = np.log1p(np.array(list(self.limits.most.values())))
        worse = [[excess(run, other, name) for name in self.limits.most] for run, other in pairs]
        self.limits.update(np.mean(worse, axis=0) - allowed)

    def policy(self) -> AgentPolicy:
        """Return the agent without exploration."""
        return AgentPolicy(self.agent)

    def served(self) -> tuple[dict[str, Any], Mapping[str, npt.NDArray[np.float32]]]:
        """Return the agent's net as a policy file."""
        s = self.settings
        kind = {"kind": s.body, "activation": "relu", "agent": asdict(s)}
        return kind, self.agent.net.tensors(has_residuals=s.kind != "dqn")

    # Keeping ------------------------------------------------------------------------------

    def save(self) -> Saved:
        """Return nets, optimiser, replay memory and random state."""
        arrays: dict[str, npt.NDArray[Any]] = {"low": self.low, "high": self.high}
        for name, net in (("net", self.agent.net), ("target", self.agent.target)):
            arrays |= {f"{name}/{key}": t.numpy() for key, t in net.state_dict().items()}
        for at, state in self.agent.optimiser.state_dict()["state"].items():
            arrays |= {f"adam/{at}/{key}": t.numpy() for key, t in state.items()}
        replay, counts = self.agent.replay.save()
        arrays |= {f"replay/{key}": values for key, values in replay.items()}
        values = {
            "steps": self.steps, "epochs": self.epochs, "replay": counts,
            "rng": self.agent.rng.bit_generator.state, "multipliers": self.limits.multipliers,
        }  # fmt: skip
        return Saved(values, arrays)

    def restore(self, saved: Saved) -> None:
        """Go on where a state was saved."""
        values, arrays = saved
        self.steps, self.epochs = values["steps"], values["epochs"]
        self.limits.multipliers = dict(values["multipliers"])
        self.low, self.high = arrays["low"], arrays["high"]
        for name, net in (("net", self.agent.net), ("target", self.agent.target)):
            net.load_state_dict(
                {key: torch.as_tensor(t) for key, t in _under(arrays, f"{name}/").items()}
            )
        adam: dict[int, dict[str, torch.Tensor]] = {}
        for key, array in _under(arrays, "adam/").items():
            at, _, part = key.partition("/")
            adam.setdefault(int(at), {})[part] = torch.as_tensor(array)
        groups = self.agent.optimiser.state_dict()["param_groups"]
        self.agent.optimiser.load_state_dict({"state": adam, "param_groups": groups})
        self.agent.replay.restore(_under(arrays, "replay/"), values["replay"])
        self.agent.rng.bit_generator.state = values["rng"]


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays whose names begin so, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
