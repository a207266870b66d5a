"""Exports a module, runs the passes over its graph, and models what that means on other devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from flyball.models.graph.cost import modelled, work_of
from flyball.models.graph.passes import Stage, run_kernel_passes, run_passes
from flyball.models.program import NotExportable, Program, export
from flyball.physics import catalogue

Watch = Callable[[str, Program], None]


class Graphs(NamedTuple):
    """The model's graph before and after the passes, both None if it cannot be exported."""

    before: Program | None
    after: Program | None
    stages: list[Stage]
    notes: list[str]


def rewrite(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, watch: Watch
) -> Graphs:
    """Export the module and run the passes."""
    try:
        exported = export(module, args, kwargs, name)
    except NotExportable as error:
        return Graphs(None, None, [], [str(error)])
    watch("exported", exported)
    program, stages = run_passes(exported, watch=watch)
    stages += run_kernel_passes(program, watch)
    return Graphs(exported, program, stages, [])


def modelled_rows(before: Program, after: Program) -> list[dict[str, Any]]:
    """Return modelled time and energy of one call before and after, by device type."""
    first, second = work_of(before.graph), work_of(after.graph)
    rows = []
    for device in catalogue.load().values():
        old, new = modelled(first, device), modelled(second, device)
        if old is not None and new is not None:
            rows.append(
                {
                    "device": device.name,
                    "before_s": old.time_s,
                    "after_s": new.time_s,
                    "before_j": old.energy_j,
                    "after_j": new.energy_j,
                }
            )
    return rows
