"""Adds two split tensors before they are split, not part by part: the gates of a recurrent cell.

Rule: if part i of A is added to part i of B for every i, and nothing else reads those parts, the
sums are the parts of A + B.
"""

from __future__ import annotations

import operator

from torch import fx

from flyball.models.graph.edit import Node, aten, calls, insert, is_call, only_user, replace, shape

RULE = "sums of the parts of two split tensors become the parts of their sum"
SPLIT = aten.split_with_sizes.default


def run(module: fx.GraphModule) -> int:
    """Merge sums; return the number of sums removed."""
    return sum(_merge(split) for split in calls(module, SPLIT))


def _merge(split: Node) -> int:
    """Merge the sums of a split's parts with those of another one."""
    sums = _sums(split)
    partners = {_other(total, split) for total in sums.values()}
    other = next(iter(partners)) if len(partners) == 1 else None
    if other is None or other is split or len(sums) != len(split.args[1]):
        return 0
    same_order = all(_sums(other).get(at) is total for at, total in sums.items())
    if not same_order or not _alike(split, other):
        return 0
    # The first sum stands after both splits, so the merged one may stand there.
    first = min(sums.values(), key=list(split.graph.nodes).index)
    whole = insert(first, aten.add.Tensor, split.args[0], other.args[0])
    parts = insert(first, SPLIT, whole, *split.args[1:])
    results = {at: insert(first, operator.getitem, parts, at) for at in sums}
    for at, total in sums.items():
        replace(total, results[at])
    return len(sums) - 1


def _sums(split: Node) -> dict[int, Node]:
    """Return the sum that reads each part, if it is the part's only user."""
    sums = {}
    for part in split.users:
        total: Node = only_user(part) if is_call(part, operator.getitem) else None
        if is_call(total, aten.add.Tensor) and not total.kwargs and len(total.args) == 2:
            sums[int(part.args[1])] = total
    return sums


def _other(total: Node, split: Node) -> Node | None:
    """Return the split whose part a sum adds to the part of this one."""
    sources = [
        part.args[0] if is_call(part, operator.getitem) and is_call(part.args[0], SPLIT) else None
        for part in total.args
    ]
    rest = [source for source in sources if source is not split]
    return rest[0] if len(rest) == 1 else None


def _alike(left: Node, right: Node) -> bool:
    same_parts = list(left.args[1]) == list(right.args[1])
    axes = {
        (node.args[2] if len(node.args) > 2 else 0) % len(shape(node.args[0]))
        for node in (left, right)
    }
    return same_parts and len(axes) == 1 and shape(left.args[0]) == shape(right.args[0])
