"""The hybrid agent: a deep Q-network chooses the strategy, a policy gradient sets the residuals.

    agent = Agent(Settings(), seed=1)
    chosen, memo = agent.act(observations, masks, memo, explore=True)
    agent.remember(...)                   # every epoch
    losses = agent.learn()                # every `rollout` epochs

Both heads share one network and one optimiser. In one step of learning their losses are added up:

* strategy: double Q-learning (van Hasselt et al. 2016) on a dueling head (Wang et al. 2016), from
  prioritised n-step replay; the online network chooses what the target network values;
* residuals: the clipped policy gradient (Schulman et al. 2017) on the latest epochs, with
  advantages from the critic (generalised estimates), for the strategy that was chosen.

The LSTM's state is stored with every epoch (Kapturowski et al. 2019). The policy gradient goes back
through all epochs of a rollout, the strategies' values through the one that was drawn.

`kind` leaves one out: "dqn" keeps all residuals at 0, "pg" chooses the strategy by the policy
gradient as well. What is chosen is clipped to -1..1; the gradient is that of the unclipped draw.

Given a rule, the agent begins as that rule instead of as the incumbent, and learns what to add to
it; "dqn" keeps the rule's residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flyball.core.results import Floats, Ints
from flyball.learn.env.spaces import STRATEGIES
from flyball.learn.memory import Batch, Memory
from flyball.learn.nets import Heads, Memo, Net, Rule
from flyball.learn.search.space import searched

Bools = npt.NDArray[np.bool_]
Vector = npt.NDArray[np.float32]
KINDS = ("hybrid", "dqn", "pg")
LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
MARGIN = 0.05
"""Least lead of an imitated strategy's value over that of every other one. A rule's odds count as
so much value each: they decide until values are known, and then matter little."""


@dataclass(frozen=True)
class Settings:
    """Settings of the agent; those with bounds can be searched (`flyball learn search`).

    Attributes:
        kind: hybrid, dqn or pg.
        body: conv-lstm or mlp.
        environments: stepped side by side.
        rollout: epochs of each between two calls of `learn`.
        width: of the layer behind the observation.
        memory: width of the LSTM, or of the second layer of an mlp.
        learning_rate: of Adam, falling to a tenth over the training.
        discount: of a reward for each epoch that it comes later.
        steps: epochs of a row of the replay memory.
        replay: rows kept.
        batch: rows and epochs in one step of the optimiser.
        passes: over the latest epochs in a call of `learn`.
        alpha, beta: of the prioritised replay; beta rises to 1 over the training.
        epsilon, last_epsilon: part of strategies drawn evenly, at first and from `explored` on.
        explored: part of the training over which epsilon falls.
        entropy: weight of the entropy at first; it falls to 0 over the training.
        clip: how far the policy may move from the one that acted, as a ratio.
        trace: lambda of the generalised advantage estimates.
        target: part of the online network taken over by the target network in each step.
        q_weight, critic_weight: of these losses beside that of the policy.
        grad_norm: longest gradient.
    """

    kind: str = "hybrid"
    body: str = "conv-lstm"
    environments: int = 16
    rollout: int = 16
    width: int = searched(64, 16, 192, log=True)
    memory: int = searched(32, 8, 96, log=True)
    learning_rate: float = searched(1e-3, 1e-4, 1e-2, log=True)
    discount: float = searched(0.9, 0.5, 0.99)
    steps: int = searched(4, 1, 10)
    replay: int = 8_192
    batch: int = 128
    passes: int = searched(2, 1, 5)
    alpha: float = searched(0.6, 0.0, 1.0)
    beta: float = 0.4
    epsilon: float = searched(0.3, 0.05, 0.6)
    last_epsilon: float = 0.02
    explored: float = searched(0.5, 0.1, 0.9)
    entropy: float = searched(1e-3, 1e-5, 1e-1, log=True)
    clip: float = searched(0.2, 0.05, 0.4)
    trace: float = searched(0.9, 0.5, 1.0)
    target: float = searched(0.02, 1e-3, 0.2, log=True)
    q_weight: float = searched(1.0, 0.1, 10.0, log=True)
    critic_weight: float = 0.5
    grad_norm: float = 1.0


class Chosen(NamedTuple):
    """Actions of one epoch, a row per environment.

    Attributes:
        strategies: indices.
        drawn: residuals before they are clipped; what the gradient is taken at.
        chance: logarithm of the density at which the policy drew them.
    """

    strategies: Ints
    drawn: Floats
    chance: Floats

    @property
    def residuals(self) -> Floats:
        """The residuals as they are carried out."""
        return np.clip(self.drawn, -1.0, 1.0)


class _Epochs(NamedTuple):
    """The latest epochs (rows) of all environments (columns); the memory at their begin."""

    h: Tensor
    c: Tensor
    seen: Tensor
    allowed: Tensor
    strategies: Tensor
    drawn: Tensor
    chance: Tensor
    advantage: Tensor
    value: Tensor


class Agent:
    """Acts, remembers and learns. All randomness comes from the seed.

    Attributes:
        progress: part of the training that is over, from 0 to 1; sets the schedules.
    """

    def __init__(self, settings: Settings, seed: int, rule: Rule | None = None) -> None:
        """
        Args:
            settings: of the agent.
            seed: of everything that is drawn.
            rule: to begin with, its strategies' odds among the outputs; None = the incumbent.
        """
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.settings, self.progress = settings, 0.0
        self.rng = np.random.default_rng([seed, 1])
        if rule is not None and settings.kind != "pg":
            rule = _as_values(rule)
        self.net = Net(settings.body, settings.width, settings.memory, rule)
        self.target = Net(settings.body, settings.width, settings.memory)
        self.target.load_state_dict(self.net.state_dict())
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=settings.learning_rate)
        self.replay = Memory(
            settings.replay, settings.environments, settings.steps, settings.discount,
            settings.alpha,
        )  # fmt: skip
        self._latest: list[dict[str, Any]] = []

    # Acting -------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """The part of strategies that are drawn evenly now."""
        s = self.settings
        part = min(1.0, self.progress / s.explored)
        return s.epsilon + part * (s.last_epsilon - s.epsilon)

    def act(self, seen: Vector, allowed: Bools, memo: Memo, explore: bool) -> tuple[Chosen, Memo]:
        """Choose for every environment; return the choices and the memory after them.

        Args:
            seen: observations, a row each.
            allowed: strategies that may be chosen, a row each.
            memo: what is remembered of the epochs before.
            explore: draw; else the best strategy and the means.
        """
        with torch.no_grad():
            heads, after = self.net(torch.as_tensor(seen), memo)
            values = heads.values.masked_fill(~torch.as_tensor(allowed), -torch.inf)
            if self.settings.kind == "pg" and explore:
                noise = self.rng.gumbel(size=tuple(values.shape))
                strategies = (values + torch.as_tensor(noise)).argmax(dim=1).numpy()
            else:
                strategies = values.argmax(dim=1).numpy()
            if self.settings.kind != "pg" and explore:
                strategies = self._explored(strategies, allowed)
            means = heads.means[torch.arange(len(seen)), torch.as_tensor(strategies)]
            drawn = means.double().numpy()
            if self.settings.kind != "dqn" and explore:
                noise = self.rng.standard_normal(drawn.shape)
                drawn = drawn + noise * heads.spread.exp().double().numpy()
            chance, _ = self._chances(
                heads, torch.as_tensor(allowed), torch.as_tensor(strategies), torch.as_tensor(drawn)
            )
        return Chosen(strategies, drawn, chance.double().numpy()), after

    def _explored(self, strategies: Ints, allowed: Bools) -> Ints:
        """Replace some strategies by ones drawn evenly among those allowed."""
        ranks = np.where(allowed, self.rng.random(allowed.shape), -1.0)
        drawn = self.rng.random(len(strategies)) < self.epsilon
        return np.where(drawn, ranks.argmax(axis=1), strategies)

    def _chances(
        self, heads: Heads, allowed: Tensor, strategies: Tensor, drawn: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the logarithm of the density of actions, and the entropy of the policy."""
        means = at_strategies(heads.means, strategies)
        offset = (drawn.float() - means) / heads.spread.exp()
        chance = (-0.5 * offset.square() - heads.spread - LOG_ROOT).sum(dim=-1)
        entropy = (heads.spread + 0.5 + LOG_ROOT).sum().expand(chance.shape)
        if self.settings.kind == "pg":
            odds = heads.values.masked_fill(~allowed, -1e9).log_softmax(dim=-1)
            chance = chance + odds.gather(-1, strategies[..., None])[..., 0]
            entropy = entropy - (odds.exp() * odds).sum(dim=-1)
        return chance, entropy

    # Remembering --------------------------------------------------------------------------

    def remember(
        self, seen: Vector, allowed: Bools, memo: Memo, chosen: Chosen, rewards: Floats,
        later: Vector, later_allowed: Bools, after: Memo, ended: Bools,
    ) -> None:  # fmt: skip
        """Take note of one epoch of every environment.

        Args:
            seen, allowed, memo: what `act` was given.
            later, later_allowed, after: the same of the next epoch.
            ended: which episodes are over.
        """
        h, c, then_h, then_c = (part.numpy() for part in (*memo, *after))
        if self.settings.kind != "pg":
            for at in range(len(rewards)):
                then = {"seen": later[at], "allowed": later_allowed[at]}
                self.replay.add(
                    at,
                    {"seen": seen[at], "h": h[at], "c": c[at]},
                    {"strategy": np.int64(chosen.strategies[at])},
                    float(rewards[at]),
                    {**then, "h": then_h[at], "c": then_c[at]},
                    bool(ended[at]),
                )
        if self.settings.kind != "dqn":
            now = {"seen": seen, "allowed": allowed, "h": h, "c": c, "rewards": rewards}
            then = {"later": later, "then_h": then_h, "then_c": then_c, "ended": ended}
            copied = {name: np.array(value) for name, value in {**now, **then}.items()}
            self._latest.append({**copied, "chosen": chosen})

    # Learning -----------------------------------------------------------------------------

    def learn(self) -> dict[str, float]:
        """Learn from the latest epochs and from replay; return the mean losses."""
        s = self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = s.learning_rate * (1.0 - 0.9 * self.progress)
        epochs = self._epochs() if s.kind != "dqn" else None
        together = max(1, s.batch // s.rollout)  # environments in one step of the optimiser
        sums: dict[str, float] = {}
        for _ in range(s.passes):
            order = self.rng.permutation(s.environments)
            for first in range(0, s.environments, together):
                parts = {}
                if epochs is not None:
                    columns = torch.as_tensor(order[first : first + together])
                    parts = self._policy_losses(_columns(epochs, columns))
                if s.kind != "pg" and self.replay.count >= s.batch:
                    parts["q"] = s.q_weight * self._q_loss()
                self._descend(parts)
                for name, loss in parts.items():
                    sums[name] = sums.get(name, 0.0) + float(loss.detach())
        self._latest.clear()
        steps = s.passes * -(-s.environments // together)
        return {name: total / steps for name, total in sums.items()}

    def _descend(self, losses: dict[str, Tensor]) -> None:
        """Make one step of the optimiser down the sum of the losses."""
        if not losses:
            return
        self.optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.grad_norm)
        self.optimiser.step()
        with torch.no_grad():
            for old, new in zip(self.target.parameters(), self.net.parameters(), strict=True):
                old.lerp_(new, self.settings.target)

    def _q_loss(self) -> Tensor:
        """Return the loss of the strategies' values on a draw from the replay memory."""
        s = self.settings
        batch: Batch = self.replay.draw(s.batch, s.beta + self.progress * (1 - s.beta), self.rng)
        rows = torch.arange(s.batch)
        with torch.no_grad():
            later = torch.as_tensor(batch.later["seen"])
            allowed = torch.as_tensor(batch.later["allowed"])
            memo = _memo(batch.later)
            best = self.net(later, memo)[0].values.masked_fill(~allowed, -torch.inf).argmax(dim=1)
            then = self.target(later, memo)[0].values[rows, best]
            goal = torch.as_tensor(batch.returns).float()
            goal = goal + torch.as_tensor(batch.discounts).float() * then
        chosen = torch.as_tensor(batch.chosen["strategy"])
        heads, _ = self.net(torch.as_tensor(batch.seen["seen"]), _memo(batch.seen))
        values = heads.values[rows, chosen]
        self.replay.set_errors(batch.rows, (goal - values).detach().double().numpy())
        loss = torch.nn.functional.smooth_l1_loss(values, goal, reduction="none")
        return (torch.as_tensor(batch.weights).float() * loss).mean()

    def _policy_losses(self, epochs: _Epochs) -> dict[str, Tensor]:
        """Return the losses of the policy, its entropy and its critic on some of the epochs."""
        s = self.settings
        heads, _ = self.net.unrolled(epochs.seen, Memo(epochs.h, epochs.c))
        chance, entropy = self._chances(heads, epochs.allowed, epochs.strategies, epochs.drawn)
        ratio = (chance - epochs.chance).clamp(-20.0, 20.0).exp()
        clipped = ratio.clamp(1.0 - s.clip, 1.0 + s.clip)
        gain = torch.minimum(ratio * epochs.advantage, clipped * epochs.advantage)
        return {
            "policy": -gain.mean(),
            "entropy": -s.entropy * (1.0 - self.progress) * entropy.mean(),
            "critic": s.critic_weight * (heads.critic - epochs.value).square().mean(),
        }

    def _epochs(self) -> _Epochs:
        """Return the latest epochs with their advantages, normalised."""
        s, latest = self.settings, self._latest
        columns = {name: np.stack([epoch[name] for epoch in latest])
                   for name in latest[0] if name != "chosen"}  # fmt: skip
        rewards, ended = columns["rewards"], columns["ended"]
        of_seen = self._critic(columns["seen"], columns["h"], columns["c"])
        of_later = self._critic(columns["later"], columns["then_h"], columns["then_c"])
        errors = rewards + s.discount * np.where(ended, 0.0, of_later) - of_seen
        advantage, behind = np.zeros_like(rewards), np.zeros(rewards.shape[1])
        for at in range(len(latest) - 1, -1, -1):
            behind = errors[at] + s.discount * s.trace * np.where(ended[at], 0.0, behind)
            advantage[at] = behind
        value = advantage + of_seen
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        every: list[Chosen] = [epoch["chosen"] for epoch in latest]
        arrays = (
            columns["h"][0], columns["c"][0], columns["seen"], columns["allowed"],
            np.stack([one.strategies for one in every]), np.stack([one.drawn for one in every]),
            np.stack([one.chance for one in every]), advantage, value,
        )  # fmt: skip
        tensors = [torch.as_tensor(array) for array in arrays]
        return _Epochs(*(one.float() if one.is_floating_point() else one for one in tensors))

    def _critic(self, seen: Vector, h: Vector, c: Vector) -> Floats:
        """Return the critic's values of epochs x environments."""
        flat = [torch.as_tensor(part.reshape(-1, part.shape[-1])) for part in (seen, h, c)]
        with torch.no_grad():
            heads, _ = self.net(flat[0], Memo(*flat[1:]))
        return np.asarray(heads.critic.double().numpy().reshape(seen.shape[:2]))

    # Imitating ----------------------------------------------------------------------------

    def imitate(self, seen: Vector, strategies: Ints, residuals: Floats, passes: int) -> float:
        """Learn to do what a teacher did; return the last mean loss.

        The chosen strategy must be worth a margin more than every other (Hester et al. 2018), or
        be likelier, and the means of the residuals move to the teacher's.
        """
        s, total = self.settings, 0.0
        for _ in range(passes):
            order, total = self.rng.permutation(len(seen)), 0.0
            for first in range(0, len(seen), s.batch):
                rows = order[first : first + s.batch]
                chosen = torch.as_tensor(strategies[rows])
                heads, _ = self.net(torch.as_tensor(seen[rows]), self.net.blank(len(rows)))
                at = torch.arange(len(rows))
                if s.kind == "pg":
                    choice = torch.nn.functional.cross_entropy(heads.values, chosen)
                else:
                    margin = torch.full_like(heads.values, MARGIN)
                    margin[at, chosen] = 0.0
                    best = (heads.values + margin).max(dim=1).values
                    choice = (best - heads.values[at, chosen]).mean()
                wanted = torch.as_tensor(residuals[rows]).float()
                near = (heads.means[at, chosen] - wanted).square().mean()
                losses = {"choice": choice} if s.kind == "dqn" else {"choice": choice, "near": near}
                self._descend(losses)
                total += sum(float(loss.detach()) for loss in losses.values()) * len(rows)
        self.target.load_state_dict(self.net.state_dict())
        return total / max(1, len(seen))


def at_strategies(means: Tensor, strategies: Tensor) -> Tensor:
    """Return the means of the residuals under the strategies that were chosen."""
    index = strategies[..., None, None].expand(*strategies.shape, 1, means.shape[-1])
    return means.gather(-2, index)[..., 0, :]


def _as_values(rule: Rule) -> Rule:
    """Return a rule whose strategies' odds are values."""
    factor = np.ones(len(rule.bias), np.float32)
    factor[: len(STRATEGIES)] = MARGIN
    return Rule(rule.weight * factor[:, None], rule.bias * factor)


def _memo(part: dict[str, Any]) -> Memo:
    return Memo(torch.as_tensor(part["h"]), torch.as_tensor(part["c"]))


def _columns(epochs: _Epochs, columns: Tensor) -> _Epochs:
    """Return some environments' epochs."""
    h, c, *others = epochs
    return _Epochs(h[columns], c[columns], *(one[:, columns] for one in others))
