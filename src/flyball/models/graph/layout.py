"""Stores convolution weights channels-last, so that images flow channels-last from layer to layer.

Rule: the order of values in memory changes, no value does. A convolution with channels-last weights
returns channels-last images, and element-wise operations keep the order of their input. Whether it
pays depends on the machine: the back ends that use it are measured.
"""

from __future__ import annotations

import torch
from torch import fx

from flyball.models.graph.edit import add_constant, aten, calls, constant

RULE = "convolutions work channels-last"


def run(module: fx.GraphModule) -> int:
    """Store the weights of 2-D convolutions channels-last; return how many."""
    changed = 0
    for node in calls(module, aten.conv2d.default):
        weight = constant(module, node.args[1])
        if weight is None or weight.is_contiguous(memory_format=torch.channels_last):
            continue
        stored = weight.contiguous(memory_format=torch.channels_last)
        if not stored.is_contiguous(memory_format=torch.channels_last):
            continue
        node.update_arg(1, add_constant(module, "nhwc", stored, node))
        changed += 1
    return changed
