"""A Transformer encoder over a week in patches plus the newest values: for long leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from flyball.core.results import Floats, Ints
from flyball.predict.load.features import Window
from flyball.predict.load.neural import Neural, Settings, spread_tokens
from flyball.predict.series import Series

PATCHES, NEWEST = 56, 8
"""Number of tokens: three-hour patches of a week, then the newest values one by one."""
HEADS, LAYERS = 4, 2
PATCH_STEPS = 4
"""Steps per patch where the grid has no day."""


class _Attention(nn.Module):
    """Encodes tokens by self-attention into the newest token and the mean of all."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.lift = nn.Linear(channels, width)
        self.place = nn.Parameter(0.02 * torch.randn(PATCHES + NEWEST, width))
        layer = nn.TransformerEncoderLayer(
            width, HEADS, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.join = nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        encoded = self.layers(self.lift(tokens) + self.place)
        joined: Tensor = self.join(torch.cat([encoded[:, -1], encoded.mean(1)], 1))
        return joined


class Transformer(Neural):
    """Forecasts from the mean and the end of each patch, and the last eight values."""

    tokens, channels = PATCHES + NEWEST, 3
    defaults: ClassVar[Settings] = Settings(updates=250, budget_s=40.0, batch=128, rate=2e-3)

    def _body(self) -> nn.Module:
        return _Attention(self.channels, self.settings.width)

    def _stride(self, panel: Sequence[Series]) -> int:
        longest = max((len(series) for series in panel), default=0)
        per_patch = panel[0].day // 8 if panel and panel[0].day else PATCH_STEPS
        return spread_tokens(PATCHES, max(1, per_patch), longest)

    def _past(self, values: Floats, origins: Ints) -> Floats:
        ends = origins[:, None] - self.stride * np.arange(PATCHES - 1, -1, -1)
        newest = np.maximum(origins[:, None] + np.arange(1 - NEWEST, 1), 0)
        window = Window(values)
        means = np.column_stack([window.mean(of_patch, self.stride) for of_patch in ends.T])
        last = values[np.maximum(ends, 0)]
        newest_values = values[newest]
        return np.stack(
            [np.hstack([means, newest_values]), np.hstack([last, newest_values])], axis=2
        )
