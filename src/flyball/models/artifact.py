"""Writes an optimised model to a folder, and loads it again.

The folder has the graph after the passes (`model.pt2`), or its ONNX form for back ends that read
that, a manifest, and `load.py`, which a program can import or copy. Nothing in it is pickled code:
loading goes through the same checks as any file from outside.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from flyball.core.errors import BadInput
from flyball.models.backends import onnx_form
from flyball.models.backends.registry import get
from flyball.models.program import Program, copy_graph, from_exported, quiet
from flyball.models.result import EAGER, Result

MANIFEST = "manifest.json"
GRAPH = "model.pt2"
ONNX = "model.onnx"
LOADER = "load.py"
LOADER_TEXT = '''"""Loads the optimised model of this folder: `from load import model`."""

from pathlib import Path

from flyball.models import load

model = load(Path(__file__).parent)
'''


def write(result: Result, folder: Path) -> list[str]:
    """Write the chosen model; return the names of the files. None if it is left as it is."""
    if result.choice == EAGER or result.program is None:
        return []
    backend = get(result.choice)
    names = [MANIFEST, LOADER]
    if backend.reads == "onnx":
        onnx_form.write(result.program, folder / ONNX)
        names += sorted(path.name for path in folder.glob(f"{ONNX}*"))
    # The graph is written too: it carries the structure of inputs and outputs, and runs anywhere.
    with torch.no_grad(), quiet():
        program = result.program
        wrapped = Structured(program)
        args, kwargs = pytree.tree_unflatten(list(program.inputs), program.in_spec)
        exported = torch.export.export(wrapped, args, kwargs)
        torch.export.save(exported, folder / GRAPH)
    names.append(GRAPH)
    manifest = {"backend": backend.name, "threads": result.threads, "model": result.name}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    (folder / LOADER).write_text(LOADER_TEXT, "utf-8")
    return names


class Structured(torch.nn.Module):
    """A program as a module that takes and returns what the user's module does."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.flat = copy_graph(program.graph)
        self.out_spec = program.out_spec

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on the flattened arguments."""
        outputs = self.flat(*pytree.tree_leaves((args, kwargs)))
        return pytree.tree_unflatten(list(outputs), self.out_spec)


def load(folder: Path | str) -> Callable[..., Any]:
    """Return the optimised model of a folder as a function with the module's signature.

    Raises:
        BadInput: the folder holds none, or a file in it is damaged.
        DataAbsent: its back end is not installed.
    """
    from flyball.models.extras import require
    from flyball.models.outside import read_exported
    from flyball.models.search import bound

    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        backend, threads = get(str(manifest["backend"])), int(manifest["threads"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{folder}: no optimised model ({error})", "name a folder that `flyball optimize` wrote"
        ) from None
    require(*backend.modules)
    exported = read_exported(folder / GRAPH)
    example, spec = pytree.tree_flatten(exported.example_inputs)
    out_spec = exported.call_spec.out_spec
    program = from_exported(
        exported, tuple(example), spec, out_spec, str(manifest.get("model", ""))
    )
    if backend.reads == "onnx" and (folder / ONNX).is_file():
        from flyball.models.backends.onnx_file import open_file

        run = open_file(folder / ONNX, backend.name, threads)
    else:
        run = backend.build(program, threads)
    return bound(program, run, spec)
