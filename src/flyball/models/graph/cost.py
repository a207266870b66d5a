"""The cost model: operations, arithmetic and bytes moved of a graph; time and energy by roofline.

Operations and memory are counted. Time and energy are modelled: each operation takes the longer of
its arithmetic at the device's peak and its traffic at the device's bandwidth, and the device draws
its peak power while it computes and its idle power plus half of the rest while it waits for memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from flyball.models.graph import memory_plan
from flyball.models.graph.edit import Node, shape
from flyball.models.program import weight_bytes
from flyball.physics.catalogue import DeviceType
from flyball.physics.roofline import EFFICIENCY

KERNEL_OVERHEAD_S = 5e-6
"""Time to start one operation, on any device: of the order of a kernel launch."""
REDUCTIONS = ("aten::mean", "aten::sum", "aten::var", "aten::nll_loss", "aten::cross_entropy_loss")
"""Operations that work on every element of their input, for fewer results."""
MEMORY_BOUND_POWER = 0.5
"""Part of the range between idle and peak power that a device draws while it waits for memory."""


@dataclass(frozen=True)
class Cost:
    """What running a graph once takes.

    Attributes:
        operations: calls that compute something; views are not counted.
        flop: multiplications and additions.
        moved_bytes: read and written, if every operation reads its inputs from memory.
        weight_bytes: size of the constants.
        peak_bytes: most memory of intermediate results at any time, of the eager executor.
        planned_bytes: the same if buffers share one arena at planned offsets.
    """

    operations: int
    flop: int
    moved_bytes: int
    weight_bytes: int
    peak_bytes: int
    planned_bytes: int


def cost_of(module: fx.GraphModule) -> Cost:
    """Return what a graph costs."""
    nodes = [node for node in module.graph.nodes if is_work(node)]
    memory = memory_plan.plan(module)
    return Cost(
        operations=len(nodes),
        flop=sum(map(flop, nodes)),
        moved_bytes=sum(map(moved_bytes, nodes)),
        weight_bytes=weight_bytes(module),
        peak_bytes=memory.peak_bytes,
        planned_bytes=memory.planned_bytes,
    )


def is_work(node: Node) -> bool:
    """Return whether a node computes something."""
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    in_place = schema is not None and schema.is_mutable
    return in_place or not memory_plan.is_view(node)


def flop(node: Node) -> int:
    """Return the multiplications and additions of an operation; one per element if not listed."""
    elements = _elements(node.meta.get("val"))
    name = str(getattr(node.target, "_schema", node.target)).split("(")[0].split(".")[0]
    if name in ("aten::conv1d", "aten::conv2d", "aten::conv3d", "mkldnn::_convolution_pointwise"):
        weight = _weight_shape(node)
        return 2 * elements * torch.Size(weight[1:]).numel()
    if name in ("aten::linear", "mkldnn::_linear_pointwise"):
        return 2 * elements * shape(node.args[0])[-1]
    if name in ("aten::matmul", "aten::bmm", "aten::mm", "aten::addmm"):
        left = node.args[1] if name == "aten::addmm" else node.args[0]
        return 2 * elements * (shape(left)[-1:] or (1,))[0]
    if name == "aten::scaled_dot_product_attention":
        keys = shape(node.args[1])
        query = shape(node.args[0])
        batch = torch.Size(query[:-2]).numel()
        return 2 * batch * query[-2] * keys[-2] * (query[-1] + shape(node.args[2])[-1])
    if name == "aten::lstm":
        return _lstm_flop(node)
    if name in REDUCTIONS:
        return max(elements, _elements(node.args[0].meta.get("val")))
    return elements


def _weight_shape(node: Node) -> tuple[int, ...]:
    schema = str(getattr(node.target, "_schema", ""))
    weight = node.args[2] if ".binary" in schema.split("(")[0] else node.args[1]
    return tuple(node.meta.get("weight_shape", ())) or shape(weight)


def _lstm_flop(node: Node) -> int:
    sequence = shape(node.args[0])
    steps = torch.Size(sequence[:-1]).numel()
    weights: Any = node.args[2]
    return sum(
        2 * steps * torch.Size(shape(one)).numel() for one in weights if len(shape(one)) == 2
    )


def moved_bytes(node: Node) -> int:
    """Return the bytes of an operation's inputs and outputs."""
    inputs = sum(_bytes(source.meta.get("val")) for source in node.all_input_nodes)
    return inputs + _bytes(node.meta.get("val"))


def _elements(value: Any) -> int:
    if isinstance(value, Tensor):
        return torch.Size(value.shape).numel()
    return _elements(value[0]) if isinstance(value, (tuple, list)) and value else 0


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return torch.Size(value.shape).numel() * value.element_size()
    if isinstance(value, (tuple, list)):
        return sum(_bytes(one) for one in value)
    return 0


# Time and energy, modelled ------------------------------------------------------------


@dataclass(frozen=True)
class Modelled:
    """Modelled time and energy of one run on one device."""

    device: str
    time_s: float
    energy_j: float


def work_of(module: fx.GraphModule) -> list[tuple[int, int]]:
    """Return arithmetic and bytes moved of every operation of a graph."""
    return [(flop(node), moved_bytes(node)) for node in module.graph.nodes if is_work(node)]


def modelled(work: list[tuple[int, int]], device: DeviceType) -> Modelled | None:
    """Return the roofline time and the energy of a graph on a device; None if it has no format.

    The number format is float32; a device with tensor cores for tf32 uses those.
    """
    peak_tflops = device.peak_tflops.get("tf32", device.peak_tflops.get("fp32", 0.0))
    if not peak_tflops:
        return None
    peak = peak_tflops * 1e12 * EFFICIENCY
    bandwidth = device.bandwidth_gb_s * 1e9
    time_s = energy_j = 0.0
    for operations, traffic_bytes in work:
        compute_s, memory_s = operations / peak, traffic_bytes / bandwidth
        step_s = max(compute_s, memory_s)
        share = 1.0 if compute_s >= memory_s else MEMORY_BOUND_POWER
        power_w = device.idle_w + share * (device.peak_w - device.idle_w)
        time_s += step_s + KERNEL_OVERHEAD_S
        energy_j += step_s * power_w + KERNEL_OVERHEAD_S * device.idle_w
    return Modelled(device.name, time_s, energy_j)
