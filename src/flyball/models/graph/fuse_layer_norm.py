"""Recognises layer normalisation written out, and folds its scale and shift.

Rule: (x - mean) / sqrt(var + eps) over the last axis, with the biased variance, is `layer_norm`;
a following product with and sum of vectors of that axis are its weight and bias.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from flyball.models.graph.edit import (
    Node,
    arguments,
    aten,
    calls,
    constant,
    insert,
    is_call,
    replace,
    scalar,
    shape,
)

RULE = "layer norm that is written out becomes one operation"


def run(module: fx.GraphModule) -> int:
    """Fuse layer norms; return how many patterns were replaced."""
    fused = 0
    for node in calls(module, aten.div.Tensor, aten.mul.Tensor):
        core = _core(node)
        if core is not None:
            source, eps = core
            width = shape(source)[-1:]
            replace(
                node, insert(node, aten.layer_norm.default, source, list(width), None, None, eps)
            )
            fused += 1
    for node in calls(module, aten.mul.Tensor, aten.add.Tensor):
        fused += _affine(module, node)
    return fused


def _core(node: Node) -> tuple[Node, float] | None:
    """Return input and eps if a node is the last step of a normalisation."""
    if is_call(node, aten.div.Tensor):
        pairs = [(node.args[0], node.args[1], aten.sqrt.default)]
    else:
        left, right = node.args[0], node.args[1]
        pairs = [(left, right, aten.rsqrt.default), (right, left, aten.rsqrt.default)]
    for centred, root, kind in pairs:
        if not is_call(root, kind) or not is_call(centred, aten.sub.Tensor):
            continue
        shifted = root.args[0]
        if not is_call(shifted, aten.add.Tensor) or not scalar(shifted.args[1]):
            continue
        source, mean = centred.args[0], centred.args[1]
        if not _is_mean(mean, source) or arguments(centred)["alpha"] != 1:
            continue
        if arguments(shifted)["alpha"] == 1 and _is_variance(shifted.args[0], source, centred):
            return source, float(shifted.args[1])
    return None


def _last_axis(node: Node, source: Any) -> bool:
    """Return whether a reduction is over the last axis only and keeps it."""
    given = arguments(node)
    axes = given["dim"]
    last = len(shape(source)) - 1
    return bool(given["keepdim"]) and axes is not None and list(axes) in ([-1], [last])


def _is_mean(node: Any, source: Any) -> bool:
    return (
        is_call(node, aten.mean.dim)
        and node.args[0] is source
        and _last_axis(node, source)
        and arguments(node)["dtype"] is None
    )


def _is_variance(node: Any, source: Any, centred: Any) -> bool:
    if is_call(node, aten.var.correction):
        given = arguments(node)
        return node.args[0] is source and _last_axis(node, source) and given["correction"] == 0
    if not is_call(node, aten.mean.dim) or not _last_axis(node, source):
        return False
    square = node.args[0]
    if is_call(square, aten.pow.Tensor_Scalar):
        return square.args[0] is centred and square.args[1] == 2
    return is_call(square, aten.mul.Tensor) and square.args[0] is square.args[1] is centred


def _affine(module: fx.GraphModule, node: Node) -> int:
    """Fold a product with, or a sum of, a constant vector into the layer norm before it."""
    for norm, vector in ((node.args[0], node.args[1]), (node.args[1], node.args[0])):
        if not is_call(norm, aten.layer_norm.default) or len(norm.users) != 1:
            continue
        given = arguments(norm)
        value = constant(module, vector)
        if value is None or tuple(value.shape) != tuple(given["normalized_shape"]):
            continue
        is_product = is_call(node, aten.mul.Tensor)
        if given["bias"] is not None or (is_product and given["weight"] is not None):
            continue
        if not is_product and arguments(node)["alpha"] != 1:
            continue
        weight = vector if is_product else given["weight"]
        bias = None if is_product else vector
        normal = list(given["normalized_shape"])
        target = aten.layer_norm.default
        replace(node, insert(node, target, given["input"], normal, weight, bias, given["eps"]))
        module.graph.erase_node(norm)
        return 1
    return 0
