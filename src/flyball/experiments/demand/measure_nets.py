"""The measured nets in plain torch, one family per type, and their training step.

Each family has two variants that a description does not distinguish: tapering widths, bottleneck
blocks, both directions, a narrower feed-forward part, fewer edges.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from flyball.predict.demand.measure_shapes import CLASSES, VOCABULARY, Shape

DROPOUT, L1, DECAY = 0.1, 1e-5, 1e-2
DEGREES = (12, 4)
"""Number of neighbours of a node in the two variants of graphs."""
HEAD = 64
"""Number of units of the dense layers of a recommendation net."""


def net_of(shape: Shape) -> nn.Module:
    """Return a new net; its weights are drawn from torch's generator."""
    return NETS[shape.type](shape)


def batches(shape: Shape) -> tuple[Tensor, Tensor]:
    """Return one batch for training: inputs and labels."""
    n, s = shape.batch, shape.size
    if shape.type in ("lstm", "gru", "transformer"):
        tokens = torch.randint(VOCABULARY, (n, s))
        return tokens, tokens
    if shape.type == "recommendation":
        return torch.randint(shape.table, (n, s)), torch.randint(CLASSES, (n,))
    if shape.type in ("resnet", "mobilenet"):
        return torch.randn(n, 3, s, s), torch.randint(CLASSES, (n,))
    if shape.type == "gcn":
        return torch.randn(n, s, shape.width), torch.randint(CLASSES, (n, s))
    return torch.randn(n, s), torch.randint(CLASSES, (n,))


def stepper(shape: Shape) -> tuple[nn.Module, Callable[[], None]]:
    """Return a net and the function that trains it for one step, augmentation to optimiser."""
    net = net_of(shape).train()
    optimizer = optimizer_of(shape, net)
    batch, labels = batches(shape)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        inputs = augmented(batch, shape.augmentation)
        with torch.autocast("cpu", torch.bfloat16, enabled=shape.precision == "bf16"):
            logits = net(inputs)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, -2), labels.flatten())
        if shape.regularization == "l1":
            loss = loss + L1 * sum(weights.abs().sum() for weights in net.parameters())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return net, step


def optimizer_of(shape: Shape, net: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser by the name that descriptions use."""
    decay = DECAY if shape.regularization == "weight-decay" else 0.0
    rate, weights = shape.learning_rate, net.parameters()
    if shape.optimizer in ("sgd", "momentum"):
        momentum = 0.9 if shape.optimizer == "momentum" else 0.0
        return torch.optim.SGD(weights, rate, momentum=momentum, weight_decay=decay)
    rules: dict[str, type[torch.optim.Optimizer]] = {
        "rmsprop": torch.optim.RMSprop,
        "adagrad": torch.optim.Adagrad,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    return rules[shape.optimizer](weights, lr=rate, weight_decay=decay)  # type: ignore[call-arg]


def augmented(batch: Tensor, augmentation: str) -> Tensor:
    """Return the augmented batch; numbers are mixed, codes are replaced."""
    if augmentation == "none":
        return batch
    order = torch.randperm(len(batch))
    if not batch.is_floating_point():
        part = {"noise": 0.1, "mask": 0.15, "mixup": 0.5}[augmentation]
        other = torch.zeros_like(batch) if augmentation == "mask" else batch[order]
        return torch.where(torch.rand(batch.shape) < part, other, batch)
    if augmentation == "noise":
        return batch + 0.1 * torch.randn_like(batch)
    if augmentation == "mask":
        return batch * (torch.rand_like(batch) > 0.15)
    return 0.7 * batch + 0.3 * batch[order]


def _dropout(shape: Shape) -> nn.Module:
    return nn.Dropout(DROPOUT) if shape.regularization == "dropout" else nn.Identity()


class Dense(nn.Module):
    """Stacks dense layers of the same width, or tapering to half of it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        last = shape.width // 2 if shape.variant else shape.width
        sizes = [shape.size] + [
            round(shape.width + (last - shape.width) * layer / max(1, shape.layers - 1))
            for layer in range(shape.layers)
        ]
        parts: list[nn.Module] = []
        for before, after in pairwise(sizes):
            parts += [nn.Linear(before, after), nn.ReLU(), _dropout(shape)]
        self.body = nn.Sequential(*parts, nn.Linear(sizes[-1], CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.body(x)  # type: ignore[no-any-return]


def _conv(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after))


class Block(nn.Module):
    """Adds a residual connection to a basic, bottleneck or depthwise block."""

    def __init__(self, parts: list[nn.Module], before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*parts)
        same = before == after and stride == 1
        self.short = nn.Identity() if same else _conv(before, after, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of body and shortcut."""
        return nn.functional.relu(self.body(x) + self.short(x))


def _residual(before: int, after: int, stride: int, shape: Shape) -> Block:
    relu, drop = nn.ReLU(), _dropout(shape)
    if shape.type == "mobilenet":
        inner = before * (3 if shape.variant else 6)
        middle = _conv(inner, inner, 3, stride, groups=inner)
        parts = [_conv(before, inner, 1), relu, middle, relu, _conv(inner, after, 1), drop]
    elif shape.variant:
        inner = after // 2
        middle = _conv(inner, inner, 3, stride)
        parts = [_conv(before, inner, 1), relu, middle, relu, _conv(inner, after, 1), drop]
    else:
        parts = [_conv(before, after, 3, stride), relu, _conv(after, after, 3), drop]
    return Block(parts, before, after, stride)


class Images(nn.Module):
    """Stacks three stages of blocks; each halves the image and doubles the channels."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        first = 2 if shape.type == "mobilenet" else 1
        parts: list[nn.Module] = [_conv(3, shape.width, 3, first), nn.ReLU()]
        before = shape.width
        for stage in range(3):
            after = shape.width * 2**stage
            for block in range(shape.layers):
                stride = 2 if stage and not block else 1
                parts.append(_residual(before, after, stride, shape))
                before = after
        parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
        self.body = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.body(x)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """Models language with LSTM or GRU layers; the second variant reads both ways."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        kind = nn.LSTM if shape.type == "lstm" else nn.GRU
        both = bool(shape.variant)
        self.codes = nn.Embedding(VOCABULARY, shape.width)
        drop = DROPOUT if shape.regularization == "dropout" and shape.layers > 1 else 0.0
        units = shape.width // 2 if both else shape.width
        self.body = kind(
            shape.width, units, shape.layers, batch_first=True, dropout=drop, bidirectional=both
        )
        self.head = nn.Linear(shape.width, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of each token."""
        return self.head(self.body(self.codes(x))[0])  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Encodes tokens with a transformer of 32 channels per head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = max(32, shape.width // 32 * 32)
        self.codes = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(shape.size, width)
        drop = DROPOUT if shape.regularization == "dropout" else 0.0
        inner = width * (2 if shape.variant else 4)
        layer = nn.TransformerEncoderLayer(width, width // 32, inner, drop, batch_first=True)
        self.body = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of each token."""
        tokens = self.codes(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.body(tokens))  # type: ignore[no-any-return]


class Tables(nn.Module):
    """Embeds each field, then applies dense layers to all embeddings or to their sum."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.codes = nn.ModuleList(
            nn.Embedding(shape.table, shape.width) for _ in range(shape.size)
        )
        self.sums = bool(shape.variant)
        sizes = [shape.width * (1 if self.sums else shape.size)] + [HEAD] * (shape.layers - 1)
        parts: list[nn.Module] = []
        for before, after in pairwise(sizes):
            parts += [nn.Linear(before, after), nn.ReLU(), _dropout(shape)]
        self.body = nn.Sequential(*parts, nn.Linear(sizes[-1], CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        embedded = [table(x[:, index]) for index, table in enumerate(self.codes)]
        joined = torch.stack(embedded).sum(0) if self.sums else torch.cat(embedded, 1)
        return self.body(joined)  # type: ignore[no-any-return]


class Graph(nn.Module):
    """Stacks graph convolutions: gather over the edges, add at their ends, a dense layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        degree = DEGREES[shape.variant]
        edges = torch.randint(shape.size, (2, shape.size * degree))
        self.register_buffer("edges", edges)
        self.scale = 1.0 / degree
        self.layers = nn.ModuleList(
            nn.Linear(shape.width, shape.width) for _ in range(shape.layers - 1)
        )
        self.drop = _dropout(shape)
        self.head = nn.Linear(shape.width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of each node."""
        for layer in self.layers:
            x = self.drop(nn.functional.relu(layer(self._spread(x))))
        return self.head(self._spread(x))  # type: ignore[no-any-return]

    def _spread(self, x: Tensor) -> Tensor:
        edges = self.get_buffer("edges")
        return torch.zeros_like(x).index_add(1, edges[1], x[:, edges[0]]) * self.scale


NETS: dict[str, Callable[[Shape], nn.Module]] = {
    "mlp": Dense,
    "resnet": Images,
    "mobilenet": Images,
    "lstm": Recurrent,
    "gru": Recurrent,
    "transformer": Attention,
    "recommendation": Tables,
    "gcn": Graph,
}
