"""Plans memory: operations in place where nothing else reads their input, and shared buffers.

Rule: an element-wise operation may overwrite its input if that is a fresh result of the same shape
and format which no other operation reads. Buffers whose lifetimes do not overlap share memory: a
greedy plan gives each tensor, largest first, the lowest offset that is free for its whole lifetime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from flyball.models.graph.edit import Node, arguments, aten, dtype, is_call, is_node, shape

RULE = "element-wise operations work in place; buffers share memory"
IN_PLACE: dict[Any, Any] = {
    aten.relu.default: aten.relu_.default,
    aten.silu.default: aten.silu_.default,
    aten.gelu.default: aten.gelu_.default,
    aten.sigmoid.default: aten.sigmoid_.default,
    aten.tanh.default: aten.tanh_.default,
    aten.hardswish.default: aten.hardswish_.default,
    aten.leaky_relu.default: aten.leaky_relu_.default,
    aten.hardtanh.default: aten.hardtanh_.default,
    aten.add.Tensor: aten.add_.Tensor,
    aten.mul.Tensor: aten.mul_.Tensor,
    aten.sub.Tensor: aten.sub_.Tensor,
    aten.div.Tensor: aten.div_.Tensor,
}
FRESH = frozenset(
    {
        *IN_PLACE,
        *IN_PLACE.values(),
        *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.linear.default),
        *(aten.matmul.default, aten.bmm.default, aten.layer_norm.default, aten.cat.default),
        *(aten.max_pool2d.default, aten.embedding.default, aten.mean.dim),
    }
)
"""Operations whose result is a new tensor that nothing else refers to."""
KERNELS = ("mkldnn::_convolution_pointwise", "mkldnn::_linear_pointwise")
ALIGNMENT = 64


def run(module: fx.GraphModule) -> int:
    """Let operations work in place; return how many."""
    changed = 0
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target not in IN_PLACE:
            continue
        if _can_overwrite(node, 0) or (_commutes(node) and _can_overwrite(node, 1, swap=True)):
            node.target = IN_PLACE[node.target]
            changed += 1
    return changed


def _commutes(node: Node) -> bool:
    if is_call(node, aten.mul.Tensor):
        return True
    return is_call(node, aten.add.Tensor) and arguments(node)["alpha"] == 1


def _can_overwrite(node: Node, at: int, swap: bool = False) -> bool:
    """Return whether a node may overwrite an input; with `swap`, move that to the front."""
    if at >= len(node.args):
        return False
    source = node.args[at]
    if not is_node(source) or source.op != "call_function" or len(source.users) != 1:
        return False
    if source.target not in FRESH and str(getattr(source.target, "_schema", "")).split("(")[
        0
    ] not in (
        *KERNELS,
        *(f"{name}.binary" for name in KERNELS),
    ):
        return False
    if sum(one is source for one in node.args) != 1 or shape(source) != shape(node):
        return False
    if dtype(source) != dtype(node):
        return False
    if swap:
        if not is_node(node.args[0]):
            return False
        node.args = (node.args[1], node.args[0], *node.args[2:])
    return True


# Buffers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Memory of a graph's intermediate results, modelled.

    Attributes:
        separate_bytes: if each result had a buffer of its own.
        peak_bytes: most that is alive at any time.
        planned_bytes: size of one arena that holds all at planned offsets.
    """

    separate_bytes: int
    peak_bytes: int
    planned_bytes: int


@dataclass
class _Buffer:
    size: int
    first: int
    last: int
    offset: int = 0


def plan(module: fx.GraphModule) -> Memory:
    """Return the memory that a graph's intermediate results need."""
    buffers = list(_buffers(module).values())
    steps = len(module.graph.nodes)
    alive = [0] * (steps + 1)
    for buffer in buffers:
        alive[buffer.first] += buffer.size
        alive[buffer.last + 1] -= buffer.size
    peak, current = 0, 0
    for change in alive:
        current += change
        peak = max(peak, current)
    return Memory(sum(buffer.size for buffer in buffers), peak, _arena(buffers))


def _buffers(module: fx.GraphModule) -> dict[Node, _Buffer]:
    """Return the buffer of every operation that makes one; views belong to their source's."""
    order = {node: at for at, node in enumerate(module.graph.nodes)}
    holder: dict[Node, Node] = {}
    buffers: dict[Node, _Buffer] = {}
    for node, at in order.items():
        if node.op != "call_function":
            continue
        source = next((one for one in node.all_input_nodes if one.op == "call_function"), None)
        if is_view(node):
            if source is not None and source in holder:
                holder[node] = holder[source]
        else:
            holder[node] = node
            buffers[node] = _Buffer(size_bytes(node.meta.get("val")), at, at)
        for used in node.all_input_nodes:
            if used in holder:
                buffers[holder[used]].last = max(buffers[holder[used]].last, at)
    for node in order:
        if node.op == "output":
            for used in node.all_input_nodes:
                if used in holder:
                    buffers[holder[used]].last = order[node]
    return buffers


def is_view(node: Node) -> bool:
    """Return whether an operation's result shares its input's memory."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return True  # getitem
    if node.target in (aten.reshape.default, aten._unsafe_view.default, aten.contiguous.default):
        return True
    return any(result.alias_info is not None for result in schema.returns)


def size_bytes(value: Any) -> int:
    """Return the size of a value: a tensor, or several."""
    if isinstance(value, Tensor):
        size = torch.Size(value.shape).numel() * value.element_size()
        return -(-size // ALIGNMENT) * ALIGNMENT
    if isinstance(value, (tuple, list)):
        return sum(size_bytes(one) for one in value)
    return 0


def _arena(buffers: list[_Buffer]) -> int:
    """Give each buffer an offset, largest first; return the size of the arena."""
    placed: list[_Buffer] = []
    top = 0
    for buffer in sorted(buffers, key=lambda one: (-one.size, one.first)):
        offset = 0
        for other in sorted(placed, key=lambda one: one.offset):
            if other.last < buffer.first or buffer.last < other.first:
                continue
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        buffer.offset = offset
        placed.append(buffer)
        top = max(top, offset + buffer.size)
    return top
