"""Random graphs for the passes: fragments that keep a shape, put together at random."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from flyball.models.program import Program, propagate

aten = torch.ops.aten
BATCH, CHANNELS, SIDE = 2, 4, 6
SHAPE = (BATCH, CHANNELS, SIDE, SIDE)


class Draft:
    """A graph under construction; every node has the shape `SHAPE` between fragments."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.random, self.dtype = random.Random(seed), dtype
        self.generator = torch.Generator().manual_seed(seed)
        self.graph, self.root = fx.Graph(), nn.Module()
        self.values: dict[str, Tensor] = {}

    def tensor(self, *shape: int) -> Tensor:
        """Return random numbers."""
        return torch.randn(shape, generator=self.generator).to(self.dtype)

    def const(self, value: Tensor) -> fx.Node:
        """Add a constant."""
        name = f"w_{len(self.values)}"
        self.values[name] = value
        self.root.register_buffer(name, value)
        return self.graph.get_attr(name)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Add an operation."""
        return self.graph.call_function(target, args, kwargs)

    def program(self, inputs: list[Tensor], outputs: list[fx.Node]) -> Program:
        """Close the graph."""
        self.graph.output(tuple(outputs))
        module = fx.GraphModule(self.root, self.graph)
        propagate(module, tuple(inputs))
        spec = pytree.tree_structure(((inputs[0],), {}))
        return Program("random", module, tuple(inputs), spec, pytree.tree_structure((0,)))


Fragment = Callable[[Draft, fx.Node], fx.Node]


def identities(draft: Draft, node: fx.Node) -> fx.Node:
    """Add arithmetic that changes nothing, and negations that cancel."""
    steps: list[Callable[[fx.Node], fx.Node]] = [
        lambda x: draft.call(aten.mul.Tensor, x, 1.0),
        lambda x: draft.call(aten.add.Tensor, x, 0),
        lambda x: draft.call(aten.div.Tensor, x, 1),
        lambda x: draft.call(aten.neg.default, draft.call(aten.neg.default, x)),
        lambda x: draft.call(aten.clone.default, x),
        lambda x: draft.call(aten.expand.default, x, list(SHAPE)),
        lambda x: draft.call(aten.slice.Tensor, x, 2, 0, SIDE),
    ]
    for step in draft.random.sample(steps, 3):
        node = step(node)
    return node


def scales(draft: Draft, node: fx.Node) -> fx.Node:
    """Add products with numbers, one after the other."""
    for factor in (0.5, 3.0, draft.random.uniform(0.1, 2.0)):
        kind = draft.random.choice((aten.mul.Tensor, aten.div.Tensor))
        node = draft.call(kind, node, factor)
    return node


def moves(draft: Draft, node: fx.Node) -> fx.Node:
    """Add permutations and reshapes that undo each other, fully or in part."""
    order = list(range(4))
    draft.random.shuffle(order)
    node = draft.call(aten.permute.default, node, order)
    node = draft.call(aten.permute.default, node, [order.index(axis) for axis in range(4)])
    node = draft.call(aten.reshape.default, node, [BATCH, CHANNELS * SIDE, SIDE])
    node = draft.call(aten.reshape.default, node, [BATCH * CHANNELS, SIDE, SIDE])
    node = draft.call(aten.transpose.int, draft.call(aten.transpose.int, node, 1, 2), -1, -2)
    return draft.call(aten.reshape.default, node, list(SHAPE))


def activation(draft: Draft, node: fx.Node) -> fx.Node:
    """Add an activation, silu also as x * sigmoid(x)."""
    if draft.random.random() < 0.4:
        gate = draft.call(aten.sigmoid.default, node)
        return draft.call(aten.mul.Tensor, *draft.random.sample([node, gate], 2))
    names = ("relu", "silu", "gelu", "tanh", "sigmoid", "hardswish", "leaky_relu")
    return draft.call(getattr(aten, draft.random.choice(names)).default, node)


def convolution(draft: Draft, node: fx.Node) -> fx.Node:
    """Add a convolution, mostly with batch norm, sometimes with a residual sum and relu."""
    weight = draft.const(0.3 * draft.tensor(CHANNELS, CHANNELS, 3, 3))
    bias = draft.const(draft.tensor(CHANNELS)) if draft.random.random() < 0.5 else None
    out = draft.call(aten.conv2d.default, node, weight, bias, [1, 1], [1, 1])
    if draft.random.random() < 0.8:
        vectors = [draft.const(draft.tensor(CHANNELS)) for _ in range(3)]
        variance = draft.const(draft.tensor(CHANNELS).abs() + 0.5)
        target = aten._native_batch_norm_legit_no_training.default
        norm = draft.call(target, out, *vectors, variance, 0.1, 1e-5)
        out = draft.call(operator.getitem, norm, 0)
    if draft.random.random() < 0.4:
        out = draft.call(aten.add.Tensor, *draft.random.sample([out, node], 2))
    return draft.call(aten.relu.default, out)


def separable(draft: Draft, node: fx.Node) -> fx.Node:
    """Add a depthwise and a pointwise convolution, with nothing between."""
    depth = draft.const(draft.tensor(CHANNELS, 1, 3, 3))
    point = draft.const(0.5 * draft.tensor(CHANNELS, CHANNELS, 1, 1))
    biases = [draft.const(draft.tensor(CHANNELS)) for _ in range(2)]
    padding, dilation = ([1, 1], [1, 1]) if draft.random.random() < 0.5 else ([2, 2], [2, 2])
    args = (node, depth, biases[0], [1, 1], padding, dilation, CHANNELS)
    return draft.call(aten.conv2d.default, draft.call(aten.conv2d.default, *args), point, biases[1])


def norm(draft: Draft, node: fx.Node) -> fx.Node:
    """Add a layer norm that is written out, in one of its spellings."""
    mean = draft.call(aten.mean.dim, node, [-1], True)
    centred = draft.call(aten.sub.Tensor, node, mean)
    spelling = draft.random.randrange(3)
    if spelling == 0:
        square = draft.call(aten.pow.Tensor_Scalar, centred, 2)
        variance = draft.call(aten.mean.dim, square, [3], True)
    elif spelling == 1:
        square = draft.call(aten.mul.Tensor, centred, centred)
        variance = draft.call(aten.mean.dim, square, [-1], True)
    else:
        variance = draft.call(aten.var.correction, node, [-1], correction=0, keepdim=True)
    shifted = draft.call(aten.add.Tensor, variance, 1e-5)
    if draft.random.random() < 0.5:
        out = draft.call(aten.div.Tensor, centred, draft.call(aten.sqrt.default, shifted))
    else:
        root = draft.call(aten.rsqrt.default, shifted)
        out = draft.call(aten.mul.Tensor, *draft.random.sample([centred, root], 2))
    out = draft.call(aten.mul.Tensor, out, draft.const(draft.tensor(SIDE)))
    return draft.call(aten.add.Tensor, out, draft.const(draft.tensor(SIDE)))


def attention(draft: Draft, node: fx.Node) -> fx.Node:
    """Add attention over rows, written out, with projections of the same input."""
    names = ("query", "key", "value")
    parts = [
        draft.call(
            aten.linear.default,
            node,
            draft.const(0.5 * draft.tensor(SIDE, SIDE)),
            draft.const(draft.tensor(SIDE)),
        )
        for _ in names
    ]
    transposed = draft.call(aten.transpose.int, parts[1], -2, -1)
    scores = draft.call(aten.matmul.default, parts[0], transposed)
    scores = draft.call(aten.div.Tensor, scores, SIDE**0.5)
    if draft.random.random() < 0.5:
        scores = draft.call(aten.add.Tensor, scores, draft.const(draft.tensor(SIDE, SIDE)))
    weights = draft.call(aten.softmax.int, scores, -1)
    return draft.call(aten.matmul.default, weights, parts[2])


def cells(draft: Draft, node: fx.Node, one_product: bool = False) -> fx.Node:
    """Add a cell over the rows: gate by gate, or one product of input and state together."""
    width, steps = SIDE, range(3)
    state = draft.call(aten.slice.Tensor, draft.call(aten.mul.Tensor, node, 0.5), 2, 0, 1)
    state = draft.call(aten.reshape.default, state, [BATCH, CHANNELS, SIDE])
    rows = [width, width] if not one_product else [2 * width]
    reads = [draft.const(0.5 * draft.tensor(rows[0], width)) for _ in rows]
    keeps = [draft.const(0.5 * draft.tensor(rows[0], width)) for _ in rows]
    both = draft.const(0.5 * draft.tensor(2 * width, 2 * width))
    bias = draft.const(draft.tensor(rows[0]))
    leads = draft.random.random() < 0.5
    for at in steps:
        step = draft.call(aten.select.int, node, 2, at)
        if one_product:
            pair = [step, state] if leads else [state, step]
            gates = draft.call(
                aten.linear.default, draft.call(aten.cat.default, pair, -1), both, bias
            )
            parts = draft.call(aten.split_with_sizes.default, gates, [width, width], -1)
            left, right = (draft.call(operator.getitem, parts, part) for part in (0, 1))
        else:
            left, right = (
                draft.call(
                    aten.add.Tensor,
                    draft.call(aten.linear.default, step, read, bias),
                    draft.call(aten.linear.default, state, keep),
                )
                for read, keep in zip(reads, keeps, strict=True)
            )
        gate = draft.call(aten.sigmoid.default, left)
        state = draft.call(aten.mul.Tensor, gate, draft.call(aten.tanh.default, right))
    return draft.call(aten.add.Tensor, node, draft.call(aten.unsqueeze.default, state, 2))


def joint_cells(draft: Draft, node: fx.Node) -> fx.Node:
    """Add a cell whose gates are one product."""
    return cells(draft, node, one_product=True)


def constants(draft: Draft, node: fx.Node) -> fx.Node:
    """Add arithmetic on constants, and the same expression twice."""
    left, right = draft.const(draft.tensor(SIDE)), draft.const(draft.tensor(SIDE))
    total = draft.call(aten.exp.default, draft.call(aten.tanh.default, left))
    total = draft.call(aten.mul.Tensor, total, right)
    first, second = (draft.call(aten.add.Tensor, node, total) for _ in range(2))
    unused = draft.call(aten.exp.default, first)
    draft.call(aten.neg.default, unused)
    return draft.call(aten.sub.Tensor, draft.call(aten.mul.Tensor, first, 2.0), second)


def entropy(draft: Draft, node: fx.Node) -> fx.Node:
    """Add log of softmax."""
    softmax = draft.call(aten.softmax.int, node, draft.random.choice((1, -1)))
    return draft.call(aten.log.default, softmax)


FRAGMENTS: tuple[Fragment, ...] = (
    *(identities, scales, moves, activation, convolution, separable, norm, attention),
    *(constants, entropy, cells, joint_cells),
)


@cache
def random_program(seed: int, dtype: torch.dtype = torch.float64, length: int = 6) -> Program:
    """Return a random graph; some fragments read an earlier node, some nodes are outputs too."""
    draft = Draft(seed, dtype)
    example = draft.tensor(*SHAPE)
    node = draft.graph.placeholder("x")
    nodes = [node]
    for _ in range(length):
        source = node if draft.random.random() < 0.75 else draft.random.choice(nodes)
        result = draft.random.choice(FRAGMENTS)(draft, source)
        if draft.random.random() < 0.3:
            result = draft.call(aten.add.Tensor, result, draft.random.choice(nodes))
        node = draft.call(aten.tanh.default, result)  # keeps values in range
        nodes.append(node)
    extra = [draft.random.choice(nodes[1:])] if draft.random.random() < 0.5 else []
    return draft.program([example], [node, *extra])
