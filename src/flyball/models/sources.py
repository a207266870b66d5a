"""Finds the model that a user names: a callable of a module, a .pt2 file, or an ONNX file."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flyball.core.errors import BadInput, UnknownName
from flyball.models.outside import read_exported

ZOO = "zoo"


@dataclass(frozen=True)
class Source:
    """A model with its example inputs.

    Attributes:
        name: for reports.
        module: runs it.
        example: a tuple of tensors, or a dict of keyword arguments.
    """

    name: str
    module: nn.Module
    example: Any


def read(model: str) -> Source:
    """Return the model of a `package.module:callable`, `zoo:NAME` or .pt2 file.

    Raises:
        BadInput: there is none, or it has no example inputs.
    """
    if model.endswith(".pt2"):
        return _from_file(Path(model))
    place, colon, name = model.partition(":")
    if not colon or not name:
        raise BadInput(
            f"{model!r} names no model",
            "use package.module:callable, zoo:NAME, or a .pt2 or .onnx file",
        )
    if place == ZOO:
        return _from_zoo(name)
    return _from_callable(place, name)


def _from_file(path: Path) -> Source:
    exported = read_exported(path)
    if exported.example_inputs is None:
        raise BadInput(
            f"{path} has no example inputs", "export it with torch.export.export(module, inputs)"
        )
    args, kwargs = exported.example_inputs
    module = exported.module(check_guards=False)
    # An exported module has the mode that it was traced in, and its `eval` raises.
    module.eval = lambda: module  # type: ignore[method-assign]
    if args and kwargs:
        raise BadInput(f"{path} mixes positional and keyword inputs", "export it with one of them")
    return Source(path.stem, module, kwargs if kwargs else args)


def _from_zoo(name: str) -> Source:
    from flyball.models.zoo.registry import ZOO as MODELS
    from flyball.models.zoo.registry import build

    if name not in MODELS:
        raise UnknownName("model of the zoo", name, MODELS)
    module, example = build(name)
    return Source(name, module, example)


def _from_callable(place: str, name: str) -> Source:
    """Call a user's function; its package is found from the current folder too."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        made_by = getattr(importlib.import_module(place), name)
    except ImportError as error:
        raise BadInput(f"cannot import {place}: {error}", "run it from the folder above") from error
    except AttributeError:
        raise BadInput(f"{place} has no {name}", "name a function or a class of it") from None
    finally:
        sys.path.remove(here)
    torch.manual_seed(0)
    answer = made_by() if callable(made_by) else made_by
    if isinstance(answer, nn.Module):
        module, example = answer, getattr(answer, "example_inputs", None)
        example = example() if callable(example) else example
    elif isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], nn.Module):
        module, example = answer
    else:
        raise BadInput(
            f"{place}:{name} returns {type(answer).__name__}",
            "return the module and its example inputs: (module, (tensor, ...))",
        )
    if example is None:
        raise BadInput(f"{place}:{name} gives no example inputs", "return (module, (tensor, ...))")
    return Source(name, module, example)
