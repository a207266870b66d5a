"""The passes in the order in which they run, and what each of them changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from flyball.models.graph import dead_code, simplify
from flyball.models.graph.cost import Cost, cost_of
from flyball.models.program import Program

ORDER = (
    *("dead_code", "fold_constants", "common", "simplify", "fuse_cross_entropy"),
    *("fuse_layer_norm", "fuse_attention", "fold_batch_norm", "merge_convolutions", "merge_linear"),
    *("split_gates", "merge_sums"),
)
"""Passes whose result any back end takes. Equal subexpressions go first, since patterns refer to
one node; batch norms before convolutions are merged; attention before its projections are
merged."""
KERNEL_PASSES = ("layout", "fuse_activation", "memory_plan")
"""Passes for torch's eager kernels only; each back end of `backends/graph.py` runs its choice."""


@dataclass(frozen=True)
class Stage:
    """What one pass changed.

    Attributes:
        name: of the pass; `exported` is the graph before the first one.
        rule: what it does, in a sentence.
        changes: number of places that it changed.
        cost: of the graph after it.
    """

    name: str
    rule: str
    changes: int
    cost: Cost

    def as_dict(self) -> dict[str, Any]:
        """Return the stage as JSON shows it."""
        return asdict(self)


def run_passes(
    program: Program,
    names: tuple[str, ...] = ORDER,
    watch: Callable[[str, Program], None] = lambda _name, _program: None,
) -> tuple[Program, list[Stage]]:
    """Run passes on a copy of a program; return the new one and what each pass changed.

    Args:
        program: stays as it is.
        names: of passes.
        watch: receives the program after each pass that changed something.
    """
    program = program.copy()
    stages = [Stage("exported", "the graph as torch.export traces it", 0, cost_of(program.graph))]
    for name in names:
        module = import_module(f"flyball.models.graph.{name}")
        changes = module.run(program.graph)
        if changes and name != "dead_code":
            # A pass may leave a transpose or a copy that cancels now.
            simplify.run(program.graph)
            dead_code.run(program.graph)
        if changes:
            program.graph.graph.lint()
            program.graph.recompile()
            watch(name, program)
        stages.append(Stage(name, module.RULE, changes, cost_of(program.graph)))
    return program, stages
