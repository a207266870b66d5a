"""Recomputes activations in the backward pass, as many as a memory budget asks for.

The blocks of a model (entries of its outermost lists and sequences) are the units. What a unit
keeps for the backward pass is measured once; units are then recomputed, those that keep most
first, until what is kept fits the budget. Gradients stay the same: the same operations run on the
same values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from flyball.models.training.step import Step


@dataclass(frozen=True)
class Unit:
    """A block and what it keeps for the backward pass."""

    name: str
    kept_bytes: int


def units_of(module: nn.Module) -> dict[str, nn.Module]:
    """Return the blocks of a model: entries with parameters of its outermost containers."""
    units: dict[str, nn.Module] = {}

    def visit(prefix: str, layer: nn.Module) -> None:
        for name, child in layer.named_children():
            path = f"{prefix}.{name}" if prefix else name
            is_list = isinstance(layer, (nn.Sequential, nn.ModuleList))
            has_inside = any(True for _ in child.children())
            if is_list and has_inside and any(True for _ in child.parameters()):
                units[path] = child
            else:
                visit(path, child)

    visit("", module)
    return units


def kept_by_unit(step: Step, batch: tuple[Tensor, ...]) -> list[Unit]:
    """Measure what each unit keeps for the backward pass, in one forward pass."""
    units = units_of(step.module)
    kept = dict.fromkeys(units, 0)
    weights = {parameter.untyped_storage().data_ptr() for parameter in step.module.parameters()}
    seen: set[int] = set()
    open_units: list[str] = []

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if open_units and place not in weights and place not in seen:
            seen.add(place)
            kept[open_units[-1]] += tensor.untyped_storage().nbytes()
        return tensor

    handles = []
    for name, unit in units.items():

        def enter(_unit: nn.Module, _args: Any, name: str = name) -> None:
            open_units.append(name)

        def leave(_unit: nn.Module, _args: Any, _out: Any) -> None:
            open_units.pop()

        handles += [
            unit.register_forward_pre_hook(enter),
            unit.register_forward_hook(leave),
        ]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            value = step.loss(step.module, *batch)
        del value
    finally:
        for handle in handles:
            handle.remove()
    return [Unit(name, size) for name, size in kept.items()]


def choose_units(units: list[Unit], budget_bytes: int) -> list[str]:
    """Return the units to recompute, those that keep most first, until the rest fits the budget.

    A recomputed unit needs its memory once more, one at a time, in the backward pass.
    """
    chosen: list[str] = []
    ordered = sorted(units, key=lambda unit: (-unit.kept_bytes, unit.name))
    for unit in ordered:
        left = sum(one.kept_bytes for one in units if one.name not in chosen)
        again = max((one.kept_bytes for one in units if one.name in chosen), default=0)
        if left + again <= budget_bytes or not unit.kept_bytes:
            break
        chosen.append(unit.name)
    return chosen


def with_inner_units(
    module: nn.Module, chosen: list[str], units: list[Unit], budget_bytes: int
) -> list[str]:
    """Add the blocks inside chosen units, if the largest one alone does not fit the budget.

    Such a unit is then rebuilt block by block in the backward pass, at the price of one more
    forward pass through it.
    """
    left = sum(unit.kept_bytes for unit in units if unit.name not in chosen)
    again = max((unit.kept_bytes for unit in units if unit.name in chosen), default=0)
    if left + again <= budget_bytes:
        return chosen
    inner = [f"{name}.{path}" for name in chosen for path in units_of(module.get_submodule(name))]
    return [*chosen, *inner]


def recompute(module: nn.Module, names: list[str]) -> Callable[[], None]:
    """Let units be recomputed in the backward pass; return what undoes it."""
    changed: list[nn.Module] = []
    for name in names:
        unit = module.get_submodule(name)
        inner = unit.forward
        unit.forward = _recomputed(inner)
        changed.append(unit)

    def undo() -> None:
        for unit in changed:
            del unit.forward  # the class's own shows again

    return undo


def _recomputed(inner: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return inner(*args, **kwargs)
        return checkpoint(inner, *args, use_reentrant=False, **kwargs)

    return forward
