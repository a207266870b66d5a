"""Runs the rewritten graph with torch's eager kernels: plain, channels-last, or fused kernels."""

from __future__ import annotations

from typing import Any

import torch

from flyball.models.graph import fuse_activation, layout, memory_plan
from flyball.models.measure import Run
from flyball.models.program import Program, Tensors


def plain(program: Program, threads: int) -> Run:
    """Return the graph after the passes, with in-place operations where they are safe."""
    del threads
    graph = program.copy().graph
    memory_plan.run(graph)
    graph.recompile()
    return _without_grad(graph)


def channels_last(program: Program, threads: int) -> Run:
    """Return the graph with images and convolution weights stored channels-last."""
    del threads
    graph = program.copy().graph
    layout.run(graph)
    memory_plan.run(graph)
    graph.recompile()
    return _without_grad(graph)


def fused(program: Program, threads: int) -> Run:
    """Return the graph with oneDNN's fused kernels and prepacked weights."""
    del threads
    graph = program.copy().graph
    layout.run(graph)
    fuse_activation.run(graph, pack=True)
    memory_plan.run(graph)
    graph.recompile()
    return _without_grad(graph)


def bf16(program: Program, threads: int) -> Run:
    """Return the fused graph under autocast to bfloat16; outputs in the model's own format."""
    run = channels_last(program, threads)

    def call(*inputs: Any) -> Tensors:
        with torch.autocast("cpu", torch.bfloat16):
            outputs = run(*inputs)
        return tuple(
            tensor.float() if tensor.dtype == torch.bfloat16 else tensor for tensor in outputs
        )

    return call


def _without_grad(graph: Any) -> Run:
    def call(*inputs: Any) -> Tensors:
        with torch.no_grad():
            outputs: Tensors = graph(*inputs)
        return outputs

    return call
