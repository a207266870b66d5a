"""Computes equal subexpressions once.

Rule: two calls of the same operation with the same arguments have the same result, if the operation
draws no random numbers and changes nothing.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from flyball.models.graph.edit import Node, is_node, is_pure, replace

RULE = "equal subexpressions are computed once"


def run(module: fx.GraphModule) -> int:
    """Merge equal calls and constants; return the number of operations removed."""
    removed = 0
    first: dict[Any, Node] = {}
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            key: Any = ("get_attr", id(getattr(module, str(node.target))))
        elif is_pure(node):
            key = (node.target, _key(node.args), _key(node.kwargs))
        else:
            continue
        earlier = first.setdefault(key, node)
        if earlier is not node:
            removed += node.op == "call_function"
            replace(node, earlier)
    return removed


def _key(value: Any) -> Any:
    """Return a hashable form of arguments; numbers of different types stay different."""
    if is_node(value):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_key(entry) for entry in value)
    if isinstance(value, dict):
        return tuple((name, _key(entry)) for name, entry in sorted(value.items()))
    return (type(value).__name__, repr(value))
