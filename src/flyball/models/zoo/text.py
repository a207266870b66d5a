"""Transformers: encoder-decoder, encoder, decoder, and one that reads images.

Attention, normalisation and activation are written out where users' code commonly writes them out,
so that the passes have something to recognise: the encoder-decoder spells attention as products and
softmax; the others call torch's fused operations.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 32_000


class Attention(nn.Module):
    """Multi-head attention, written out or by torch's fused operation."""

    def __init__(self, width: int, heads: int, causal: bool = False, plain: bool = False) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.heads, self.causal, self.plain = heads, causal, plain

    def forward(self, text: Tensor, other: Tensor | None = None) -> Tensor:
        """Return what each position reads from the others, or from another sequence."""
        source = text if other is None else other
        query, key = self._split(self.query(text)), self._split(self.key(source))
        value = self._split(self.value(source))
        if self.plain:
            scores = query @ key.transpose(-2, -1) / (query.shape[-1] ** 0.5)
            if self.causal:
                length = text.shape[1]
                future = torch.full((length, length), float("-inf")).triu(1)
                scores = scores + future
            mixed = torch.softmax(scores, -1) @ value
        else:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, is_causal=self.causal
            )
        joined = mixed.transpose(1, 2).reshape(text.shape)
        out: Tensor = self.out(joined)
        return out

    def _split(self, text: Tensor) -> Tensor:
        batch, length, width = text.shape
        return text.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class Layer(nn.Module):
    """A layer of a transformer; normalisation before (`first`) or after each part."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        causal: bool = False,
        cross: bool = False,
        plain: bool = False,
        first: bool = True,
        gelu: str = "none",
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal, plain)
        self.cross = Attention(width, heads, plain=plain) if cross else None
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.first, self.gelu = first, gelu

    def forward(self, text: Tensor, other: Tensor | None = None) -> Tensor:
        """Return the layer's output."""
        if self.first:
            text = text + self.attention(self.norms[0](text))
            return text + self._inner(self.norms[-1](text))
        text = self.norms[0](text + self.attention(text))
        if self.cross is not None:
            text = self.norms[1](text + self.cross(text, other))
        out: Tensor = self.norms[-1](text + self._inner(text))
        return out

    def _inner(self, text: Tensor) -> Tensor:
        wide = self.wide(text)
        wide = (
            functional.relu(wide)
            if self.gelu == "relu"
            else functional.gelu(wide, approximate=self.gelu)
        )
        out: Tensor = self.narrow(wide)
        return out


class Embedding(nn.Module):
    """Words and their positions as vectors."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)

    def forward(self, words: Tensor) -> Tensor:
        """Return a vector for each position."""
        places = torch.arange(words.shape[1], device=words.device)
        out: Tensor = self.words(words) + self.places(places)
        return out


class Transformer(nn.Module):
    """The encoder-decoder of Vaswani et al. (2017); attention is written out."""

    def __init__(self, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.source, self.target = Embedding(width, length), Embedding(width, length)
        self.encoder = nn.ModuleList(
            Layer(width, heads, plain=True, first=False, gelu="relu") for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            Layer(width, heads, causal=True, cross=True, plain=True, first=False, gelu="relu")
            for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)
        # One matrix embeds both languages and scores the words, as published.
        self.target.words.weight = self.source.words.weight
        self.head.weight = self.source.words.weight
        nn.init.normal_(self.head.weight, std=width**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return scores of the next word at each position of the target."""
        memory = self.source(source)
        for layer in self.encoder:
            memory = layer(memory)
        text = self.target(target)
        for layer in self.decoder:
            text = layer(text, memory)
        out: Tensor = self.head(text)
        return out


class Stack(nn.Module):
    """Embedding, layers, a last norm and a head."""

    def __init__(self, embedding: nn.Module, layers: list[Layer], width: int, outputs: int) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the head's output at each position."""
        text = self.embedding(inputs)
        for layer in self.layers:
            text = layer(text)
        out: Tensor = self.head(self.norm(text))
        return out


class Patches(nn.Module):
    """Squares of an image as vectors, with a first one that stands for the whole."""

    def __init__(self, width: int, image: int, patch: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.whole = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))

    def forward(self, image: Tensor) -> Tensor:
        """Return a vector for each square."""
        squares = self.cut(image).flatten(2).transpose(1, 2)
        whole = self.whole.expand(image.shape[0], -1, -1)
        return torch.cat([whole, squares], 1) + self.places


def _words(batch: int, tokens: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, tokens))


def transformer(
    batch: int, tokens: int, width: int, layers: int, heads: int
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return an encoder-decoder; 512 wide with six layers is Transformer-base."""
    module = Transformer(width, layers, heads, tokens)
    return module, (_words(batch, tokens), _words(batch, tokens))


def encoder(
    batch: int, tokens: int, width: int, layers: int, heads: int
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return an encoder as in BERT (norm last); 1024 wide with 24 layers is BERT-large."""
    stack = [Layer(width, heads, first=False) for _ in range(layers)]
    return Stack(Embedding(width, tokens), stack, width, 2), (_words(batch, tokens),)


def decoder(
    batch: int, tokens: int, width: int, layers: int, heads: int
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a decoder as in GPT-2 (norm first, tanh form of GELU)."""
    stack = [Layer(width, heads, causal=True, gelu="tanh") for _ in range(layers)]
    return Stack(Embedding(width, tokens), stack, width, VOCABULARY), (_words(batch, tokens),)


def vision_transformer(
    batch: int, image: int, width: int, layers: int, heads: int, patch: int = 16
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a vision transformer; 1024 wide with 24 layers is ViT-large/16."""
    stack = [Layer(width, heads) for _ in range(layers)]
    module = Stack(Patches(width, image, patch), stack, width, 1000)
    return module, (torch.randn(batch, 3, image, image),)
