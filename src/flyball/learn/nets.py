"""The networks of an agent: what it sees goes in, values of strategies and residuals come out.

`conv-lstm` reads the resource pattern with convolutions (channels: states of nodes) and the last
epochs with an LSTM, oldest first; `mlp` reads the same numbers as one long row. All else is equal.
The last layers begin at zero, so an agent that has learned nothing is the incumbent.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from flyball.learn.env.spaces import LAYOUT, RESIDUALS, SIZE, SLICES, STRATEGIES

BODIES = ("conv-lstm", "mlp")
SHAPES = {part.name: part.shape for part in LAYOUT}
PLAIN = ("queue", "cluster", "forecast", "priorities")
"""Parts of an observation that are neither the pattern nor the last epochs."""
CHANNELS = (8, 8)
FIRST_SPREAD = -1.5
"""Logarithm of the standard deviation of residuals at first."""
LEAST_SPREAD, MOST_SPREAD = -4.0, 0.0


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


class ConvLstm(nn.Module):
    """Reads the pattern with convolutions and the last epochs with an LSTM."""

    def __init__(self, width: int, memory: int) -> None:
        super().__init__()
        states, pools, releases = SHAPES["pattern"]
        self.conv1 = nn.Conv2d(states, CHANNELS[0], 3, padding=1)
        self.conv2 = nn.Conv2d(CHANNELS[0], CHANNELS[1], 3, stride=2, padding=1)
        self.lstm = nn.LSTM(SHAPES["recent"][1], memory, batch_first=True)
        plain = sum(SLICES[name].stop - SLICES[name].start for name in PLAIN)
        pattern = CHANNELS[1] * -(-pools // 2) * -(-releases // 2)
        self.hidden = nn.Linear(pattern + memory + plain, width)

    def forward(self, seen: Tensor) -> Tensor:
        """Return features of a batch of observations."""
        pattern = seen[:, SLICES["pattern"]].reshape(-1, *SHAPES["pattern"])
        pattern = torch.relu(self.conv2(torch.relu(self.conv1(pattern)))).flatten(1)
        recent = seen[:, SLICES["recent"]].reshape(-1, *SHAPES["recent"])
        _, (state, _) = self.lstm(recent.flip(1))  # the latest epoch last
        plain = [seen[:, SLICES[name]] for name in PLAIN]
        return torch.relu(self.hidden(torch.cat([pattern, state[0], *plain], dim=1)))


class Mlp(nn.Module):
    """Reads all numbers alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(SIZE, width)
        self.hidden = nn.Linear(width, width)

    def forward(self, seen: Tensor) -> Tensor:
        """Return features of a batch of observations."""
        return torch.relu(self.hidden(torch.relu(self.first(seen))))


class Net(nn.Module):
    """A body and its heads."""

    def __init__(self, body: str, width: int, memory: int) -> None:
        super().__init__()
        self.body: nn.Module = ConvLstm(width, memory) if body == "conv-lstm" else Mlp(width)
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, len(STRATEGIES))
        self.mean = nn.Linear(width, len(STRATEGIES) * len(RESIDUALS))
        self.critic = nn.Linear(width, 1)
        self.spread = nn.Parameter(torch.full((len(RESIDUALS),), FIRST_SPREAD))
        for head in (self.value, self.advantage, self.mean, self.critic):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, seen: Tensor) -> Heads:
        """Return what it says of a batch of observations."""
        features = self.body(seen)
        advantage = self.advantage(features)
        values = self.value(features) + advantage - advantage.mean(dim=1, keepdim=True)
        means = torch.tanh(self.mean(features)).reshape(-1, len(STRATEGIES), len(RESIDUALS))
        spread = self.spread.clamp(LEAST_SPREAD, MOST_SPREAD)
        return Heads(values, means, spread, self.critic(features)[:, 0])
