"""Computes linear layers that read the same input as one: gates of an LSTM, queries and keys.

Rule: rows of stacked weights are independent, so [W1; W2] x split into two is W1 x and W2 x. One
large product uses the machine better than several small ones, and reads the input once.
"""

from __future__ import annotations

import operator

import torch
from torch import Tensor, fx

from flyball.models.graph.edit import (
    Node,
    add_constant,
    arguments,
    aten,
    calls,
    constant,
    insert,
    is_node,
    replace,
    shape,
)

RULE = "linear layers of the same input become one product"
MOST_ROWS = 512
"""Inputs with more rows fill the machine with one layer's product already."""


def run(module: fx.GraphModule) -> int:
    """Merge linear layers; return the number of products removed."""
    groups: dict[tuple[Node, bool], list[Node]] = {}
    for node in calls(module, aten.linear.default):
        given = arguments(node)
        weight, bias = constant(module, given["weight"]), constant(module, given["bias"])
        if weight is None or (given["bias"] is not None and bias is None):
            continue
        rows = torch.Size(shape(given["input"])[:-1]).numel()
        if rows <= MOST_ROWS and is_node(given["input"]):
            groups.setdefault((given["input"], bias is not None), []).append(node)
    stacks: Stacks = {}
    return sum(_merge(module, nodes, stacks) for nodes in groups.values() if len(nodes) > 1)


Stacks = dict[tuple[str, ...], Node]
"""Stacked weights by the names of their parts. A cell's weights are the same at every step: they
are stacked once, or each step would read a copy of its own from memory."""


def _merge(module: fx.GraphModule, nodes: list[Node], stacks: Stacks) -> int:
    given = [arguments(node) for node in nodes]
    weights = [constant(module, one["weight"]) for one in given]
    biases = [constant(module, one["bias"]) for one in given]
    stacked = [weight for weight in weights if weight is not None]
    if len({weight.dtype for weight in stacked}) > 1:
        return 0
    first = nodes[0]
    names = tuple(str(one["weight"].target) for one in given)
    weight = _stacked(module, "merged", names, stacked, first, stacks)
    bias = None
    if biases[0] is not None:
        names = tuple(str(one["bias"].target) for one in given)
        bias = _stacked(module, "merged_bias", names, _tensors(biases), first, stacks)
    product = insert(first, aten.linear.default, given[0]["input"], weight, bias)
    sizes = [len(one) for one in stacked]
    parts = insert(first, aten.split_with_sizes.default, product, sizes, -1)
    results = [insert(first, operator.getitem, parts, at) for at in range(len(nodes))]
    for node, result in zip(nodes, results, strict=True):
        replace(node, result)
    return len(nodes) - 1


def _stacked(
    module: fx.GraphModule,
    label: str,
    names: tuple[str, ...],
    parts: list[Tensor],
    before: Node,
    stacks: Stacks,
) -> Node:
    """Return the node of stacked constants, the same one for the same parts.

    Groups are merged in the order of the graph, so that it precedes its later uses.
    """
    if names not in stacks:
        stacks[names] = add_constant(module, label, torch.cat(parts), before)
    return stacks[names]


def _tensors(values: list[Tensor | None]) -> list[Tensor]:
    return [value for value in values if value is not None]
