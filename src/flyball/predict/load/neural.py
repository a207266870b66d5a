"""Shared by the nets: inputs, heads, training within a budget, files. Needs torch.

One net serves a panel and all requested leads. Its inputs are the recent past of a series as
tokens, relative to the last value and in units of the recent spread, and for each lead the
calendar of the target and the value at its time on the last known day and week. A head for each
lead gives the change from the last value: the median as a linear model of the newest tokens plus
the output of the net, the 5 and 95 % quantiles as distances from it (pinball loss), so that they
never cross, and the mean (squared error), whose gradient does not reach the others.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from flyball.core.results import Floats, Ints
from flyball.core.units import S_PER_DAY
from flyball.predict.load.contract import FITTED, Outlook, all_levels, neighbours, never_negative
from flyball.predict.load.naive import Last
from flyball.predict.load.trees import scale_of
from flyball.predict.series import Series

TARGET = 7
"""Number of columns that describe the target: calendar and seasons."""
LEAST_ROWS = 200
FLOOR = 0.1
"""Least recent spread as a part of the series' size: a constant series has none."""
FARTHEST = 8.0
"""Spreads at which inputs and labels are clipped, so that bursts do not dominate training."""
MEAN_WEIGHT = 0.05
KEPT = 0.99
"""Decay of the running average of the weights, which is the net used for forecasts."""
SLACK = 0.2
CHUNK = 4_096


@dataclass(frozen=True)
class Settings:
    """Holds the settings of a net and its training.

    Attributes:
        updates: maximum number of updates of the weights.
        budget_s: CPU seconds of one thread after which training ends.
        batch: number of origins in an update.
        rate: highest learning rate; it rises at first and then falls to 0.
        decay: weight decay.
        width: number of hidden units.
        seed: seed of weights and batches.
    """

    updates: int = 500
    budget_s: float = 30.0
    batch: int = 256
    rate: float = 4e-3
    decay: float = 1e-3
    width: int = 32
    seed: int = 1


class Heads(nn.Module):
    """Maps tokens to the 5 %, 50 %, 95 % quantiles and the mean of the change at each lead."""

    def __init__(self, body: nn.Module, leads: int, tokens: int, width: int) -> None:
        super().__init__()
        self.body = body
        self.line = nn.ModuleList([nn.Linear(tokens, 1) for _ in range(leads)])
        self.inner = nn.ModuleList([nn.Linear(width + TARGET, width) for _ in range(leads)])
        self.outer = nn.ModuleList([nn.Linear(width, 3) for _ in range(leads)])
        self.mean = nn.ModuleList([nn.Linear(width, 1) for _ in range(leads)])
        for part in (*self.line, *self.outer, *self.mean):  # starts as the last value
            nn.init.zeros_(part.get_parameter("weight"))
            nn.init.zeros_(part.get_parameter("bias"))

    def forward(self, tokens: Tensor, targets: Tensor, leads: Sequence[int]) -> Tensor:
        """Map tokens (row, time, channel) and targets (row, lead, column) to (row, lead, four)."""
        encoded = self.body(tokens)
        outputs = []
        for index, lead in enumerate(leads):
            target = targets[:, index]
            inner = nn.functional.silu(self.inner[lead](torch.cat([encoded, target], 1)))
            middle, below, above = self.outer[lead](inner).unbind(1)
            middle = middle + self.line[lead](tokens[:, :, 0])[:, 0]
            mean = middle.detach() + self.mean[lead](inner.detach())[:, 0]
            low = middle - nn.functional.softplus(below)
            high = middle + nn.functional.softplus(above)
            outputs.append(torch.stack([low, middle, high, mean], 1))
        return torch.stack(outputs, 1)


class Neural(ABC):
    """Forecasts with a net; a subclass defines its input and its body."""

    settings: Settings
    defaults: ClassVar[Settings] = Settings()

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or self.defaults
        self.leads: list[int] = []
        self.scales: dict[str, float] = {}
        self.stride = 1
        self.trained: dict[str, float] = {}
        self._net: Heads | None = None

    # Defined by subclasses ----------------------------------------------------

    tokens: ClassVar[int]
    channels: ClassVar[int]

    @abstractmethod
    def _body(self) -> nn.Module:
        """Return the module that encodes the past."""

    @abstractmethod
    def _stride(self, panel: Sequence[Series]) -> int:
        """Return the steps per token, from the grid and the length of the history."""

    @abstractmethod
    def _past(self, values: Floats, origins: Ints) -> Floats:
        """Return levels (origin, token, channel): the newest token last, the value in channel 0."""

    # The contract -------------------------------------------------------------

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Learn all leads at once. If the panel is too short, forecasts are the last value."""
        self.scales = {series.name: scale_of(series.values) for series in panel}
        self.leads = sorted({*leads})
        self.stride = self._stride(panel)
        self._net, self.trained = None, {}
        rows = [
            (index, origin)
            for index, series in enumerate(panel)
            for origin in _training_origins(series)
        ]
        if len(rows) >= LEAST_ROWS and self.leads:
            with one_thread():
                self._train(panel, np.array(rows))

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        """Return forecasts; other leads than the learnt ones are interpolated between heads."""
        if self._net is None or not len(origins):
            return Last().outlook(series, origins, lead)
        scale = self.scales.get(series.name) or scale_of(series.values[: origins.min() + 1])
        near = neighbours(self.leads, lead)
        heads = [self.leads.index(fitted) for fitted, _ in near]
        weights = np.array([weight for _, weight in near])
        parts = []
        with one_thread(), torch.inference_mode():
            for begin in range(0, len(origins), CHUNK):
                some = origins[begin : begin + CHUNK]
                past, unit, now = self._inputs(series, some, scale)
                target = _target(series, some, lead, unit, now)
                table = torch.from_numpy(np.repeat(target[:, None], len(heads), axis=1))
                outputs = self._net(torch.from_numpy(past), table, heads).numpy()
                parts.append(now[:, None] + unit[:, None] * (weights @ outputs))
        forecasts = np.concatenate(parts)
        mean, quantiles = forecasts[:, 3], all_levels(np.sort(forecasts[:, :3], axis=1))
        if never_negative(series, origins):
            mean, quantiles = np.maximum(mean, 0.0), np.maximum(quantiles, 0.0)
        return Outlook(mean, quantiles)

    def save(self) -> Mapping[str, Any]:
        """Return the card, with the bytes of a safetensors file under `weights`."""
        weights = self._net.float().state_dict() if self._net else {}
        card = {
            "settings": asdict(self.settings),
            "leads": self.leads,
            "scales": self.scales,
            "stride": self.stride,
            "trained": self.trained,
            "weights": bytes_of({name: tensor.contiguous() for name, tensor in weights.items()}),
        }
        if self._net is not None:
            self._net.double()
        return card

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        forecaster = cls(Settings(**saved["settings"]))
        forecaster.leads, forecaster.stride = list(saved["leads"]), int(saved["stride"])
        forecaster.scales, forecaster.trained = dict(saved["scales"]), dict(saved["trained"])
        weights = tensors_of(saved["weights"])
        if weights:
            forecaster._net = forecaster._new_net()
            forecaster._net.load_state_dict(weights)
            forecaster._net.double().eval()
        return forecaster

    # Training -----------------------------------------------------------------

    def _new_net(self) -> Heads:
        return Heads(self._body(), len(self.leads), self.tokens, self.settings.width)

    def _inputs(self, series: Series, origins: Ints, scale: float) -> tuple[Floats, Floats, Floats]:
        """Return the tokens, the unit of each origin, and the last value."""
        past, now = self._past(series.filled, origins), series.filled[origins]
        unit = np.maximum(past[:, :, 0].std(axis=1), FLOOR * scale)
        relative = (past - now[:, None, None]) / unit[:, None, None]
        # The size itself is one more channel, as a series behaves differently near zero.
        size = np.repeat((now / scale)[:, None, None], past.shape[1], axis=1)
        tokens = np.concatenate([relative, size], axis=2)
        return np.clip(tokens, -FARTHEST, FARTHEST), unit, now

    def _train(self, panel: Sequence[Series], rows: Ints) -> None:
        settings = self.settings
        torch.manual_seed(settings.seed)
        draw = np.random.default_rng(settings.seed)
        net, slow = self._new_net(), self._new_net()
        slow.load_state_dict(net.state_dict())
        steps = torch.optim.AdamW(net.parameters(), settings.rate, weight_decay=settings.decay)
        every = list(range(len(self.leads)))
        began, done = time.thread_time(), 0
        while (progress := self._progress(done, began)) < 1.0:
            for group in steps.param_groups:
                group["lr"] = settings.rate * min(1.0, 10 * progress + 0.05) * (1.0 - progress)
            batch = self._batch(panel, rows[draw.integers(len(rows), size=settings.batch)])
            past, target, label = (torch.from_numpy(array).float() for array in batch)
            steps.zero_grad()
            _loss(net(past, target, every), label).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            steps.step()
            done += 1
            kept = min(KEPT, done / (done + 10))
            with torch.no_grad():
                for old, new in zip(slow.parameters(), net.parameters(), strict=True):
                    old.lerp_(new, 1.0 - kept)
        self._net = slow.double().eval()
        self.trained = {"updates": done, "cpu_s": time.thread_time() - began}

    def _progress(self, done: int, began: float) -> float:
        """Return the completed part of the training: by updates, or by time if that runs out first.

        Small differences in time must not affect the weights, hence the slack.
        """
        progress = done / self.settings.updates
        time_spent = (time.thread_time() - began) / self.settings.budget_s
        return time_spent if time_spent > progress + SLACK else progress

    def _batch(self, panel: Sequence[Series], picked: Ints) -> tuple[Floats, Floats, Floats]:
        pasts, targets, labels = [], [], []
        for index in np.unique(picked[:, 0]):
            series, origins = panel[index], picked[picked[:, 0] == index, 1]
            past, unit, now = self._inputs(series, origins, self.scales[series.name])
            ahead = origins[:, None] + np.array(self.leads)
            values = series.values[np.minimum(ahead, len(series) - 1)]
            label = (values - now[:, None]) / unit[:, None]
            label[ahead >= len(series)] = np.nan
            pasts.append(past)
            targets.append(
                np.stack([_target(series, origins, lead, unit, now) for lead in self.leads], axis=1)
            )
            labels.append(label)
        return np.concatenate(pasts), np.concatenate(targets), np.concatenate(labels)


def _training_origins(series: Series) -> range:
    """Return the origins to learn from: those with some past and at least one later value."""
    if not np.isfinite(series.values).any():
        return range(0)
    return range(min(series.day, len(series) // 4), len(series) - 1)


def _target(series: Series, origins: Ints, lead: int, unit: Floats, now: Floats) -> Floats:
    """Return the calendar of the target and the values at its time on the last day and week."""
    second, weekday = series.clock(origins + lead)
    turn = 2 * np.pi * second / S_PER_DAY
    weekend = np.isin(weekday, (2, 3)).astype(float)  # day 0 of 1970 was a Thursday
    columns = [np.sin(turn), np.cos(turn), np.sin(2 * turn), np.cos(2 * turn), weekend]
    for season in (series.day, 7 * series.day):
        back = -(-lead // season) * season if season else len(series) + lead
        index = origins + lead - back
        then = np.where(index >= 0, series.filled[np.maximum(index, 0)], now)
        columns.append(np.clip((then - now) / unit, -FARTHEST, FARTHEST))
    return np.column_stack(columns)


def _loss(outputs: Tensor, label: Tensor) -> Tensor:
    is_known = torch.isfinite(label)
    target = torch.where(is_known, label, 0.0).clamp(-FARTHEST, FARTHEST)
    levels = torch.tensor(FITTED)
    miss = target[:, :, None] - outputs[:, :, :3]
    pinball = torch.maximum(levels * miss, (levels - 1) * miss).sum(2)
    square = MEAN_WEIGHT * (target - outputs[:, :, 3]) ** 2
    loss: Tensor = ((pinball + square) * is_known).sum() / is_known.sum().clamp(min=1)
    return loss


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: these nets are too small to gain from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def spread_tokens(count: int, stride: int, length: int) -> int:
    """Return a stride that leaves at least half of the history to learn from."""
    return max(1, min(stride, math.floor(length / (2 * count))))
