"""The ONNX form of a program: written once, read by ONNX Runtime and OpenVINO."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import torch

from flyball.core.errors import BadInput
from flyball.models.program import Program, copy_graph, quiet

PROTOBUF_LIMIT = 2**31 - 2**20
"""A protobuf message cannot be larger; bigger models keep their weights in a file beside."""
_forms: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def onnx_program(program: Program) -> Any:
    """Return torch's ONNX program of a graph; the same object for the same graph.

    Raises:
        BadInput: an operation has no ONNX form.
    """
    form = _forms.get(program.graph)
    if form is None:
        try:
            with torch.no_grad(), quiet():
                exported = torch.export.export(copy_graph(program.graph), program.inputs)
                form = torch.onnx.export(exported, dynamo=True, verbose=False, optimize=True)
        except Exception as error:
            raise BadInput(
                f"the graph has no ONNX form: {_reason(error)}",
                "back ends that read ONNX are left out",
            ) from error
        _forms[program.graph] = form
    return form


def write(program: Program, path: Path) -> None:
    """Write the ONNX form; large weights go to a file beside it."""
    form = onnx_program(program)
    size = sum(buffer.numel() * buffer.element_size() for buffer in program.graph.buffers())
    form.save(str(path), external_data=size > PROTOBUF_LIMIT // 2)


def _reason(error: Exception) -> str:
    """Return the deepest reason: torch wraps what an operation said in advice to its developers."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
