"""The mission's net for demand: self-attention over a row's columns, then a GRU each way.

Stated and kept: two self-attention layers, four heads, 32 key channels a head, a position
embedding of up to 512 places, six units forward and ten backward, dropout 0.01; Adam at 0.01 and
after 80 of 200 epochs at 0.001, batches of 256, L2 of 0.001, gradients clipped at 10.
Not stated, so chosen here: each column is a token of 32 channels (a number times a vector, or
the vector of a word), attention has a bypass and a norm, the ends of both GRUs go to one line.
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
from flyball.predict.demand.own_steps import NUMBERS, WORDS

VERSION = 1


@dataclass(frozen=True)
class NetSettings:
    """Shape and training; the defaults are the stated ones."""

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
    """Heads with a number of key channels that does not depend on that of the tokens."""

    def __init__(self, settings: NetSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        inner = settings.heads * settings.key_channels
        self.into = nn.Linear(settings.channels, 3 * inner)
        self.out = nn.Linear(inner, settings.channels)
        self.norm = nn.LayerNorm(settings.channels)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens as before, and what they heard of one another."""
        parts = self.into(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heard = nn.functional.scaled_dot_product_attention(*parts)
        made: Tensor = self.norm(x + self.out(heard.transpose(1, 2).flatten(2)))
        return made


class BiGruTransformer(nn.Module):
    """From a row's tokens to one number."""

    def __init__(self, settings: NetSettings, numbers: int, words: Sequence[int]) -> None:
        """A net with drawn weights.

        Args:
            settings: shape.
            numbers: columns that are numbers.
            words: how many values each of the other columns has; one more stands for the rest.
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
        """Standardised logarithms."""
        tokens = [numbers[:, :, None] * self.slopes]
        tokens += [each(words[:, at])[:, None] for at, each in enumerate(self.words)]
        x = torch.cat(tokens, 1)
        x = self.attention(x + self.places(torch.arange(x.shape[1])))
        onward, back = self.onward(x)[0][:, -1], self.backward_(x.flip(1))[0][:, -1]
        made: Tensor = self.head(self.dropout(torch.cat([onward, back], 1)))
        return made[:, 0]


class DemandNet:
    """The net with its scales and words: learns from rows, forgets nothing in a file."""

    def __init__(self, settings: NetSettings | None = None, counted: bool = False) -> None:
        """Nothing learnt yet.

        Args:
            settings: shape and training.
            counted: `flops` is a column too.
        """
        self.settings = settings or NetSettings()
        self.numbers = (*NUMBERS, "flops") if counted else NUMBERS
        self._scales: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}
        self._net: BiGruTransformer | None = None

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Train with the stated schedule; one thread, the same result for the same seed."""
        raw = self._raw(rows)
        self._scales = {
            "middle": raw.mean(0).tolist(),
            "spread": [float(each) or 1.0 for each in raw.std(0)],
            "target": [float(np.mean(logs)), float(np.std(logs)) or 1.0],
        }
        self._words = {name: values_of(rows, name) for name in WORDS}
        middle, spread = self._scales["target"]
        wanted = torch.tensor((logs - middle) / spread, dtype=torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            self._net = self._made()
            self._train(*self._tensors(rows), wanted)

    def predict(self, rows: Sequence[Row]) -> Floats:
        """Logarithms of what is to be measured."""
        assert self._net is not None, "fit comes first"
        middle, spread = self._scales["target"]
        self._net.eval()
        with torch.no_grad():
            made = self._net(*self._tensors(rows)).double().numpy()
        return np.asarray(made * spread + middle, np.float64)

    def save(self, path: Path) -> None:
        """Weights at `path`.safetensors and the card at `path`.json."""
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
        """What `save` wrote.

        Raises:
            BadInput: it is not there, or of another kind or version.
        """
        from safetensors.torch import load_file

        try:
            card: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
            weights = load_file(str(path.with_suffix(".safetensors")))
        except (OSError, ValueError):
            raise BadInput(f"no demand net at {path}", "fit one: predict demand fit") from None
        if (card.get("version"), card.get("net")) != (VERSION, BiGruTransformer.__name__):
            raise BadInput(f"the demand net at {path} is of another kind", "fit it anew")
        made = cls(NetSettings(**card["settings"]), "flops" in card["numbers"])
        made._scales, made._words = card["scales"], card["words"]
        made._net = made._made()
        made._net.load_state_dict(weights)
        return made

    def _made(self) -> BiGruTransformer:
        counts = [len(self._words[name]) for name in WORDS]
        return BiGruTransformer(self.settings, len(self.numbers), counts)

    def _train(self, numbers: Tensor, words: Tensor, wanted: Tensor) -> None:
        assert self._net is not None
        use, net = self.settings, self._net.train()
        rule = torch.optim.Adam(net.parameters(), use.rate, weight_decay=use.l2)
        for epoch in range(use.epochs):
            if epoch == use.later_from:
                for group in rule.param_groups:
                    group["lr"] = use.later_rate
            for some in torch.split(torch.randperm(len(wanted)), use.batch):
                rule.zero_grad()
                error = net(numbers[some], words[some]) - wanted[some]
                error.square().mean().backward()
                nn.utils.clip_grad_norm_(net.parameters(), use.clip)
                rule.step()

    def _raw(self, rows: Sequence[Row]) -> Floats:
        """Logarithms of the numbers; of operations one more, for nets that have none."""
        made = [[math.log(self._number(row, name)) for name in self.numbers] for row in rows]
        return np.array(made, np.float64)

    @staticmethod
    def _number(row: Row, name: str) -> float:
        return 1.0 + float(str(row[name])) if name == "flops" else number(row, name)

    def _tensors(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        scaled = (self._raw(rows) - self._scales["middle"]) / self._scales["spread"]
        places = [codes(rows, name, self._words[name]) for name in WORDS]
        # A word nobody has seen takes the last place, which is never trained.
        known = [
            np.nan_to_num(each, nan=len(self._words[name]))
            for each, name in zip(places, WORDS, strict=True)
        ]
        table = torch.tensor(scaled, dtype=torch.float32)
        return table, torch.tensor(np.array(known).T, dtype=torch.int64)
