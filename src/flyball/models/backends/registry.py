"""The table of back ends: name, where it is, what it needs, how it is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from flyball.core.errors import UnknownName

if TYPE_CHECKING:
    from flyball.models.measure import Run
    from flyball.models.program import Program


@dataclass(frozen=True)
class Backend:
    """A way to run a model.

    Attributes:
        name: as reports show it.
        source: `module:function` below this package; the function takes a program and the number
            of threads, and returns what runs it.
        modules: Python modules that it needs.
        reads: `graph`, or `onnx` for those that run the graph's ONNX form.
        exact: whether it computes in the model's own number format.
    """

    name: str
    source: str
    modules: tuple[str, ...] = ()
    reads: str = "graph"
    exact: bool = True

    def build(self, program: Program, threads: int) -> Run:
        """Return a function that runs the program."""
        path, _, name = self.source.partition(":")
        function: Callable[[Program, int], Run]
        function = getattr(import_module(f"flyball.models.backends.{path}"), name)
        return function(program, threads)


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("passes", "graph:plain"),
        Backend("channels-last", "graph:channels_last"),
        Backend("fused", "graph:fused"),
        Backend("onnxruntime", "onnx_runtime:full", ("onnx", "onnxscript", "onnxruntime"), "onnx"),
        Backend(
            "onnxruntime-basic",
            "onnx_runtime:basic",
            ("onnx", "onnxscript", "onnxruntime"),
            "onnx",
        ),
        Backend(
            "onnxruntime-one-thread",
            "onnx_runtime:one_thread",
            ("onnx", "onnxscript", "onnxruntime"),
            "onnx",
        ),
        Backend("openvino", "open_vino:f32", ("onnx", "onnxscript", "openvino"), "onnx"),
        Backend("inductor", "inductor:frozen"),
        Backend("bf16", "graph:bf16", exact=False),
        Backend("openvino-bf16", "open_vino:bf16", ("onnx", "openvino"), "onnx", exact=False),
        Backend("int8", "onnx_runtime:int8", ("onnx", "onnxruntime"), "onnx", exact=False),
    )
}
"""Every back end, in the order in which they are built: the quick ones first."""
EXACT = tuple(name for name, backend in BACKENDS.items() if backend.exact)
REDUCED = tuple(name for name, backend in BACKENDS.items() if not backend.exact)


def get(name: str) -> Backend:
    """Return the back end of this name.

    Raises:
        UnknownName: there is none.
    """
    if name not in BACKENDS:
        raise UnknownName("back end", name, BACKENDS)
    return BACKENDS[name]
