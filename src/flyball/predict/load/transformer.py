"""A Transformer encoder over a week in patches and the newest values: for long leads."""

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
"""Patches of three hours make a week; then the newest values one by one."""
HEADS, LAYERS = 4, 2
PATCH_STEPS = 4
"""Steps of a patch where there is no day on the grid."""


class _Attention(nn.Module):
    """Position embedding, self-attention layers, the newest token and the mean of all out."""

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
        seen = self.layers(self.lift(tokens) + self.place)
        joined: Tensor = self.join(torch.cat([seen[:, -1], seen.mean(1)], 1))
        return joined


class Transformer(Neural):
    """Looks at the mean and the end of each patch, and at the last eight values."""

    tokens, channels = PATCHES + NEWEST, 3
    defaults: ClassVar[Settings] = Settings(updates=250, budget_s=40.0, batch=128, rate=2e-3)

    def _body(self) -> nn.Module:
        return _Attention(self.channels, self.settings.width)

    def _stride(self, panel: Sequence[Series]) -> int:
        longest = max((len(each) for each in panel), default=0)
        wanted = panel[0].day // 8 if panel and panel[0].day else PATCH_STEPS
        return spread_tokens(PATCHES, max(1, wanted), longest)

    def _past(self, values: Floats, origins: Ints) -> Floats:
        ends = origins[:, None] - self.stride * np.arange(PATCHES - 1, -1, -1)
        newest = np.maximum(origins[:, None] + np.arange(1 - NEWEST, 1), 0)
        window = Window(values)
        means = np.column_stack([window.mean(each, self.stride) for each in ends.T])
        last = values[np.maximum(ends, 0)]
        fresh = values[newest]
        return np.stack([np.hstack([means, fresh]), np.hstack([last, fresh])], axis=2)
