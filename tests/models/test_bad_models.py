"""Models that cannot be optimised, or only in part: a clear line, and what can be done is done."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from flyball.core.errors import BadInput, DataAbsent
from flyball.models import extras, optimize, search
from flyball.models.program import NotExportable, export
from flyball.models.result import EAGER
from flyball.models.sources import read


class Branches(nn.Module):
    """Takes another way if its input is positive."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the input, moved up or down."""
        if x.sum() > 0:
            return x + 1
        return x - 1


class Counts(nn.Module):
    """Changes its own buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the input times the number of calls."""
        self.calls.add_(1)  # type: ignore[operator]
        return torch.mul(x, self.calls)  # type: ignore[arg-type]


def test_control_flow_on_data_names_the_place_and_the_remedy() -> None:
    with pytest.raises(NotExportable, match=r"depends on data at .*test_bad_models\.py.*line") as e:
        export(Branches(), (torch.ones(3),))
    assert "torch.where" in str(e.value)


def test_a_model_without_a_graph_is_left_as_it_is_and_still_runs() -> None:
    result = optimize(Branches(), torch.ones(3), backends=("passes", "onnxruntime"), threads=1)
    assert result.choice == EAGER
    assert [one.status for one in result.candidates] == ["equal", "left out", "left out"]
    assert "depends on data" in result.notes[0]
    assert torch.equal(result(torch.ones(3)), torch.full((3,), 2.0))


def test_a_model_that_changes_itself_is_left_alone() -> None:
    result = optimize(Counts(), torch.ones(3), backends=("passes",), threads=1)
    assert result.choice == EAGER
    assert "changes its own buffers" in result.notes[0]


@torch.library.custom_op("flyball_tests::halved", mutates_args=())
def halved(x: Tensor) -> Tensor:
    """An operator that only this process knows."""
    return x / 2


@halved.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Odd(nn.Module):
    """Uses an operator of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """Return half of the input, which is at least 0."""
        out: Tensor = torch.relu(halved(x * 1))
        return out


def test_a_custom_operator_leaves_out_the_back_ends_that_do_not_know_it() -> None:
    result = optimize(Odd(), torch.ones(3), backends=("passes", "onnxruntime"), threads=1)
    rows = {one.name: one for one in result.candidates}
    assert rows["passes"].status == "equal", rows["passes"].reason
    assert rows["onnxruntime"].status == "failed"
    assert "halved" in rows["onnxruntime"].reason
    assert {stage.name: stage.changes for stage in result.stages}["simplify"] == 1
    assert torch.equal(result(torch.ones(3)), torch.full((3,), 0.5))


def test_an_example_that_does_not_fit_is_refused_with_its_shapes() -> None:
    with pytest.raises(BadInput, match="fails on its example inputs 2x5"):
        optimize(nn.Linear(3, 4), torch.randn(2, 5))
    with pytest.raises(BadInput, match="example inputs are str"):
        optimize(nn.Linear(3, 4), "x")
    with pytest.raises(BadInput, match="example input 1 is int"):
        optimize(nn.Linear(3, 4), (3,))


def test_a_missing_back_end_is_left_out_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "missing", lambda modules: [m for m in modules if m == "openvino"])
    result = optimize(nn.Linear(3, 4), torch.randn(2, 3), backends=("openvino",), threads=1)
    (_eager, candidate) = result.candidates
    assert candidate.status == "left out"
    assert "pip install 'flyball[models]'" in candidate.reason


def test_without_torch_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda module: None)
    with pytest.raises(
        DataAbsent, match=r"torch is not installed; pip install 'flyball\[models\]'"
    ):
        extras.require("torch")


def test_a_model_that_needs_more_memory_than_is_free_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "available_bytes", lambda: 10)
    result = optimize(nn.Linear(300, 40), torch.randn(2, 300), backends=("passes",), threads=1)
    assert result.choice == EAGER
    assert "GiB are free" in result.candidates[1].reason


def test_after_the_time_limit_no_candidate_is_tried() -> None:
    result = optimize(
        nn.Linear(3, 4), torch.randn(2, 3), backends=("passes",), threads=1, time_limit_s=1e-9
    )
    assert result.candidates[1].reason == "time limit reached"
    assert result.choice == EAGER


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "names no model"),
        ("no.such.module:model", "cannot import"),
        ("math:no_such", "has no no_such"),
        ("math:pi", "returns float"),
        ("zoo:resnet51", "did you mean 'resnet50'"),
    ],
)
def test_names_of_no_model_are_refused(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(name)
