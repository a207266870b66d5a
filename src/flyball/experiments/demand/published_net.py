"""A published net for demand: self-attention over a row's columns, then a GRU each way.

As published: two self-attention layers, four heads, 32 key channels per head, a position
embedding of up to 512 positions, six units forward and ten backward, dropout 0.01; Adam at 0.01 and
after 80 of 200 epochs at 0.001, batches of 256, L2 of 0.001, gradients clipped at 10.
Not published, so chosen here: each column is a token of 32 channels (a number times a vector, or
the embedding of a category), attention has a residual connection and a norm, the last states of
both GRUs go to one linear layer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.demand.formulas import Row, codes, number, values_of
from flyball.predict.demand.own_steps import CATEGORICAL, NUMERIC

VERSION = 1


@dataclass(frozen=True)
class NetSettings:
    """Holds shape and training settings; the defaults are the published ones."""

    layers: int = 2
    heads: int = 4
    key_channels: int = 32
    channels: int = 32
    places: int = 512
    forward_units: int = 6
    backward_units: int = 10
    dropout: float = 0.01
    rate: float = 0.01
    later_rate: float = 0.001
    later_from: int = 80
    epochs: int = 200
    batch: int = 256
    l2: float = 0.001
    clip: float = 10.0
    seed: int = 1


class SelfAttention(nn.Module):
    """Applies attention with a number of key channels independent of that of the tokens."""

    def __init__(self, settings: NetSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        inner = settings.heads * settings.key_channels
        self.into = nn.Linear(settings.channels, 3 * inner)
        self.out = nn.Linear(inner, settings.channels)
        self.norm = nn.LayerNorm(settings.channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens plus their attention to one another."""
        parts = self.into(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*parts)
        normed: Tensor = self.norm(x + self.out(attended.transpose(1, 2).flatten(2)))
        return normed


class BiGruTransformer(nn.Module):
    """Maps a row's tokens to one number."""

    def __init__(self, settings: NetSettings, numbers: int, words: Sequence[int]) -> None:
        """Create a net with random weights.

        Args:
            settings: shape.
            numbers: number of numeric columns.
            words: number of values of each categorical column; one more stands for the rest.
        """
        super().__init__()
        wide = settings.channels
        self.slopes = nn.Parameter(torch.randn(numbers, wide) / math.sqrt(wide))
        self.words = nn.ModuleList(nn.Embedding(count + 1, wide) for count in words)
        self.places = nn.Embedding(settings.places, wide)
        self.attention = nn.Sequential(*(SelfAttention(settings) for _ in range(settings.layers)))
        self.onward = nn.GRU(wide, settings.forward_units, batch_first=True)
        self.backward_ = nn.GRU(wide, settings.backward_units, batch_first=True)
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(settings.forward_units + settings.backward_units, 1)

    def forward(self, numbers: Tensor, words: Tensor) -> Tensor:
        """Return standardised logarithms."""
        tokens = [numbers[:, :, None] * self.slopes]
        tokens += [embed(words[:, index])[:, None] for index, embed in enumerate(self.words)]
        x = torch.cat(tokens, 1)
        x = self.attention(x + self.places(torch.arange(x.shape[1])))
        onward, back = self.onward(x)[0][:, -1], self.backward_(x.flip(1))[0][:, -1]
        output: Tensor = self.head(self.dropout(torch.cat([onward, back], 1)))
        return output[:, 0]


class DemandNet:
    """Wraps the net with its scales and categories: fits, predicts, saves and loads."""

    def __init__(self, settings: NetSettings | None = None, counted: bool = False) -> None:
        """Create an unfitted net.

        Args:
            settings: shape and training.
            counted: whether `flops` is a column too.
        """
        self.settings = settings or NetSettings()
        self.numbers = (*NUMERIC, "flops") if counted else NUMERIC
        self._scales: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}
        self._net: BiGruTransformer | None = None

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Train with the published schedule; the same seed gives the same result."""
        raw = self._raw(rows)
        self._scales = {
            "middle": raw.mean(0).tolist(),
            "spread": [float(spread) or 1.0 for spread in raw.std(0)],
            "target": [float(np.mean(logs)), float(np.std(logs)) or 1.0],
        }
        self._words = {name: values_of(rows, name) for name in CATEGORICAL}
        middle, spread = self._scales["target"]
        targets = torch.tensor((logs - middle) / spread, dtype=torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            self._net = self._new_net()
            self._train(*self._tensors(rows), targets)

    def predict(self, rows: Sequence[Row]) -> Floats:
        """Return logarithms of the predicted values."""
        assert self._net is not None, "fit comes first"
        middle, spread = self._scales["target"]
        self._net.eval()
        with torch.no_grad():
            outputs = self._net(*self._tensors(rows)).double().numpy()
        return np.asarray(outputs * spread + middle, np.float64)

    def save(self, path: Path) -> None:
        """Write weights to `path`.safetensors and the card to `path`.json."""
        from safetensors.torch import save_file

        assert self._net is not None, "fit comes first"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(self._net.state_dict(), str(path.with_suffix(".safetensors")))
        card = {
            "version": VERSION,
            "net": type(self._net).__name__,
            "settings": asdict(self.settings),
            "numbers": self.numbers,
            "scales": self._scales,
            "words": self._words,
        }
        path.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> DemandNet:
        """Read what `save` wrote.

        Raises:
            BadInput: the net is missing, or of another kind or version.
        """
        from safetensors.torch import load_file

        try:
            card: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
            weights = load_file(str(path.with_suffix(".safetensors")))
        except (OSError, ValueError):
            raise BadInput(f"no demand net at {path}", "fit one: predict demand fit") from None
        if (card.get("version"), card.get("net")) != (VERSION, BiGruTransformer.__name__):
            raise BadInput(f"the demand net at {path} is of another kind", "fit it again")
        model = cls(NetSettings(**card["settings"]), "flops" in card["numbers"])
        model._scales, model._words = card["scales"], card["words"]
        model._net = model._new_net()
        model._net.load_state_dict(weights)
        return model

    def _new_net(self) -> BiGruTransformer:
        counts = [len(self._words[name]) for name in CATEGORICAL]
        return BiGruTransformer(self.settings, len(self.numbers), counts)

    def _train(self, numbers: Tensor, words: Tensor, targets: Tensor) -> None:
        assert self._net is not None
        settings, net = self.settings, self._net.train()
        optimizer = torch.optim.Adam(net.parameters(), settings.rate, weight_decay=settings.l2)
        for epoch in range(settings.epochs):
            if epoch == settings.later_from:
                for group in optimizer.param_groups:
                    group["lr"] = settings.later_rate
            for batch in torch.split(torch.randperm(len(targets)), settings.batch):
                optimizer.zero_grad()
                error = net(numbers[batch], words[batch]) - targets[batch]
                error.square().mean().backward()
                nn.utils.clip_grad_norm_(net.parameters(), settings.clip)
                optimizer.step()

    def _raw(self, rows: Sequence[Row]) -> Floats:
        """Return logarithms of the numbers; operations plus 1, as a net may have none."""
        table = [[math.log(self._number(row, name)) for name in self.numbers] for row in rows]
        return np.array(table, np.float64)

    @staticmethod
    def _number(row: Row, name: str) -> float:
        return 1.0 + float(str(row[name])) if name == "flops" else number(row, name)

    def _tensors(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        scaled = (self._raw(rows) - self._scales["middle"]) / self._scales["spread"]
        indices = [codes(rows, name, self._words[name]) for name in CATEGORICAL]
        # An unknown category has the last index, whose embedding is never trained.
        filled = [
            np.nan_to_num(column, nan=len(self._words[name]))
            for column, name in zip(indices, CATEGORICAL, strict=True)
        ]
        table = torch.tensor(scaled, dtype=torch.float32)
        return table, torch.tensor(np.array(filled).T, dtype=torch.int64)
