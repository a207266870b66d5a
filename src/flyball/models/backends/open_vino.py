"""Runs the ONNX form of a model with OpenVINO on the CPU."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flyball.models.backends import onnx_form
from flyball.models.measure import Run
from flyball.models.program import Program, Tensors


def f32(program: Program, threads: int) -> Run:
    """Return the model computed in float32."""
    return _compiled(program, threads, "f32")


def bf16(program: Program, threads: int) -> Run:
    """Return the model computed in bfloat16 where the processor can."""
    return _compiled(program, threads, "bf16")


def _compiled(program: Program, threads: int, precision: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="flyball-openvino-") as folder:
        path = Path(folder) / "model.onnx"
        onnx_form.write(program, path)
        return runner(compiled(path, threads, precision))


def compiled(path: Path, threads: int, precision: str = "f32") -> Any:
    """Return a compiled model of OpenVINO, tuned for the latency of one request."""
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    # Read into memory: the file may be removed as soon as the model is compiled.
    settings["ENABLE_MMAP"] = False
    return core.compile_model(str(path), "CPU", settings)


def runner(model: Any) -> Run:
    """Return a function that runs a compiled model on tensors."""
    request = model.create_infer_request()
    outputs = list(model.outputs)

    def call(*inputs: Tensor) -> Tensors:
        arrays = [tensor.detach().contiguous().numpy() for tensor in inputs]
        results = request.infer(arrays, share_inputs=True)
        return tuple(torch.from_numpy(results[output].copy()) for output in outputs)

    return call
