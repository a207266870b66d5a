"""The zoo, small: every model exports, the passes find what they should, outputs stay equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from flyball.models import optimize
from flyball.models.backends import onnx_form, onnx_runtime
from flyball.models.backends.registry import get
from flyball.models.graph.passes import run_passes
from flyball.models.measure import relative_error, worst_error
from flyball.models.program import export
from flyball.models.zoo.registry import MEMORY, PUBLISHED, TRAINED, ZOO, build

TEXT = {"width": 32, "layers": 1, "heads": 4, "tokens": 6}
SMALL: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "resnet50": ({"blocks": (1, 1), "image": 32, "width": 8}, {"fold_batch_norm": 9}),
    "transformer-base": (TEXT, {"fuse_attention": 3, "merge_linear": 5}),
    "bert-large": (TEXT, {"merge_linear": 2}),
    "gpt2-medium": (TEXT, {"merge_linear": 2}),
    "vit-large": ({"width": 32, "layers": 1, "heads": 4, "image": 32}, {"merge_linear": 2}),
    "unet": ({"width": 4, "depth": 2, "image": 16}, {"fold_batch_norm": 10}),
    "efficientnet-b7": ({"wider": 0.25, "deeper": 0.3, "image": 32}, {"fold_batch_norm": 25}),
    "efficientnet-b0": ({"wider": 0.25, "deeper": 0.3, "image": 32}, {"fold_batch_norm": 25}),
    "yolo-v5": ({"width": 4, "image": 64}, {"fold_batch_norm": 57}),
    "gnn": ({"nodes": 16, "width": 8}, {"common": 4}),
    "lstm": ({"width": 16, "layers": 1, "tokens": 3}, {"merge_linear": 18}),
    "recommender": ({"tables": 3, "rows": 20}, {}),
}
SLOW = ("efficientnet-b7", "yolo-v5", "unet", "vit-large", "bert-large")
"""Models whose operations others have too; they run with the slow tests."""
CASES = [pytest.param(name, marks=pytest.mark.soak if name in SLOW else ()) for name in ZOO]


def test_the_zoo_names_the_models_of_the_claims() -> None:
    assert len(PUBLISHED) == 8
    assert set(SMALL) == set(ZOO)
    assert set(TRAINED) | set(MEMORY) <= set(ZOO)


@pytest.mark.parametrize("name", CASES)
def test_a_model_stays_equal_under_passes_and_fused_kernels(name: str) -> None:
    sizes, expected = SMALL[name]
    module, example = build(name, **sizes)
    before = export(module, example, name=name)
    after, stages = run_passes(before)
    changes = {stage.name: stage.changes for stage in stages}
    assert {stage: changes[stage] for stage in expected} == expected
    assert stages[-1].cost.operations <= stages[0].cost.operations

    def eager(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(pytree.tree_leaves(module(*inputs)))

    assert worst_error(eager, get("fused").build(after, 1), example, trials=1) < 1e-4


def test_sums_over_edges_have_one_thread_in_onnx_runtime(tmp_path: Path) -> None:
    module, example = build("gnn")
    program, _stages = run_passes(export(module, example))
    onnx_form.write(program, tmp_path / "sums.onnx")
    assert onnx_runtime.accumulates(tmp_path / "sums.onnx")
    opened = onnx_runtime.session(tmp_path / "sums.onnx", 2)
    assert opened.get_session_options().intra_op_num_threads == 1
    run = onnx_runtime.runner(opened)
    with torch.no_grad():
        expected = (module(*example),)
    for _ in range(20):  # with two threads every fifth run lost some of the sums
        assert relative_error(expected, run(*example)) < 1e-5

    other, image = build("efficientnet-b0", image=32)
    onnx_form.write(export(other, image), tmp_path / "plain.onnx")
    assert not onnx_runtime.accumulates(tmp_path / "plain.onnx")
    plain = onnx_runtime.session(tmp_path / "plain.onnx", 2)
    assert plain.get_session_options().intra_op_num_threads == 2


@pytest.mark.soak
def test_inductor_compiles_a_small_model_to_an_equal_one() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
    result = optimize(module, torch.randn(4, 8), backends=("inductor",), threads=1)
    assert result.candidates[1].status == "equal", result.candidates[1].reason


def test_reduced_precision_is_measured_on_request_and_never_chosen() -> None:
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    result = optimize(module, torch.randn(4, 64), backends=(), threads=1, reduced=True)
    rows = {one.name: one for one in result.candidates}
    assert result.choice == "eager"
    for name in ("bf16", "int8"):
        assert rows[name].status == "reduced", rows[name].reason
        assert 1e-6 < (rows[name].error or 0.0) < 0.2
