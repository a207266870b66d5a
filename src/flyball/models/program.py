"""A model as a graph: flat tensors in, a tuple of tensors out, no side effects.

`torch.export` traces the module, functionalisation removes in-place operations, and the graph's
inputs and outputs are flattened. Weights stay shared with the user's module: nothing is copied.
"""

from __future__ import annotations

import hashlib
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from flyball.core.errors import BadInput

Tensors = tuple[Tensor, ...]
VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
FIXED_SHAPE = "the model is optimised for the shape of its example; optimise again for another"


@dataclass(frozen=True)
class Program:
    """An exported model.

    Attributes:
        name: for people.
        graph: takes the flat inputs, returns the tuple of flat outputs; its constants are buffers.
        inputs: example inputs, flat.
        in_spec: structure of (args, kwargs) that the user calls the model with.
        out_spec: structure of what the model returns.
    """

    name: str
    graph: fx.GraphModule
    inputs: Tensors
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec

    def with_graph(self, graph: fx.GraphModule) -> Program:
        """Return the same model with another graph."""
        return replace(self, graph=graph)

    def copy(self) -> Program:
        """Return a copy whose graph can be changed; its constants are shared."""
        return self.with_graph(copy_graph(self.graph))


class NotExportable(BadInput):
    """A model that `torch.export` cannot trace; the eager module still runs."""


def export(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, name: str = ""
) -> Program:
    """Trace a module with example inputs and return its graph.

    Raises:
        BadInput: the example does not fit the module.
        NotExportable: the module's control flow depends on data, or it changes its own buffers.
    """
    kwargs = kwargs or {}
    flat, in_spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for at, value in enumerate(flat):
        if not isinstance(value, Tensor):
            raise BadInput(
                f"example input {at + 1} is {type(value).__name__}, not a tensor",
                "fix such arguments in the module and pass tensors only",
            )
    with torch.no_grad(), quiet():
        try:
            out_spec = pytree.tree_structure(module(*args, **kwargs))
        except Exception as error:
            raise BadInput(
                f"the model fails on its example inputs {_shapes(flat)}: {_first_line(error)}",
                "check their number, shape and dtype",
            ) from error
        try:
            exported = torch.export.export(module, tuple(args), dict(kwargs), strict=False)
            return from_exported(exported, tuple(flat), in_spec, out_spec, name)
        except NotExportable:
            raise
        except Exception as error:
            raise not_exportable(error) from error


def from_exported(
    exported: torch.export.ExportedProgram,
    flat: Tensors,
    in_spec: pytree.TreeSpec,
    out_spec: pytree.TreeSpec,
    name: str,
) -> Program:
    """Return the program of an exported one, functional and flat.

    Raises:
        NotExportable: the model changes its own buffers.
    """
    changed = exported.graph_signature.buffers_to_mutate
    if not changed:
        with quiet():
            exported = exported.run_decompositions({})
        changed = exported.graph_signature.buffers_to_mutate
    if changed:
        names = ", ".join(sorted(changed.values())[:3])
        raise NotExportable(
            f"the model changes its own buffers when it runs ({names})",
            "pass that state in and return it, or keep the model as it is",
        )
    with quiet():
        graph = _flat_graph(exported.module(check_guards=False))
    if len([node for node in graph.graph.nodes if node.op == "placeholder"]) != len(flat):
        raise NotExportable("the exported model takes other inputs than its example has")
    propagate(graph, flat)
    return Program(name or "model", graph, flat, in_spec, out_spec)


def not_exportable(error: Exception) -> NotExportable:
    """Return the error of a model that cannot be traced, with the place in the user's code."""
    text = str(error)
    place = ""
    for line in text.splitlines():
        where = line.strip()
        if where.startswith("File ") and "/torch/" not in where and "site-packages" not in where:
            place = " at " + where.removeprefix("File ").split(", in ")[0].replace('"', "")
    depends = any(word in text for word in ("data-dependent", "GuardOnDataDependent", "Eq(u"))
    reason = "its control flow depends on data" if depends else _first_line(error)
    remedy = "replace `if` and `.item()` on tensors by torch.where or torch.cond"
    other = "see torch.export's documentation; back ends that need a graph are left out"
    return NotExportable(
        f"the model cannot be exported: {reason}{place}", remedy if depends else other
    )


def copy_graph(module: fx.GraphModule) -> fx.GraphModule:
    """Return a copy of a graph that shares its constants."""
    graph = fx.Graph()
    output = graph.graph_copy(module.graph, {})
    graph.output(output)
    return fx.GraphModule(module, graph)


def propagate(module: fx.GraphModule, flat: Tensors) -> None:
    """Set `meta["val"]` of every node to a tensor without data that has its shape and type."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    with torch.no_grad():
        FakeTensorProp(module, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*flat)


def weight_bytes(module: fx.GraphModule) -> int:
    """Return the size of a graph's constants."""
    tensors = {id(tensor): tensor for _name, tensor in module.named_buffers()}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def digest(program: Program) -> str:
    """Return a hash of a model: its operations, shapes and weights."""
    hasher = hashlib.blake2b(digest_size=16)
    for node in program.graph.graph.nodes:
        shape = getattr(node.meta.get("val"), "shape", "")
        hasher.update(f"{node.op} {node.target} {node.args} {node.kwargs} {shape}".encode())
    for name, tensor in sorted(program.graph.named_buffers()):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        hasher.update(data.numpy().data)
    for tensor in program.inputs:
        hasher.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    return hasher.hexdigest()


def _flat_graph(traced: Any) -> fx.GraphModule:
    """Return the graph with plain inputs and outputs, and weights as buffers of one module."""
    graph = fx.Graph()
    mapped: dict[fx.Node, fx.Node] = {}
    constants: dict[str, Tensor] = {}
    for node in traced.graph.nodes:
        if node.op == "call_module" and str(node.target).startswith("_guards"):
            continue
        if node.op == "get_attr":
            value = _attribute(traced, str(node.target))
            if not isinstance(value, Tensor):
                raise NotExportable(
                    f"the graph holds {type(value).__name__} {node.target}, not a tensor",
                    "torch.cond and custom objects are not optimised",
                )
            name = "w_" + str(node.target).replace(".", "_")
            constants[name] = value.detach()
            mapped[node] = graph.get_attr(name)
        elif node.op == "output":
            leaves = pytree.tree_leaves(node.args[0])
            graph.output(
                tuple(mapped[leaf] if isinstance(leaf, fx.Node) else leaf for leaf in leaves)
            )
        else:
            mapped[node] = graph.node_copy(node, lambda old: mapped[old])
            if node.target in VIEWS:
                # A reshape takes any order in memory, which passes and layouts may change.
                mapped[node].target = torch.ops.aten.reshape.default
    return _graph_module(constants, graph)


def _graph_module(constants: dict[str, Tensor], graph: fx.Graph) -> fx.GraphModule:
    root = nn.Module()
    for name, value in constants.items():
        root.register_buffer(name, value)
    return fx.GraphModule(root, graph)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[0].strip() if lines else type(error).__name__)[:200].rstrip(".")


def _shapes(flat: list[Any]) -> str:
    return " ".join("x".join(map(str, value.shape)) or "scalar" for value in flat)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the tracer, which prints graphs and warns of its own internals."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
