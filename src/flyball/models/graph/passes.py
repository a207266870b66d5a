"""The passes in the order in which they run, and what each of them changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from flyball.models.graph import dead_code, simplify
from flyball.models.graph.cost import Cost, cost_of, modelled, work_of
from flyball.models.program import Program
from flyball.physics import catalogue

ORDER = (
    *("dead_code", "fold_constants", "common", "simplify", "fuse_cross_entropy"),
    *("fuse_layer_norm", "fuse_attention", "fold_batch_norm", "merge_convolutions", "merge_linear"),
    *("split_gates", "merge_sums"),
)
"""Passes whose result any back end takes. Equal subexpressions go first, since patterns refer to
one node; batch norms before convolutions are merged; attention before its projections are
merged."""
CORE = "CPU1"
"""Device of the catalogue that the expected gain of a stage refers to."""
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
        core_s: modelled time of the graph after it on one core, by the roofline.
        is_portable: whether any back end takes its result; else torch's executor only.
    """

    name: str
    rule: str
    changes: int
    cost: Cost
    core_s: float
    is_portable: bool = True

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
    stages = [_stage("exported", "the graph as torch.export traces it", 0, program)]
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
        stages.append(_stage(name, module.RULE, changes, program))
    return program, stages


def run_kernel_passes(
    program: Program, watch: Callable[[str, Program], None] = lambda _name, _program: None
) -> list[Stage]:
    """Run the passes of torch's executor on a copy of a program; return what each changed.

    The program stays portable. The back ends of `backends/graph.py` run the same passes again, and
    pack weights as well, which has no form that could be counted or drawn.
    """
    program = program.copy()
    stages = []
    for name in KERNEL_PASSES:
        module = import_module(f"flyball.models.graph.{name}")
        changes = module.run(program.graph)
        if changes:
            program.graph.recompile()
            watch(name, program)
        stages.append(_stage(name, module.RULE, changes, program, is_portable=False))
    return stages


def _stage(name: str, rule: str, changes: int, program: Program, is_portable: bool = True) -> Stage:
    time = modelled(work_of(program.graph), catalogue.get(CORE))
    assert time is not None
    return Stage(name, rule, changes, cost_of(program.graph), time.time_s, is_portable)
