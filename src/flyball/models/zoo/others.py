"""A graph network, a recurrent net and a recommender."""

from __future__ import annotations

import torch
from torch import Tensor, nn

EDGES_PER_NODE = 8
VOCABULARY = 10_000


class GraphNetwork(nn.Module):
    """Three rounds in which every node averages what its neighbours send (GraphSAGE, mean)."""

    def __init__(self, width: int, rounds: int = 3, classes: int = 40) -> None:
        super().__init__()
        self.near = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(rounds))
        self.head = nn.Linear(width, classes)

    def forward(self, features: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """Return scores of the classes of each node."""
        ones = torch.ones_like(targets, dtype=features.dtype)
        degree = torch.zeros(features.shape[0], dtype=features.dtype).index_add(0, targets, ones)
        for near, own, norm in zip(self.near, self.own, self.norms, strict=True):
            sums = torch.zeros_like(features).index_add(0, targets, features[sources])
            mean = sums / degree.clamp(min=1.0)[:, None]
            features = torch.relu(norm(near(mean) + own(features)))
        out: Tensor = self.head(features)
        return out


def graph_network(batch: int, nodes: int, width: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a graph network with a random graph of `batch` times `nodes` nodes."""
    count = batch * nodes
    edges = torch.randint(0, count, (2, EDGES_PER_NODE * count))
    return GraphNetwork(width), (torch.randn(count, width), edges[0], edges[1])


class Recurrent(nn.Module):
    """A language model of LSTM layers, and one layer whose cell is written out gate by gate."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.layers = nn.LSTM(width, width, layers, batch_first=True)
        self.reads = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.keeps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores of the next word after the last one."""
        text, _ = self.layers(self.words(words))
        state = torch.zeros_like(text[:, 0])
        cell = torch.zeros_like(state)
        for at in range(text.shape[1]):
            word = text[:, at]
            gates = [
                read(word) + keep(state) for read, keep in zip(self.reads, self.keeps, strict=True)
            ]
            cell = torch.sigmoid(gates[1]) * cell + torch.sigmoid(gates[0]) * torch.tanh(gates[2])
            state = torch.sigmoid(gates[3]) * torch.tanh(cell)
        out: Tensor = self.head(state)
        return out


def recurrent(
    batch: int, tokens: int, width: int, layers: int
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a recurrent language model."""
    return Recurrent(width, layers), (torch.randint(0, VOCABULARY, (batch, tokens)),)


class Recommender(nn.Module):
    """Embeds categories, crosses them with dense features, and scores (as in DLRM)."""

    def __init__(self, tables: int, rows: int, width: int = 64, dense: int = 13) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(
            *(nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()),
            *(nn.Linear(256, width), nn.ReLU()),
        )
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            *(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()),
            nn.Linear(256, 1),
        )
        self.register_buffer("rows_of_pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        """Return the probability of a click."""
        vectors = [self.bottom(dense)]
        vectors += [table(categories[:, at]) for at, table in enumerate(self.tables)]
        stacked = torch.stack(vectors, 1)
        products = stacked @ stacked.transpose(1, 2)
        pairs = products[:, self.rows_of_pairs[0], self.rows_of_pairs[1]]  # type: ignore[index]
        return torch.sigmoid(self.top(torch.cat([vectors[0], pairs], 1)))


def recommender(batch: int, tables: int, rows: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a recommender with a batch of 64 times `batch` requests."""
    count = 64 * batch
    inputs = (torch.randn(count, 13), torch.randint(0, rows, (count, tables)))
    return Recommender(tables, rows), inputs
