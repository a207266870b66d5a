"""Compiles the graph with torch's inductor; weights are frozen into the compiled code."""

from __future__ import annotations

from typing import Any

import torch

from flyball.models.measure import Run
from flyball.models.program import Program, Tensors


def frozen(program: Program, threads: int) -> Run:
    """Return the compiled graph; compiling takes seconds to minutes and needs a C++ compiler."""
    from torch._inductor import config

    torch.set_num_threads(threads)
    graph = program.copy().graph
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(freezing=True):
        compiled = torch.compile(graph, dynamic=False)
        compiled(*program.inputs)

    def call(*inputs: Any) -> Tensors:
        with torch.no_grad(), config.patch(freezing=True):
            outputs: Tensors = compiled(*inputs)
        return outputs

    return call
