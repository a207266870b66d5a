"""The networks of an agent: what it sees goes in, values of strategies and residuals come out.

`conv-lstm` reads the resource pattern with convolutions (channels: states of nodes), joins it with
the rest of the observation, and remembers the epochs before with an LSTM; `mlp` reads the same
numbers as one long row and remembers nothing. All else is equal, and tensors have the names and
shapes that `policy.forward` serves them by. The last layers begin at zero, so an agent that has
learned nothing is the incumbent, or the rule that it was given: weighted sums of the observation
that are added to what it says, and that learning does not change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from flyball.learn.env.spaces import LAYOUT, RESIDUALS, SIZE, SLICES, STRATEGIES

BODIES = ("conv-lstm", "mlp")
PATTERN = SLICES["pattern"]
SHAPE = next(part.shape for part in LAYOUT if part.name == "pattern")
CHANNELS = (8, 8)
FIRST_SPREAD = -1.5
"""Logarithm of the standard deviation of residuals at first."""
LEAST_SPREAD, MOST_SPREAD = -4.0, 0.0
OUTPUTS = len(STRATEGIES) + len(RESIDUALS)


class Rule(NamedTuple):
    """Holds a rule to begin with: what it adds to the strategies' values and to the residuals.

    Attributes:
        weight: of the observation as it is, before it is normalised (outputs x numbers).
        bias: of the outputs.
    """

    weight: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


class Memo(NamedTuple):
    """Holds what an LSTM remembers of each run: rows of its hidden and of its cell state."""

    h: Tensor
    c: Tensor


class Heads(NamedTuple):
    """Holds what the network says of a batch of observations.

    Attributes:
        values: of each strategy, dueling: the value of the state and each one's advantage over
            their mean. Of a pure policy gradient: logarithms of its odds.
        means: of the residuals under each strategy (batch x strategies x residuals).
        spread: logarithm of their standard deviation.
        critic: value of the state under the present policy.
    """

    values: Tensor
    means: Tensor
    spread: Tensor
    critic: Tensor


class Net(nn.Module):
    """A body and its heads.

    Attributes:
        mean, scale: observations are normalised by these, which are set once and not learned.
        rule_weight, rule_bias: of the rule that it begins with; 0 = the incumbent.
    """

    mean: Tensor
    scale: Tensor
    rule_weight: Tensor
    rule_bias: Tensor

    def __init__(self, body: str, width: int, memory: int, rule: Rule | None = None) -> None:
        super().__init__()
        self.is_recurrent, self.memory = body == "conv-lstm", memory
        self.register_buffer("mean", torch.zeros(SIZE))
        self.register_buffer("scale", torch.ones(SIZE))
        self.register_buffer("rule_weight", torch.zeros(OUTPUTS, SIZE))
        self.register_buffer("rule_bias", torch.zeros(OUTPUTS))
        if rule is not None:
            self.rule_weight.copy_(torch.as_tensor(rule.weight))
            self.rule_bias.copy_(torch.as_tensor(rule.bias))
        if self.is_recurrent:
            self.conv1 = nn.Conv2d(SHAPE[0], CHANNELS[0], 3, padding=1)
            self.conv2 = nn.Conv2d(CHANNELS[0], CHANNELS[1], 3, stride=2, padding=1)
            maps = CHANNELS[1] * -(-SHAPE[1] // 2) * -(-SHAPE[2] // 2)
            self.embed = nn.Linear(maps + SIZE - (PATTERN.stop - PATTERN.start), width)
            self.lstm = nn.LSTMCell(width, memory)
        else:
            self.hidden0 = nn.Linear(SIZE, width)
            self.hidden1 = nn.Linear(width, memory)
        self.value = nn.Linear(memory, 1)
        self.advantage = nn.Linear(memory, len(STRATEGIES))
        self.residuals = nn.Linear(memory, len(STRATEGIES) * len(RESIDUALS))
        self.critic = nn.Linear(memory, 1)
        self.spread = nn.Parameter(torch.full((len(RESIDUALS),), FIRST_SPREAD))
        for head in (self.value, self.advantage, self.residuals, self.critic):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def blank(self, runs: int) -> Memo:
        """Return the memory of runs that begin."""
        return Memo(torch.zeros(runs, self.memory), torch.zeros(runs, self.memory))

    def forward(self, seen: Tensor, memo: Memo) -> tuple[Heads, Memo]:
        """Return what it says of each run's observation, and the memory after it."""
        heads, memo = self.unrolled(seen[None], memo)
        return Heads(heads.values[0], heads.means[0], heads.spread, heads.critic[0]), memo

    def unrolled(self, seen: Tensor, memo: Memo) -> tuple[Heads, Memo]:
        """Return the same over epochs (epochs x runs x numbers)."""
        x = (seen - self.mean) / self.scale
        if self.is_recurrent:
            pattern = x[..., PATTERN].reshape(-1, *SHAPE)
            maps = torch.relu(self.conv2(torch.relu(self.conv1(pattern)))).flatten(1)
            rest = torch.cat([x[..., : PATTERN.start], x[..., PATTERN.stop :]], dim=-1)
            joined = torch.cat([maps.reshape(*x.shape[:2], -1), rest], dim=-1)
            embedded = torch.relu(self.embed(joined))
            states = []
            for epoch in embedded:
                memo = Memo(*self.lstm(epoch, memo))
                states.append(memo.h)
            features = torch.stack(states)
        else:
            features = torch.relu(self.hidden1(torch.relu(self.hidden0(x))))
        advantage = self.advantage(features)
        values = self.value(features) + advantage - advantage.mean(dim=-1, keepdim=True)
        rule = seen @ self.rule_weight.T + self.rule_bias
        values = values + rule[..., : len(STRATEGIES)]
        raw = self.residuals(features).reshape(*x.shape[:2], len(STRATEGIES), len(RESIDUALS))
        means = torch.tanh(raw + rule[..., None, len(STRATEGIES) :])
        spread = self.spread.clamp(LEAST_SPREAD, MOST_SPREAD)
        return Heads(values, means, spread, self.critic(features)[..., 0]), memo

    def tensors(self, has_residuals: bool) -> dict[str, npt.NDArray[np.float32]]:
        """Return the tensors that serving needs, by the names of `policy.forward`.

        Args:
            has_residuals: whether residuals were learned; else they are served as 0.
        """
        out = {f"norm.{name}": getattr(self, name).numpy() for name in ("mean", "scale")}
        served = ("value", "advantage", "conv1", "conv2", "embed", "hidden0", "hidden1")
        for name, tensor in self.state_dict().items():
            layer, _, part = name.partition(".")
            if layer in served:
                out[name] = tensor.numpy()
            elif layer == "residuals":
                out[f"mean.{part}"] = tensor.numpy() * np.float32(has_residuals)
            elif layer == "lstm":
                out[name] = tensor.numpy()
        if self.rule_bias.any() or self.rule_weight.any():
            out |= {"rule.weight": self.rule_weight.numpy(), "rule.bias": self.rule_bias.numpy()}
        return {name: np.array(tensor, np.float32) for name, tensor in out.items()}
