"""Splits a recurrent cell's product into its input's part, of all steps at once, and its state's.

Rule: W [x; h] is Wx x + Wh h, and the parts Wx x_t of all steps t do not depend on the state, so
they are one product of the whole sequence. The weights of that part are then read once and not
once a step, and only the state's part stays in the chain of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
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

RULE = "a cell's product is split: its input's part of all steps is one product, its state's stays"
LEAST_STEPS = 2
CAT = aten.cat.default


@dataclass(frozen=True)
class Step:
    """A linear layer that reads one step of a sequence.

    Attributes:
        layer: the linear layer.
        sequence: the tensor that has all steps.
        axis: of the steps in the sequence.
        at: the step's index.
        is_kept: whether the axis is kept with size 1 (a slice; a selection drops it).
        state: what else the layer reads, concatenated after (or before) the step; None = nothing.
        leads: whether the step's features come before the state's.
    """

    layer: Node
    sequence: Node
    axis: int
    at: int
    is_kept: bool
    state: Node | None
    leads: bool


def run(module: fx.GraphModule) -> int:
    """Split the products of cells; return the number of layers that left the chain of steps."""
    groups: dict[tuple[Any, ...], list[Step]] = {}
    for layer in calls(module, aten.linear.default):
        given = arguments(layer)
        if constant(module, given["weight"]) is None:
            continue
        if given["bias"] is not None and constant(module, given["bias"]) is None:
            continue
        step = _step(layer, given["input"])
        if step is not None:
            names = (given["weight"].target, getattr(given["bias"], "target", None))
            key = (*names, step.sequence, step.axis, step.is_kept, step.state is None, step.leads)
            groups.setdefault(key, []).append(step)
    return sum(
        _split(module, steps) for steps in groups.values() if _distinct(steps) >= LEAST_STEPS
    )


def _distinct(steps: list[Step]) -> int:
    return len({step.at for step in steps})


def _step(layer: Node, source: Any) -> Step | None:
    """Return which step of which sequence a layer reads; None if it reads something else."""
    place = _place(source)
    if place is not None:
        return Step(layer, *place, state=None, leads=True)
    if not is_call(source, CAT) or len(source.args[0]) != 2:
        return None
    rank = len(shape(source))
    if (arguments(source)["dim"]) % rank != rank - 1:
        return None
    left, right = source.args[0]
    for part, state, leads in ((left, right, True), (right, left, False)):
        place = _place(part)
        if place is not None and is_node(state):
            return Step(layer, *place, state=state, leads=leads)
    return None


def _place(node: Any) -> tuple[Node, int, int, bool] | None:
    """Return sequence, axis, index, and whether the axis is kept, of one step of a sequence."""
    if not is_call(node, aten.select.int, aten.slice.Tensor):
        return None
    given = arguments(node)
    sequence = given["self"]
    sizes = shape(sequence)
    if len(sizes) < 2 or not is_node(sequence):
        return None
    axis = int(given["dim"]) % len(sizes)
    if axis == len(sizes) - 1:
        return None  # the features themselves
    if is_call(node, aten.select.int):
        return sequence, axis, int(given["index"]) % sizes[axis], False
    if shape(node)[axis] != 1 or sizes[axis] == 1:
        return None
    start = given["start"] or 0
    return sequence, axis, int(start) % sizes[axis], True


def _split(module: fx.GraphModule, steps: list[Step]) -> int:
    first = steps[0]
    given = arguments(first.layer)
    weight, bias = constant(module, given["weight"]), given["bias"]
    assert weight is not None
    if shape(first.sequence)[first.axis] > 2 * _distinct(steps):
        return 0  # most of the product would be of steps that nobody reads
    own, other = _parts(module, first, given["weight"], weight)
    # The product of the whole sequence stands before the first layer, where its input is there.
    whole = insert(first.layer, aten.linear.default, first.sequence, own, bias)
    for step in steps:
        layer = step.layer
        if step.is_kept:
            part = insert(layer, aten.slice.Tensor, whole, step.axis, step.at, step.at + 1)
        else:
            part = insert(layer, aten.select.int, whole, step.axis, step.at)
        if step.state is not None:
            product = insert(layer, aten.linear.default, step.state, other)
            part = insert(layer, aten.add.Tensor, product, part)
        replace(layer, part)
    return len(steps)


def _parts(
    module: fx.GraphModule, step: Step, node: Node, weight: Tensor
) -> tuple[Node, Node | None]:
    """Return the weights of the input's part and of the state's."""
    if step.state is None:
        return node, None
    features = shape(step.sequence)[-1]
    left, right = torch.split(weight, _widths(step, features, weight.shape[1]), dim=1)
    own, other = (left, right) if step.leads else (right, left)
    return (
        add_constant(module, "of_input", own.contiguous(), step.layer),
        add_constant(module, "of_state", other.contiguous(), step.layer),
    )


def _widths(step: Step, features: int, total: int) -> list[int]:
    return [features, total - features] if step.leads else [total - features, features]
