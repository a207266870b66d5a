"""Every pass alone, on random graphs and on its own pattern: equal outputs, counted changes."""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.random_graphs import SHAPE, Draft, aten, random_program
from torch import Tensor, fx, nn

from flyball.models.graph import (
    common,
    dead_code,
    fold_batch_norm,
    fold_constants,
    fuse_activation,
    fuse_attention,
    fuse_cross_entropy,
    fuse_layer_norm,
    memory_plan,
    merge_convolutions,
    merge_linear,
    merge_sums,
    simplify,
    split_gates,
)
from flyball.models.graph.cost import cost_of
from flyball.models.graph.passes import KERNEL_PASSES, ORDER, run_passes
from flyball.models.measure import relative_error
from flyball.models.program import Program, export

EXACT = 1e-9
"""Largest relative error of a pass in double precision."""
PORTABLE = (*ORDER, "layout", "memory_plan")
SEEDS = range(10)
AFTER = {"merge_sums": ("merge_linear",)}
"""Passes that must run before another one finds anything."""


def outputs_of(program: Program, x: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return tuple(tensor.clone() for tensor in program.graph(x))


def check_equal(before: Program, after: Program, most: float) -> None:
    after.graph.graph.lint()
    after.graph.recompile()
    for seed in range(2):
        x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
        x = x.to(before.inputs[0].dtype)
        kept = x.clone()
        assert relative_error(outputs_of(before, x), outputs_of(after, x)) <= most
        assert torch.equal(x, kept), "the input was overwritten"


@pytest.mark.parametrize("name", PORTABLE)
def test_a_pass_keeps_the_outputs_of_random_graphs(name: str) -> None:
    module = import_module(f"flyball.models.graph.{name}")
    changes = 0
    for seed in SEEDS:
        before = random_program(seed)
        after = before.copy()
        for earlier in AFTER.get(name, ()):
            import_module(f"flyball.models.graph.{earlier}").run(after.graph)
        changes += module.run(after.graph)
        check_equal(before, after, EXACT)
        dead_code.run(after.graph)
        check_equal(before, after, EXACT)
    if name != "fuse_cross_entropy":
        assert changes > 0, "these graphs do not test this pass"


@given(seed=st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_all_passes_together_keep_the_outputs(seed: int) -> None:
    before = random_program(seed, length=8)
    after, stages = run_passes(before)
    check_equal(before, after, EXACT)
    assert stages[-1].cost.operations <= stages[0].cost.operations
    memory_plan.run(after.graph)
    check_equal(before, after, EXACT)


@pytest.mark.parametrize("pack", [False, True])
def test_fused_kernels_keep_the_outputs_of_random_graphs(pack: bool) -> None:
    if not fuse_activation.available():
        pytest.skip("this torch has no oneDNN")
    removed = 0
    for seed in SEEDS:
        before = random_program(seed, torch.float32)
        after, _ = run_passes(before)
        removed += fuse_activation.run(after.graph, pack=pack)
        memory_plan.run(after.graph)
        check_equal(before, after, 1e-4)
    assert removed > 0


def test_every_pass_states_its_rule() -> None:
    for name in (*ORDER, *KERNEL_PASSES):
        module = import_module(f"flyball.models.graph.{name}")
        assert len(module.RULE) > 20
        assert "Rule" in (module.__doc__ or "")


# Each pass's own pattern, and what it must leave alone ---------------------------------


def draft_of(build: Any, dtype: torch.dtype = torch.float64) -> Program:
    draft = Draft(0, dtype)
    node = draft.graph.placeholder("x")
    return draft.program([draft.tensor(*SHAPE)], build(draft, node))


def test_constants_are_folded_but_not_blown_up() -> None:
    def build(draft: Draft, x: fx.Node) -> list[fx.Node]:
        small = draft.call(aten.exp.default, draft.const(draft.tensor(6)))
        large = draft.call(aten.expand.default, draft.const(draft.tensor(1)), [3_000_000])
        first = draft.call(aten.add.Tensor, x, small)
        return [draft.call(aten.add.Tensor, first, draft.call(aten.sum.default, large))]

    program = draft_of(build)
    assert fold_constants.run(program.graph) == 1


def test_random_operations_are_neither_folded_nor_merged() -> None:
    def build(draft: Draft, x: fx.Node) -> list[fx.Node]:
        first, second = (
            draft.call(aten.rand_like.default, draft.const(draft.tensor(6))) for _ in "ab"
        )
        return [draft.call(aten.add.Tensor, x, draft.call(aten.sub.Tensor, first, second))]

    program = draft_of(build)
    assert fold_constants.run(program.graph) == 0
    assert common.run(program.graph) == 0


def test_a_batch_norm_stays_if_its_input_is_read_elsewhere() -> None:
    def build(draft: Draft, x: fx.Node, twice: bool) -> list[fx.Node]:
        weight = draft.const(draft.tensor(4, 4, 1, 1))
        layer = draft.call(aten.conv2d.default, x, weight)
        vectors = [draft.const(draft.tensor(4)) for _ in range(3)]
        target = aten._native_batch_norm_legit_no_training.default
        norm = draft.call(target, layer, *vectors, draft.const(torch.ones(4).double()), 0.1, 1e-5)
        out = draft.call(operator.getitem, norm, 0)
        return [out, layer] if twice else [out]

    assert fold_batch_norm.run(draft_of(lambda d, x: build(d, x, False)).graph) == 1
    assert fold_batch_norm.run(draft_of(lambda d, x: build(d, x, True)).graph) == 0


def test_attention_stays_if_its_weights_are_read_elsewhere() -> None:
    def build(draft: Draft, x: fx.Node, shown: bool) -> list[fx.Node]:
        scores = draft.call(aten.matmul.default, x, draft.call(aten.transpose.int, x, 2, 3))
        weights = draft.call(aten.softmax.int, scores, -1)
        out = draft.call(aten.matmul.default, weights, x)
        return [out, weights] if shown else [out]

    assert fuse_attention.run(draft_of(lambda d, x: build(d, x, False)).graph) == 1
    assert fuse_attention.run(draft_of(lambda d, x: build(d, x, True)).graph) == 0


def test_an_unbiased_variance_is_no_layer_norm() -> None:
    def build(draft: Draft, x: fx.Node, correction: int) -> list[fx.Node]:
        centred = draft.call(aten.sub.Tensor, x, draft.call(aten.mean.dim, x, [-1], True))
        variance = draft.call(aten.var.correction, x, [-1], correction=correction, keepdim=True)
        root = draft.call(aten.rsqrt.default, draft.call(aten.add.Tensor, variance, 1e-5))
        return [draft.call(aten.mul.Tensor, centred, root)]

    assert fuse_layer_norm.run(draft_of(lambda d, x: build(d, x, 0)).graph) == 1
    assert fuse_layer_norm.run(draft_of(lambda d, x: build(d, x, 1)).graph) == 0


def test_depthwise_and_pointwise_merge_where_it_pays_or_when_told() -> None:
    def build(draft: Draft, x: fx.Node) -> list[fx.Node]:
        first = draft.const(draft.tensor(4, 1, 3, 3))
        depth = draft.call(aten.conv2d.default, x, first, None, [1, 1], [1, 1], [1, 1], 4)
        return [draft.call(aten.conv2d.default, depth, draft.const(draft.tensor(64, 4, 1, 1)))]

    before = draft_of(build)
    cheap, forced = before.copy(), before.copy()
    assert merge_convolutions.run(cheap.graph) == 0  # 64 outputs: nine times the arithmetic
    assert merge_convolutions.run(forced.graph, always=True) == 1
    check_equal(before, forced, EXACT)


def test_gates_of_one_input_become_one_product() -> None:
    def build(draft: Draft, x: fx.Node) -> list[fx.Node]:
        weights = [draft.const(draft.tensor(5, 6)) for _ in range(4)]
        return [draft.call(aten.linear.default, x, weight) for weight in weights]

    before = draft_of(build)
    after = before.copy()
    assert merge_linear.run(after.graph) == 3
    assert len([n for n in after.graph.graph.nodes if n.target == aten.linear.default]) == 1
    check_equal(before, after, EXACT)


def cell_program(draft: Draft, x: fx.Node, steps: int = 3) -> list[fx.Node]:
    """Return the last state of a cell of two gates that runs over the rows of its input."""
    state = draft.call(aten.zeros_like.default, draft.call(aten.select.int, x, 2, 0))
    reads, keeps = ([draft.const(draft.tensor(6, 6)) for _ in "ab"] for _ in "ab")
    for at in range(steps):
        step = draft.call(aten.select.int, x, 2, at)
        gates = [
            draft.call(
                aten.add.Tensor,
                draft.call(aten.linear.default, step, read),
                draft.call(aten.linear.default, state, keep),
            )
            for read, keep in zip(reads, keeps, strict=True)
        ]
        state = draft.call(aten.mul.Tensor, gates[0], draft.call(aten.tanh.default, gates[1]))
    return [state]


def test_a_cells_gates_are_stacked_once_and_its_inputs_are_one_product() -> None:
    before = draft_of(cell_program)
    after = before.copy()
    assert merge_linear.run(after.graph) == 2 * 3
    assert split_gates.run(after.graph) == 3
    assert merge_sums.run(after.graph) == 3
    linear = [n for n in after.graph.graph.nodes if n.target == aten.linear.default]
    assert len(linear) == 1 + 3  # the inputs of all steps; the state of each
    assert len({n.args[1].target for n in linear}) == 2  # no weight is stored more than once
    check_equal(before, after, EXACT)


def test_a_product_is_not_split_if_most_of_it_would_be_unused() -> None:
    before = draft_of(lambda draft, x: cell_program(draft, x, steps=2))
    assert split_gates.run(before.copy().graph) == 0  # two of six rows


def test_packed_weights_of_a_cell_exist_once() -> None:
    if not fuse_activation.available():
        pytest.skip("this torch has no oneDNN")
    before = draft_of(cell_program, torch.float32)
    after = before.copy()
    fuse_activation.run(after.graph, pack=True)
    check_equal(before, after, 1e-5)
    packed = [node for node in after.graph.graph.nodes if str(node.target).startswith("packed")]
    assert len(packed) == 4  # of twelve layers


def test_cross_entropy_stays_finite_where_softmax_underflows() -> None:
    class Loss(nn.Module):
        def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
            return nn.functional.nll_loss(torch.log(torch.softmax(scores, 1)), targets)

    scores, targets = torch.randn(4, 9), torch.randint(0, 9, (4,))
    before = export(Loss(), (scores, targets))
    after = before.copy()
    assert fuse_cross_entropy.run(after.graph) == 2
    dead_code.run(after.graph)
    after.graph.recompile()
    assert relative_error(before.graph(scores, targets), after.graph(scores, targets)) < 1e-5
    assert not torch.isfinite(before.graph(scores * 1000, targets)[0])
    assert torch.isfinite(after.graph(scores * 1000, targets)[0])
    assert cost_of(after.graph).operations == 1


def test_simplify_never_returns_an_input_or_a_weight_itself() -> None:
    program = draft_of(lambda d, x: [d.call(aten.mul.Tensor, d.call(aten.clone.default, x), 1.0)])
    simplify.run(program.graph)
    program.graph.recompile()
    x = program.inputs[0]
    assert program.graph(x)[0].data_ptr() != x.data_ptr()


def test_in_place_operations_spare_inputs_weights_and_shared_results() -> None:
    def build(draft: Draft, x: fx.Node) -> list[fx.Node]:
        weight = draft.const(draft.tensor(6, 6))
        layer = draft.call(aten.linear.default, x, weight)
        alone = draft.call(aten.relu.default, layer)  # may overwrite the layer's result
        shared = draft.call(aten.tanh.default, x)  # must not overwrite the input
        left = draft.call(aten.silu.default, shared)  # must not: `shared` is read again
        view = draft.call(aten.reshape.default, alone, list(SHAPE))
        last = draft.call(aten.sigmoid.default, view)  # must not: a view of another's memory
        return [draft.call(aten.add.Tensor, left, shared), last, alone]

    before = draft_of(build)
    after = before.copy()
    assert memory_plan.run(after.graph) == 2  # the relu, and the sum into `left`
    check_equal(before, after, 0.0)


def test_planned_buffers_never_overlap_while_both_are_alive() -> None:
    for seed in SEEDS:
        program = random_program(seed)
        memory = memory_plan.plan(program.graph)
        assert memory.peak_bytes <= memory.planned_bytes <= memory.separate_bytes
        buffers = list(memory_plan._buffers(program.graph).values())
        memory_plan._arena(buffers)
        for at, one in enumerate(buffers):
            for other in buffers[:at]:
                apart = one.last < other.first or other.last < one.first
                below = one.offset + one.size <= other.offset
                above = other.offset + other.size <= one.offset
                assert apart or below or above
