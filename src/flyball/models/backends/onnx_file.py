"""Runs an ONNX file as it is, by the name of a back end."""

from __future__ import annotations

from pathlib import Path

from flyball.models.measure import Run


def open_file(path: Path, backend: str, threads: int) -> Run:
    """Return a function that runs an ONNX file with one of the back ends that read ONNX."""
    if backend.startswith("openvino"):
        from flyball.models.backends import open_vino

        precision = "bf16" if backend.endswith("bf16") else "f32"
        return open_vino.runner(open_vino.compiled(path, threads, precision))
    from flyball.models.backends import onnx_runtime

    level = "ORT_ENABLE_BASIC" if backend.endswith("basic") else "ORT_ENABLE_ALL"
    threads = 1 if backend.endswith("one-thread") else threads
    return onnx_runtime.runner(onnx_runtime.session(path, threads, level))
