"""Reads and changes the nodes of a graph; shared by the passes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten
Node = Any
"""A node of a graph. torch types its arguments as a union of fifteen kinds, which each pass would
have to tell apart in vain: what an operation's schema allows is checked where it matters."""


def is_node(value: Any) -> bool:
    """Return whether a value is a node, not a plain argument."""
    return isinstance(value, fx.Node)


def calls(module: fx.GraphModule, *targets: Any) -> list[Node]:
    """Return the nodes that call one of the operations, in the order of the graph."""
    return [node for node in module.graph.nodes if is_call(node, *targets)]


def is_call(node: Any, *targets: Any) -> bool:
    """Return whether a value is a node that calls one of the operations."""
    return is_node(node) and node.op == "call_function" and node.target in targets


def arguments(node: Node) -> dict[str, Any]:
    """Return all arguments of an operation by name, with their defaults."""
    schema = node.target._schema
    values: dict[str, Any] = {}
    for at, argument in enumerate(schema.arguments):
        if at < len(node.args):
            values[argument.name] = node.args[at]
        elif argument.name in node.kwargs:
            values[argument.name] = node.kwargs[argument.name]
        else:
            values[argument.name] = argument.default_value
    return values


def constant(module: fx.GraphModule, node: Any) -> Tensor | None:
    """Return the tensor of a constant node; None for any other value."""
    if not is_node(node) or node.op != "get_attr":
        return None
    value = getattr(module, str(node.target))
    return value if isinstance(value, Tensor) else None


def add_constant(
    module: fx.GraphModule, name: str, value: Tensor, before: Node, like: Node | None = None
) -> Node:
    """Store a tensor as a buffer and return its node, which precedes `before`."""
    label, number = name, 0
    while hasattr(module, label):
        number += 1
        label = f"{name}_{number}"
    module.register_buffer(label, value.detach())
    with module.graph.inserting_before(before):
        node = module.graph.get_attr(label)
    node.meta["val"] = _like(value, like if like is not None else before)
    return node


def _like(value: Tensor, node: Node) -> Any:
    """Return a tensor without data for a constant, in the mode of a neighbouring node."""
    neighbour = node.meta.get("val")
    if isinstance(neighbour, (tuple, list)) and neighbour:
        neighbour = neighbour[0]
    mode = getattr(neighbour, "fake_mode", None)
    return mode.from_tensor(value) if mode is not None else value


def insert(before: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """Insert a call before a node and return it, with the shape that it computes."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, args, kwargs)
    values = fx.node.map_arg((args, kwargs), lambda other: other.meta.get("val"))
    with torch.no_grad():
        node.meta["val"] = target(*values[0], **values[1])
    return node


def replace(node: Node, replacement: Node) -> None:
    """Let all users of a node use another one, and remove the node."""
    node.replace_all_uses_with(replacement)
    node.graph.erase_node(node)


def shape(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's tensor; () if it has none."""
    value = node.meta.get("val") if is_node(node) else None
    return tuple(int(size) for size in value.shape) if isinstance(value, Tensor) else ()


def dtype(node: Any) -> torch.dtype | None:
    """Return the number format of a node's tensor."""
    value = node.meta.get("val") if is_node(node) else None
    return value.dtype if isinstance(value, Tensor) else None


def only_user(node: Node) -> Node | None:
    """Return the node's user if there is exactly one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def is_random(node: Node) -> bool:
    """Return whether an operation draws random numbers."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def is_pure(node: Node) -> bool:
    """Return whether a call has the same result each time and changes nothing."""
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return getattr(node.target, "__module__", "") == "_operator"
    return not schema.is_mutable and not is_random(node)


def scalar(value: Any) -> bool:
    """Return whether an argument is a plain number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
