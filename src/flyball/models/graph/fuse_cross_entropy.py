"""Puts softmax, logarithm and cross-entropy into their stable fused forms.

Rule: log(softmax(x)) is log_softmax(x), and nll_loss(log_softmax(x)) is cross_entropy_loss(x). The
fused form subtracts the largest value first, so it stays finite where softmax underflows to 0.
"""

from __future__ import annotations

from torch import fx

from flyball.models.graph.edit import arguments, aten, calls, insert, is_call, replace, shape

RULE = "softmax, logarithm and cross-entropy become the stable fused form"


def run(module: fx.GraphModule) -> int:
    """Fuse losses; return how many patterns were replaced."""
    fused = 0
    for node in calls(module, aten.log.default):
        softmax = node.args[0]
        if is_call(softmax, aten.softmax.int) and arguments(softmax)["dtype"] is None:
            source, axis = softmax.args[0], softmax.args[1]
            replace(node, insert(node, aten.log_softmax.int, source, axis))
            fused += 1
    for node in calls(module, aten.nll_loss_nd.default, aten.nll_loss.default):
        given = arguments(node)
        logs = given["self"]
        if not is_call(logs, aten.log_softmax.int) or arguments(logs)["dtype"] is not None:
            continue
        source = logs.args[0]
        if arguments(logs)["dim"] % len(shape(source)) != min(1, len(shape(source)) - 1):
            continue
        replace(
            node,
            insert(
                node,
                aten.cross_entropy_loss.default,
                *(source, given["target"], given["weight"], given["reduction"]),
                given["ignore_index"],
            ),
        )
        fused += 1
    return fused
