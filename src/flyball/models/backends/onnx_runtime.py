"""Runs the ONNX form of a model with ONNX Runtime on the CPU."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flyball.models.backends import onnx_form
from flyball.models.measure import Run
from flyball.models.program import Program, Tensors, quiet

FATAL_ONLY = 4
SCATTERS = ("ScatterND", "ScatterElements")


def full(program: Program, threads: int) -> Run:
    """Return the model with all graph optimisations of ONNX Runtime."""
    return _from_program(program, threads, "ORT_ENABLE_ALL")


def basic(program: Program, threads: int) -> Run:
    """Return the model with basic graph optimisations only, as ours have done the rest."""
    return _from_program(program, threads, "ORT_ENABLE_BASIC")


def int8(program: Program, threads: int) -> Run:
    """Return the model with weights in int8 and activations quantised as it runs."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="flyball-int8-") as folder:
        path, small = Path(folder) / "model.onnx", Path(folder) / "int8.onnx"
        onnx_form.write(program, path)
        # The quantiser infers shapes itself and stumbles over those that are there.
        model = onnx.load(str(path))
        del model.graph.value_info[:]
        onnx.save(model, str(path))
        with quiet():
            quantize_dynamic(path, small, weight_type=QuantType.QInt8)
        return runner(session(small, threads))


def one_thread(program: Program, threads: int) -> Run:
    """Return the model on one thread: for a small one, threads cost more than they compute."""
    del threads
    return _from_program(program, 1, "ORT_ENABLE_ALL")


def _from_program(program: Program, threads: int, level: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="flyball-onnx-") as folder:
        path = Path(folder) / "model.onnx"
        onnx_form.write(program, path)
        return runner(session(path, threads, level))


def session(path: Path, threads: int, level: str = "ORT_ENABLE_ALL") -> Any:
    """Return a session of ONNX Runtime.

    Its threads stop spinning when a run ends: otherwise they would slow down whatever runs next,
    other candidates as well as other jobs on the node.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1 if accumulates(path) else threads
    options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_ONLY
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=[]
    )


def accumulates(path: Path) -> bool:
    """Return whether a model adds several values into one place: sums over a graph's edges.

    Several threads of ONNX Runtime do that without exclusion, and lose some of the sums: in 62 of
    300 runs of the zoo's graph network outputs were wrong by up to 13 %. Such a model gets one
    thread.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return any(
        node.op_type in SCATTERS
        and any(entry.name == "reduction" and entry.s != b"none" for entry in node.attribute)
        for node in nodes
    )


def runner(opened: Any) -> Run:
    """Return a function that runs a session on tensors."""
    names = [entry.name for entry in opened.get_inputs()]

    def call(*inputs: Tensor) -> Tensors:
        arrays = {
            name: np.ascontiguousarray(tensor.detach().numpy())
            for name, tensor in zip(names, inputs, strict=True)
        }
        return tuple(torch.from_numpy(array) for array in map(_writable, opened.run(None, arrays)))

    return call


def _writable(array: Any) -> Any:
    return array if getattr(array, "ndim", 0) else np.asarray(array)
