"""Computes a convolution or linear layer with its activation and residual sum in one kernel.

Rule: relu(conv(x)), gelu(linear(x)), relu(conv(x) + y) and the like run as one oneDNN kernel, which
applies the activation while its results are in registers. Values do not change but for rounding.
Weights may be packed once into the order that the kernel reads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from flyball.models.graph.edit import (
    Node,
    add_constant,
    arguments,
    aten,
    calls,
    constant,
    dtype,
    is_call,
    is_node,
    only_user,
    replace,
    shape,
)

RULE = "convolution or linear layer, residual sum and activation become one kernel"


class Activation(NamedTuple):
    """An activation as oneDNN's kernels name it."""

    name: str = "none"
    numbers: tuple[float, ...] = ()
    algorithm: str = ""


NONE = Activation()
PLAIN = {
    aten.relu.default: "relu",
    aten.silu.default: "swish",
    aten.sigmoid.default: "sigmoid",
    aten.tanh.default: "tanh",
    aten.hardswish.default: "hardswish",
    aten.hardsigmoid.default: "hardsigmoid",
}


def available() -> bool:
    """Return whether this torch has the kernels."""
    has_kernels = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(has_kernels) and hasattr(torch.ops.mkldnn, "_convolution_pointwise")


def run(module: fx.GraphModule, pack: bool = False) -> int:
    """Fuse layers with what follows them; return the number of operations removed.

    Args:
        module: the graph.
        pack: also store constant weights in the order that the kernels read. Such a graph runs only
            here: packed weights cannot be saved.
    """
    if not available():
        return 0
    removed = 0
    packed: Packed | None = {} if pack else None
    for node in calls(module, aten.conv2d.default, aten.linear.default):
        if dtype(node) != torch.float32:
            continue
        removed += _fuse(module, node, packed)
    return removed


Packed = dict[tuple[Any, ...], Node]
"""Packed weights that exist already. A layer that runs at every step of a sequence has them once,
or each step would read a copy of its own from memory."""


def _fuse(module: fx.GraphModule, layer: Node, packed: Packed | None) -> int:
    is_conv = is_call(layer, aten.conv2d.default)
    given = arguments(layer)
    weight = constant(module, given["weight"])
    if weight is None or (is_conv and not isinstance(given["padding"], (list, tuple))):
        return 0
    last, removed = layer, 0
    other: Node | None = None
    following = only_user(layer)
    residual = _residual(layer, following)
    if residual is not None and following is not None:
        other, last, removed = residual, following, 1
    after = only_user(last)
    activation = NONE if after is None else _activation(after, last)
    if (
        activation is not NONE
        and after is not None
        and (other is None or _takes(is_conv, activation))
    ):
        last, removed = after, removed + 1
    else:
        activation = NONE
    if not removed and packed is None:
        return 0
    if packed is not None:
        key = (str(given["weight"].target), shape(given["input"]), str(layer.args[3:]))
        if key not in packed:
            stored = _packed(given, weight, is_conv, shape(given["input"]))
            packed[key] = _opaque_constant(module, stored, layer)
        given["weight"] = packed[key]
    _replace_by_kernel(last, layer, given, other, activation, is_conv)
    return removed


def _residual(layer: Node, total: Node | None) -> Node | None:
    """Return what is added to a layer's result, if the kernel can add it."""
    if total is None or not is_call(total, aten.add.Tensor) or arguments(total)["alpha"] != 1:
        return None
    left, right = total.args[0], total.args[1]
    other = right if left is layer else left
    if not is_node(other) or other is layer or other.op == "get_attr":
        return None
    if shape(other) != shape(layer) or dtype(other) != dtype(layer):
        return None
    return other


def _takes(is_conv: bool, activation: Activation) -> bool:
    """Return whether the kernel applies an activation after a sum."""
    return is_conv and activation.name == "relu"


def _activation(node: Node, source: Node) -> Activation:
    if node.op != "call_function" or not node.args or node.args[0] is not source:
        return NONE
    if node.target in PLAIN:
        return Activation(PLAIN[node.target])
    if is_call(node, aten.gelu.default):
        return Activation("gelu", (), str(arguments(node)["approximate"]))
    if is_call(node, aten.leaky_relu.default):
        return Activation("leaky_relu", (float(arguments(node)["negative_slope"]),))
    if is_call(node, aten.hardtanh.default):
        given = arguments(node)
        return Activation("hardtanh", (float(given["min_val"]), float(given["max_val"])))
    return NONE


def _packed(
    given: dict[str, Any], weight: Tensor, is_conv: bool, input_shape: tuple[int, ...]
) -> Tensor:
    if is_conv:
        packed: Tensor = torch.ops.mkldnn._reorder_convolution_weight(
            weight,
            *(_pair(given["padding"]), _pair(given["stride"]), _pair(given["dilation"])),
            *(given["groups"], list(input_shape)),
        )
    else:
        rows = torch.Size(input_shape[:-1]).numel()
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    return packed


def _opaque_constant(module: fx.GraphModule, value: Tensor, before: Node) -> Node:
    """Store packed weights, whose values only the kernels can read."""
    with torch.no_grad():
        node = add_constant(module, "packed", torch.empty(0), before)
    setattr(module, str(node.target), value)
    return node


def _replace_by_kernel(
    last: Node,
    layer: Node,
    given: dict[str, Any],
    other: Node | None,
    activation: Activation,
    is_conv: bool,
) -> None:
    operations = torch.ops.mkldnn
    form = (activation.name, list(activation.numbers), activation.algorithm)
    weights = (given["weight"], given["bias"])
    geometry: tuple[Any, ...] = ()
    if is_conv:
        pairs = (_pair(given[name]) for name in ("padding", "stride", "dilation"))
        geometry = (*pairs, given["groups"])
    with last.graph.inserting_before(last):
        if other is None:
            target = operations._convolution_pointwise if is_conv else operations._linear_pointwise
            args = (given["input"], *weights, *geometry, *form)
            kernel = last.graph.call_function(target.default, args)
        elif is_conv:
            unary: tuple[Any, ...] = (
                ("relu", [], "") if activation.name == "relu" else (None, [], None)
            )
            args = (given["input"], other, *weights, *geometry, "add", 1.0, *unary)
            kernel = last.graph.call_function(operations._convolution_pointwise.binary, args)
        else:
            args = (given["input"], other, *weights, "add")
            kernel = last.graph.call_function(operations._linear_pointwise.binary, args)
    kernel.meta = dict(last.meta)
    kernel.meta["layer"] = layer.target
    previous = [node for node in (last, *_between(layer, last)) if node is not last]
    replace(last, kernel)
    for node in previous:
        last.graph.erase_node(node)


def _between(layer: Node, last: Node) -> list[Node]:
    """Return the nodes from the layer up to, and without, the last, latest first."""
    nodes = []
    node: Node | None = layer
    while node is not None and node is not last:
        nodes.append(node)
        node = only_user(node)
    return nodes[::-1]


def _pair(value: Any) -> list[int]:
    numbers = list(value)
    return numbers * 2 if len(numbers) == 1 else numbers
