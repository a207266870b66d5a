"""Computes operations on constants once, when the model is optimised.

Rule: an operation whose inputs are all constants, and which draws no random numbers, is replaced by
its result, unless that is much larger than what it is computed from.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from flyball.models.graph.edit import add_constant, constant, is_pure, replace

RULE = "operations on constants are computed once"
SMALL_BYTES = 4 * 2**20
"""A result up to this size is always kept; a larger one if it is at most twice its inputs."""


def run(module: fx.GraphModule) -> int:
    """Fold constants; return the number of operations removed."""
    removed = 0
    for node in list(module.graph.nodes):
        if not is_pure(node) or not isinstance(node.meta.get("val"), Tensor):
            continue
        inputs = [constant(module, source) for source in node.all_input_nodes]
        if any(value is None for value in inputs):
            continue
        if not _is_worth(node.meta["val"], [value for value in inputs if value is not None]):
            continue
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: constant(module, n))
        with torch.no_grad():
            value = node.target(*args, **kwargs)
        replace(node, add_constant(module, "folded", value.contiguous(), node))
        removed += 1
    return removed


def _is_worth(result: Tensor, inputs: list[Tensor]) -> bool:
    size = result.numel() * result.element_size()
    return size <= max(SMALL_BYTES, 2 * sum(one.numel() * one.element_size() for one in inputs))
