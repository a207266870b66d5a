"""Recognises attention written out, and computes it in one operation.

Rule: softmax(q k^T * scale + mask) v is `scaled_dot_product_attention(q, k, v, mask, scale)`,
which works on blocks and never stores the whole matrix of scores. Only where nothing else reads
the scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import fx

from flyball.models.graph.edit import (
    Node,
    arguments,
    aten,
    calls,
    dtype,
    insert,
    is_call,
    is_node,
    replace,
    scalar,
    shape,
)

RULE = "attention that is written out becomes scaled_dot_product_attention"
PRODUCTS = (aten.matmul.default, aten.bmm.default)
SOFTMAX = (aten.softmax.int, aten._softmax.default)


class Scores(NamedTuple):
    """The parts of softmax's argument: query times transposed keys, scaled and masked."""

    query: Node
    keys_transposed: Node
    scale: float
    mask: Node | None


def run(module: fx.GraphModule) -> int:
    """Fuse attentions; return how many."""
    fused = 0
    for node in calls(module, *PRODUCTS):
        weights, value = node.args[0], node.args[1]
        if not is_call(weights, *SOFTMAX) or len(weights.users) != 1:
            continue
        scores = _scores(weights)
        if scores is None or not _fits(scores, value, node):
            continue
        replace(node, _attention(node, scores, value))
        fused += 1
    return fused


def _attention(node: Node, scores: Scores, value: Any) -> Node:
    """Insert the fused operation; three axes become four, as ONNX has it for four only."""
    key = insert(node, aten.transpose.int, scores.keys_transposed, -2, -1)
    parts = [scores.query, key, value]
    mask: Any = scores.mask
    few = len(shape(node)) == 3
    if few:
        parts = [insert(node, aten.unsqueeze.default, part, 0) for part in parts]
        if mask is not None and len(shape(mask)) == 3:
            mask = insert(node, aten.unsqueeze.default, mask, 0)
    target = aten.scaled_dot_product_attention.default
    attention = insert(node, target, *parts, mask, scale=scores.scale)
    return insert(node, aten.squeeze.dim, attention, 0) if few else attention


def _scores(softmax: Node) -> Scores | None:
    """Return what a softmax over the last axis is taken of, if it is scaled scores."""
    given = arguments(softmax)
    source = given["self"]
    rank = len(shape(source))
    if given["dim"] not in (-1, rank - 1) or dtype(softmax) != dtype(source):
        return None
    mask = None
    if is_call(source, aten.add.Tensor) and len(source.users) == 1:
        if arguments(source)["alpha"] != 1:
            return None
        left, right = source.args[0], source.args[1]
        if not is_node(left) or not is_node(right):
            return None
        source, mask = (left, right) if _product(left) is not None else (right, left)
    product = _product(source)
    if product is None:
        return None
    matmul, scale = product
    query, transposed = matmul.args[0], matmul.args[1]
    if is_call(query, aten.mul.Tensor) and scalar(query.args[1]):
        query, scale = query.args[0], scale * query.args[1]
    if not is_node(query) or not is_node(transposed):
        return None
    return Scores(query, transposed, scale, mask)


def _product(node: Any) -> tuple[Node, float] | None:
    """Return the product of queries and keys, and its scale, that only the softmax reads."""
    scale = 1.0
    if is_call(node, aten.mul.Tensor, aten.div.Tensor) and scalar(node.args[1]):
        if len(node.users) != 1:
            return None
        factor = float(node.args[1])
        scale = factor if is_call(node, aten.mul.Tensor) else 1.0 / factor
        node = node.args[0]
    if not is_call(node, *PRODUCTS) or len(node.users) != 1:
        return None
    return node, scale


def _fits(scores: Scores, value: Any, node: Node) -> bool:
    """Return whether the fused operation takes these shapes and formats."""
    rank = len(shape(node))
    parts = (scores.query, scores.keys_transposed, value)
    if rank not in (3, 4) or any(len(shape(part)) != rank for part in parts):
        return False
    if len({shape(part)[:-2] for part in parts}) != 1:
        return False
    if len({dtype(part) for part in parts}) != 1 or scores.scale <= 0:
        return False
    if scores.mask is None:
        return True
    grid = (*shape(node)[:-1], shape(scores.keys_transposed)[-1])
    return dtype(scores.mask) == dtype(scores.query) and _broadcasts(shape(scores.mask), grid)


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Return whether a mask has at least two axes and widens to the shape of the scores."""
    pairs = zip(reversed(small), reversed(large), strict=False)
    return 2 <= len(small) <= len(large) and all(one in (1, other) for one, other in pairs)
