"""Shows what ONNX Runtime makes of an ONNX file: its operations and its graph after each level."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.models import pictures
from flyball.models.backends.onnx_runtime import FATAL_ONLY

LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
"""Levels of rewriting, each with what the ones before it do."""


Draw = Callable[[str, Sequence[pictures.Operation]], None]


@dataclass(frozen=True)
class OnnxStage:
    """The graph of an ONNX file at one stage.

    Attributes:
        name: `as given`, or the level.
        operations: number of them.
    """

    name: str
    operations: int


def texts_of(stages: Sequence[OnnxStage]) -> str:
    """Return `as given 57, basic 41, extended 30, all 30`."""
    return ", ".join(f"{stage.name} {stage.operations}" for stage in stages)


def stages_of(path: Path, given: Any, draw: Draw) -> list[OnnxStage]:
    """Rewrite a file at each level of ONNX Runtime and return what is left of it.

    Args:
        path: of the ONNX file.
        given: its parsed model.
        draw: receives the name and the operations of each stage that differs from the one before.
    """
    stages: list[OnnxStage] = []
    before: list[pictures.Operation] = []
    for name in ("as given", *LEVELS):
        model = given if name == "as given" else _rewritten(path, LEVELS[name])
        operations = pictures.operations_of_onnx(model)
        stages.append(OnnxStage(name, len(operations)))
        if operations != before:
            draw(name.replace(" ", "-"), operations)
        before = operations
    return stages


def _rewritten(path: Path, level: str) -> Any:
    """Return the model that ONNX Runtime would run at a level."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory(prefix="flyball-onnx-") as folder:
        target = Path(folder) / "rewritten.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        options.intra_op_num_threads = 1
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(target)
        # Weights stay out of the way: only the graph is read back.
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", "weights"
        )
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
        )
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return onnx.load(str(target), load_external_data=False)
