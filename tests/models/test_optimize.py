"""A model from end to end: optimise it, write it, load it, run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flyball.core.errors import BadInput, UnknownName
from flyball.models import load, optimize
from flyball.models.backends import onnx_form
from flyball.models.measure import relative_error
from flyball.models.program import export
from flyball.models.result import EAGER, Candidate
from flyball.models.run import Settings, optimize_named
from flyball.models.search import choose

QUICK = ("passes", "channels-last", "fused")


class TwoHeads(nn.Module):
    """A small image model with two outputs, one in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(True))
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return features and classes."""
        features = self.stem(image)
        return {"features": features, "classes": self.head(features.mean((2, 3)))}


def two_heads() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the model with an example; `flyball optimize` calls it by name."""
    torch.manual_seed(0)
    return TwoHeads(), (torch.randn(1, 3, 12, 12),)


def test_the_result_takes_and_returns_what_the_module_does() -> None:
    module, example = two_heads()
    result = optimize(module, example, backends=QUICK, threads=1)
    assert [one.name for one in result.candidates] == [EAGER, *QUICK]
    assert all(one.status == "equal" for one in result.candidates)
    other = torch.randn(1, 3, 12, 12)
    expected, outputs = module(other), result(other)
    assert set(outputs) == {"features", "classes"}
    for name in outputs:
        assert relative_error([expected[name]], [outputs[name]]) < 1e-4


def test_a_choice_is_never_slower_than_eager_beyond_its_interval() -> None:
    rows = [
        Candidate(EAGER, "equal", 0.0, 1.0, 1.0, 1.0, 1.0),
        Candidate("a", "equal", 0.0, 0.5, 2.0, 0.9, 3.0),
        Candidate("b", "equal", 0.0, 0.8, 1.2, 1.1, 1.3),
        Candidate("c", "different", 0.1, 0.1, 9.0, 8.0, 10.0),
        Candidate("d", "reduced", 0.1, 0.1, 9.0, 8.0, 10.0),
    ]
    assert choose(rows) == "b"
    assert choose(rows[:2]) == EAGER


def test_a_choice_is_remembered_and_compared_again(tmp_path: Path) -> None:
    module, example = two_heads()
    first = optimize(module, example, backends=("passes",), threads=1)
    second = optimize(module, example, backends=("passes",), threads=1)
    assert not first.from_cache
    assert second.from_cache
    assert second.choice == first.choice
    with torch.no_grad():  # another model: other weights
        next(iter(module.parameters())).add_(1.0)
    assert not optimize(module, example, backends=("passes",), threads=1).from_cache


def test_a_remembered_choice_that_no_longer_exists_is_measured_again(tmp_path: Path) -> None:
    module, example = two_heads()
    optimize(module, example, backends=("passes",), threads=1)
    (entry,) = (tmp_path / "cache" / "models").glob("*.json")
    kept = json.loads(entry.read_text())
    entry.write_text(json.dumps({**kept, "choice": "bf16"}))
    assert not optimize(module, example, backends=("passes",), threads=1).from_cache


def test_the_command_writes_report_pictures_and_a_model_that_loads(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    name = f"{__name__}:two_heads"
    result, files = optimize_named(name, out, Settings(threads=1, backends=("passes",)))
    report = json.loads((out / "report.json").read_text())
    assert report["choice"] == result.choice
    assert report["operations_after"] < report["operations_before"]
    assert "## Passes" in (out / "report.md").read_text()
    assert "pictures/0-exported.png" in files
    assert (out / "pictures" / "0-exported.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("backend", ["passes", "fused", "onnxruntime", "openvino"])
def test_a_written_model_loads_and_gives_equal_results(tmp_path: Path, backend: str) -> None:
    from flyball.models import artifact

    module, example = two_heads()
    result = optimize(module, example, backends=(backend,), threads=1)
    assert result.candidates[1].status == "equal", result.candidates[1].reason
    result.choice = backend  # whatever was faster on this machine
    artifact.write(result, tmp_path)
    model = load(tmp_path)
    expected = module(*example)
    outputs = model(*example)
    assert relative_error([expected["classes"]], [outputs["classes"]]) < 1e-4
    with pytest.raises(BadInput, match="the example was"):
        model(torch.randn(2, 3, 12, 12))


def test_an_unknown_back_end_names_the_nearest() -> None:
    module, example = two_heads()
    with pytest.raises(UnknownName, match="did you mean 'openvino'"):
        optimize(module, example, backends=("openvin",))


def test_an_onnx_file_gets_report_pictures_and_a_loader(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()).eval()
    image = torch.randn(1, 3, 8, 8)
    onnx_form.write(export(module, (image,)), tmp_path / "net.onnx")
    out = tmp_path / "out"
    out.mkdir()
    settings = Settings(threads=1, time_limit_s=30)
    result, files = optimize_named(str(tmp_path / "net.onnx"), out, settings)
    assert [one.status for one in result.candidates][:2] == ["equal", "equal"]
    assert "as given 2, basic 2, extended 1" in result.notes[1]
    assert {"report.md", "report.json", "model.onnx", "load.py"} <= set(files)
    assert "pictures/0-as-given.png" in files
    assert len([name for name in files if name.endswith(".png")]) > 1
    assert all((out / name).stat().st_size for name in files)
    namespace = {"__file__": str(out / "load.py")}
    exec((out / "load.py").read_text(), namespace)
    model: Any = namespace["model"]
    with torch.no_grad():
        assert relative_error((module(image),), model(image)) < 1e-5
