"""Merges a depthwise convolution with the pointwise one that follows directly.

Rule: without anything between them, a depthwise kernel D and a 1x1 kernel P are one convolution
with the kernel P[o, c] * D[c], because both are linear. It saves writing and reading the channels
between but multiplies more, so it is done only where the roofline of a core says that it is
faster: with few channels. Two 1x1 convolutions in a row are merged by the same rule.
"""

from __future__ import annotations

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
    replace,
    shape,
)

RULE = "depthwise and pointwise convolutions without anything between become one, where it pays"
FLOP_PER_BYTE = 20.0
"""Operations a core does in the time of moving a byte: 75 GFLOP/s of float32 against about 4 GB/s a
core has of a socket's memory bandwidth when all cores are busy (catalogue: EPYC 7543, per core)."""


def run(module: fx.GraphModule, always: bool = False) -> int:
    """Merge pairs of convolutions; return how many.

    Args:
        module: the graph.
        always: merge even where the roofline says that it does not pay.
    """
    merged = 0
    for outer in calls(module, aten.conv2d.default):
        inner = outer.args[0]
        if is_call(inner, aten.conv2d.default) and len(inner.users) == 1:
            assert is_node(inner)
            merged += _merge(module, inner, outer, always)
    return merged


def _merge(module: fx.GraphModule, inner: Node, outer: Node, always: bool) -> int:
    first, second = arguments(inner), arguments(outer)
    kernel, mixing = constant(module, first["weight"]), constant(module, second["weight"])
    biases = [constant(module, first["bias"]), constant(module, second["bias"])]
    if kernel is None or mixing is None or not _is_pointwise(second, mixing):
        return 0
    if any(
        one["bias"] is not None and bias is None
        for one, bias in zip((first, second), biases, strict=True)
    ):
        return 0
    dense = _dense(first, kernel)
    if dense is None:
        return 0
    combined = torch.einsum("oc,cikl->oikl", mixing.double()[:, :, 0, 0], dense.double())
    if not always and not _pays(inner, outer, kernel, mixing, combined):
        return 0
    bias = _bias(biases, mixing)
    weights = add_constant(module, "merged_conv", combined.to(kernel.dtype), inner)
    shift = None
    if bias is not None:
        shift = add_constant(module, "merged_conv_bias", bias.to(kernel.dtype), inner)
    rest = (first["stride"], first["padding"], first["dilation"], 1)
    replace(outer, insert(outer, aten.conv2d.default, first["input"], weights, shift, *rest))
    module.graph.erase_node(inner)
    return 1


def _is_pointwise(given: dict[str, Any], weight: Tensor) -> bool:
    plain = list(given["stride"]) in ([1], [1, 1]) and list(given["padding"]) in ([0], [0, 0])
    return plain and given["groups"] == 1 and tuple(weight.shape[2:]) == (1, 1)


def _dense(given: dict[str, Any], kernel: Tensor) -> Tensor | None:
    """Return a depthwise or an ungrouped 1x1 kernel with all input channels; None for others."""
    channels = kernel.shape[0]
    if given["groups"] == 1:
        return kernel if tuple(kernel.shape[2:]) == (1, 1) else None
    if given["groups"] != channels or kernel.shape[1] != 1:
        return None
    dense = kernel.new_zeros(channels, channels, *kernel.shape[2:])
    at = torch.arange(channels)
    dense[at, at] = kernel[:, 0]
    return dense


def _bias(biases: list[Tensor | None], mixing: Tensor) -> Tensor | None:
    inner, outer = biases
    if inner is None:
        return outer
    moved = mixing.double()[:, :, 0, 0] @ inner.double()
    return moved if outer is None else moved + outer.double()


def _pays(inner: Node, outer: Node, kernel: Tensor, mixing: Tensor, combined: Tensor) -> bool:
    """Return whether one convolution takes less time than two, by the roofline of a core."""
    batch, _, height, width = shape(outer)
    positions = batch * height * width
    apart_flop = 2 * positions * (kernel.numel() + mixing.numel())
    between_bytes = 2 * torch.Size(shape(inner)).numel() * kernel.element_size()
    together_flop = 2 * positions * combined.numel()
    return together_flop < apart_flop + FLOP_PER_BYTE * between_bytes
