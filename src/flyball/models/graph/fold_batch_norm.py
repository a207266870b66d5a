"""Folds batch normalisation into the convolution or linear layer before it.

Rule: with a channel's scale s = weight / sqrt(variance + eps), the normalised output
s * (W x + b - mean) + bias is the layer with weights s W and bias s (b - mean) + bias. Only where
nothing else reads the layer's output.
"""

from __future__ import annotations

import operator
from typing import Any

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
    is_call,
    is_node,
    only_user,
    replace,
)

RULE = "batch norm is folded into the convolution or linear layer before it"
LAYERS = (aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.linear.default)
NORM = aten._native_batch_norm_legit_no_training.default


def run(module: fx.GraphModule) -> int:
    """Fold batch norms; return how many."""
    folded = 0
    for norm in calls(module, NORM):
        result = only_user(norm)
        layer = norm.args[0]
        if not is_call(result, operator.getitem) or result is None or result.args[1] != 0:
            continue
        if not is_node(layer) or not is_call(layer, *LAYERS) or len(layer.users) != 1:
            continue
        folded += _fold(module, layer, norm, result)
    return folded


def _fold(module: fx.GraphModule, layer: Node, norm: Node, result: Node) -> int:
    given = arguments(layer)
    statistics = arguments(norm)
    weight = constant(module, given["weight"])
    bias = constant(module, given["bias"])
    mean = constant(module, statistics["running_mean"])
    variance = constant(module, statistics["running_var"])
    if weight is None or mean is None or variance is None:
        return 0
    if given["bias"] is not None and bias is None:
        return 0
    if layer.target == aten.linear.default and norm.meta["val"][0].dim() != 2:
        return 0  # its channels are not the linear layer's features
    gain, shift = _affine(module, statistics, mean)
    if gain is None or shift is None:
        return 0
    # Computed in double precision, so that the only rounding is that of the new weights.
    scale = gain.double() / torch.sqrt(variance.double() + statistics["eps"])
    offset = -mean.double() if bias is None else bias.double() - mean.double()
    new_weight = weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1))
    new_bias = offset * scale + shift.double()
    weights = add_constant(module, "bn_weight", new_weight.to(weight.dtype), layer)
    biases = add_constant(module, "bn_bias", new_bias.to(weight.dtype), layer)
    rest: list[Any] = list(layer.args[3:])
    replacement = insert(result, layer.target, layer.args[0], weights, biases, *rest)
    replace(result, replacement)
    module.graph.erase_node(norm)
    module.graph.erase_node(layer)
    return 1


def _affine(
    module: fx.GraphModule, statistics: dict[str, Any], mean: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return gain and shift of a batch norm; None for one that is computed."""
    gain, shift = statistics["weight"], statistics["bias"]
    return (
        torch.ones_like(mean) if gain is None else constant(module, gain),
        torch.zeros_like(mean) if shift is None else constant(module, shift),
    )
