"""Removes what no output depends on, and the weights that only that used.

Rule: a call without users that changes nothing can be left out. Inputs stay, as callers pass them.
"""

from __future__ import annotations

from torch import fx

RULE = "operations and weights that no output needs are removed"


def run(module: fx.GraphModule) -> int:
    """Remove unused operations; return how many."""
    removed = 0
    for node in reversed(list(module.graph.nodes)):
        if node.users or node.op in ("placeholder", "output"):
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            continue
        removed += node.op == "call_function"
        module.graph.erase_node(node)
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in module.named_buffers(recurse=False)]:
        if name not in used:
            delattr(module, name)
    return removed
