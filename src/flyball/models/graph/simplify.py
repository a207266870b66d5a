"""Removes operations by algebra: identities, repeated scales, moves of axes that cancel.

Rules: x * 1, x / 1, x + 0, x - 0 and x ** 1 are x; (x * a) * b is x * (a b); a transpose or
permutation after its inverse is nothing, two permutations are one; a reshape of a reshape is the
last one; expanding, slicing, converting or reshaping to what it already is does nothing; a copy
that nothing writes to is its source; x * sigmoid(x) is silu(x); a number that scales a linear
layer or a convolution goes into its weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from flyball.models.graph.edit import (
    Node,
    add_constant,
    arguments,
    aten,
    constant,
    dtype,
    insert,
    is_call,
    is_node,
    replace,
    scalar,
    shape,
)

RULE = "identities, repeated scales and moves of axes that cancel are removed"
LAYERS = (aten.linear.default, aten.conv2d.default)
Step = Callable[[fx.GraphModule, Node], Node | None]


def run(module: fx.GraphModule) -> int:
    """Simplify until nothing changes; return the number of changes."""
    changes = 0
    for _ in range(10):
        before = changes
        for node in list(module.graph.nodes):
            if node.op != "call_function" or not node.users:
                continue
            for step in STEPS:
                replacement = step(module, node)
                if replacement is None:
                    continue
                if any(user.op == "output" for user in node.users) and not _fresh(replacement):
                    continue  # a caller must not get an input or a weight itself
                replace(node, replacement)
                changes += 1
                break
        if changes == before:
            break
    return changes


def _fresh(node: Node) -> bool:
    return bool(node.op == "call_function")


def _same(node: Node, source: Any) -> Node | None:
    """Return the source if it has the shape and the format of the node."""
    if not is_node(source) or shape(source) != shape(node):
        return None
    return source if dtype(source) == dtype(node) else None


def identity(module: fx.GraphModule, node: Node) -> Node | None:
    """Remove arithmetic that changes nothing."""
    del module
    target = node.target
    if target not in ARITHMETIC or len(node.args) < 2 or node.kwargs:
        return None
    neutral, both_sides = ARITHMETIC[target]
    left, right = node.args[0], node.args[1]
    if scalar(right) and right == neutral:
        return _same(node, left)
    return _same(node, right) if both_sides and scalar(left) and left == neutral else None


ARITHMETIC: dict[Any, tuple[int, bool]] = {
    aten.mul.Tensor: (1, True),
    aten.mul.Scalar: (1, False),
    aten.div.Tensor: (1, False),
    aten.div.Scalar: (1, False),
    aten.add.Tensor: (0, True),
    aten.add.Scalar: (0, False),
    aten.sub.Tensor: (0, False),
    aten.sub.Scalar: (0, False),
    aten.pow.Tensor_Scalar: (1, False),
}
"""Neutral number of an operation, and whether it may stand on either side."""


def double_negation(module: fx.GraphModule, node: Node) -> Node | None:
    """Remove -(-x), and the second of two equal idempotent activations."""
    del module
    source: Any = node.args[0] if node.args else None
    if is_call(node, aten.neg.default) and is_call(source, aten.neg.default):
        return source.args[0]
    if is_call(node, aten.relu.default) and is_call(source, aten.relu.default):
        return source
    return None


def scales(module: fx.GraphModule, node: Node) -> Node | None:
    """Merge two products with, or quotients by, numbers: (x * a) * b is x * (a b)."""
    del module
    pair = (aten.mul.Tensor, aten.div.Tensor)
    inner: Any = node.args[0] if node.args else None
    if not is_call(node, *pair) or not is_call(inner, *pair) or not is_node(inner):
        return None
    if len(inner.users) != 1 or not scalar(node.args[1]) or not scalar(inner.args[1]):
        return None
    if not _is_float(node) or dtype(inner) != dtype(node) or dtype(inner.args[0]) != dtype(node):
        return None
    factor = _factor(node) * _factor(inner)
    if factor == 0 or not 1e-30 < abs(factor) < 1e30:
        return None  # an intermediate result might have left the range of the format
    return insert(node, aten.mul.Tensor, inner.args[0], factor)


def _factor(node: Node) -> float:
    value = float(node.args[1])
    if is_call(node, aten.div.Tensor):
        return 1.0 / value if value else 0.0
    return value


def _is_float(node: Node) -> bool:
    kind = dtype(node)
    return kind is not None and kind.is_floating_point


def axes(module: fx.GraphModule, node: Node) -> Node | None:
    """Merge a permutation or transpose with the one before it."""
    del module
    inner: Any = node.args[0] if node.args else None
    outer_order, inner_order = _order(node), _order(inner)
    if outer_order is None or inner_order is None or not is_node(inner):
        return None
    source = inner.args[0]
    order = [inner_order[axis] for axis in outer_order]
    if order == sorted(order):
        return source if is_node(source) else None
    return insert(node, aten.permute.default, source, order) if len(inner.users) == 1 else None


def _order(node: Any) -> list[int] | None:
    """Return the order of axes that a node gives its input; None for other operations."""
    rank = len(shape(node))
    if is_call(node, aten.permute.default):
        return [int(axis) % rank for axis in node.args[1]]
    if is_call(node, aten.transpose.int):
        order = list(range(rank))
        first, second = (int(axis) % rank for axis in node.args[1:3])
        order[first], order[second] = order[second], order[first]
        return order
    if is_call(node, aten.t.default) and rank == 2:
        return [1, 0]
    return None


def reshapes(module: fx.GraphModule, node: Node) -> Node | None:
    """Remove a reshape to the same shape; let a reshape of a reshape read the first one's input."""
    del module
    if not is_call(node, aten.reshape.default):
        return None
    source = node.args[0]
    if shape(source) == shape(node) and shape(node):
        return _same(node, source)
    if is_call(source, aten.reshape.default) and is_node(source):
        return insert(node, aten.reshape.default, source.args[0], list(shape(node)))
    return None


def nothing(module: fx.GraphModule, node: Node) -> Node | None:
    """Remove expansions, slices and conversions that change nothing, and copies."""
    del module
    if is_call(node, *NO_CHANGE):
        return _same(node, node.args[0])
    if is_call(node, aten.clone.default, aten.contiguous.default):
        return _same(node, node.args[0])
    return None


NO_CHANGE = (
    aten.expand.default,
    aten.slice.Tensor,
    aten._to_copy.default,
    aten.to.dtype,
    aten.alias.default,
    aten.detach.default,
    aten.dropout.default,
    aten.lift_fresh_copy.default,
)
"""Operations that keep values, if they keep shape and format. `dropout` is that of evaluation."""


def silu(module: fx.GraphModule, node: Node) -> Node | None:
    """Turn x * sigmoid(x) into silu(x)."""
    del module
    if not is_call(node, aten.mul.Tensor):
        return None
    for source, gate in ((node.args[0], node.args[1]), (node.args[1], node.args[0])):
        if is_call(gate, aten.sigmoid.default) and gate.args[0] is source:
            return insert(node, aten.silu.default, source)
    return None


def scaled_layer(module: fx.GraphModule, node: Node) -> Node | None:
    """Fold a scale, one number or one per output feature, into the layer before it."""
    layer: Any = node.args[0] if node.args else None
    if not is_call(node, aten.mul.Tensor, aten.div.Tensor) or not is_call(layer, *LAYERS):
        return None
    if not is_node(layer) or len(layer.users) != 1 or not _is_float(node):
        return None
    given = arguments(layer)
    weight, bias = constant(module, given["weight"]), constant(module, given["bias"])
    if weight is None or (given["bias"] is not None and bias is None):
        return None
    scale = _scale(module, node, layer, weight)
    if scale is None or dtype(node) != weight.dtype:
        return None
    scaled = weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1))
    weights = add_constant(module, "scaled", scaled.to(weight.dtype), layer)
    biases = None
    if bias is not None:
        value = (bias.double() * scale.reshape(-1)).to(bias.dtype)
        biases = add_constant(module, "scaled_bias", value, layer)
    return insert(node, layer.target, layer.args[0], weights, biases, *layer.args[3:])


def _scale(
    module: fx.GraphModule, node: Node, layer: Node, weight: torch.Tensor
) -> torch.Tensor | None:
    other = node.args[1]
    if scalar(other):
        value = _factor(node)
        return torch.full((1,), value, dtype=torch.float64) if value else None
    vector = constant(module, other)
    if vector is None or not is_call(node, aten.mul.Tensor) or not is_call(layer, LAYERS[0]):
        return None
    return vector.double() if tuple(vector.shape) == (weight.shape[0],) else None


STEPS: tuple[Step, ...] = (
    *(identity, double_negation, nothing, reshapes, axes, silu, scales, scaled_layer),
)
