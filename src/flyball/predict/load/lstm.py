"""An LSTM over the newest values: for short leads, where order and phase matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from flyball.core.results import Floats, Ints
from flyball.predict.load.neural import Neural, Settings
from flyball.predict.series import Series

STEPS = 48


class _Recurrent(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.cells = nn.LSTM(channels, width, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        newest: Tensor = self.cells(tokens)[0][:, -1]
        return newest


class Lstm(Neural):
    """Forecasts from the last 48 values."""

    tokens, channels = STEPS, 2
    defaults: ClassVar[Settings] = Settings(updates=600, budget_s=30.0)

    def _body(self) -> nn.Module:
        return _Recurrent(self.channels, self.settings.width)

    def _stride(self, panel: Sequence[Series]) -> int:
        return 1

    def _past(self, values: Floats, origins: Ints) -> Floats:
        index = np.maximum(origins[:, None] + np.arange(1 - STEPS, 1), 0)
        past: Floats = values[index][:, :, None]
        return past
