"""Files from outside: read as data, refused with a line that says why."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flyball.core.errors import BadInput
from flyball.models import onnx_search, outside
from flyball.models.sources import read


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a .pt2 file of a small model."""
    path = tmp_path_factory.mktemp("saved") / "small.pt2"
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
    from flyball.models.program import quiet

    with quiet():
        torch.export.save(torch.export.export(module, (torch.randn(2, 3),)), path)
    return path


def rewritten(saved: Path, target: Path, change: Any = None, **extra: bytes) -> Path:
    """Write a copy of an archive with a changed graph or further entries."""
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(target, "w") as copy:
        for entry in source.infolist():
            content = source.read(entry)
            if change is not None and entry.filename.endswith("models/model.json"):
                content = json.dumps(change(json.loads(content))).encode()
            copy.writestr(entry.filename, content)
        for name, content in extra.items():
            copy.writestr(f"small/{name.replace('__', '/')}", content)
    return target


def test_an_exported_file_is_read_with_its_example(saved: Path) -> None:
    source = read(str(saved))
    (example,) = source.example
    assert example.shape == (2, 3)
    assert source.module(example).shape == (2, 4)


def test_functions_outside_of_torch_operators_are_refused(saved: Path, tmp_path: Path) -> None:
    def call_the_system(model: Any) -> Any:
        model["graph_module"]["graph"]["nodes"][0]["target"] = "torch.serialization.os.system"
        return model

    path = rewritten(saved, tmp_path / "evil.pt2", call_the_system)
    with pytest.raises(BadInput, match=r"custom operators: torch\.serialization\.os\.system"):
        outside.read_exported(path)


def test_expressions_that_are_not_shapes_are_refused(saved: Path, tmp_path: Path) -> None:
    def run_code(model: Any) -> Any:
        model["graph_module"]["graph"]["sym_int_values"] = {
            "s0": {"as_expr": {"expr_str": "__import__('os').system('true')", "hint": None}}
        }
        return model

    path = rewritten(saved, tmp_path / "evil.pt2", run_code)
    with pytest.raises(BadInput, match="is not a shape"):
        outside.check_archive(path)
    assert outside._is_arithmetic("Max(1, 2*s0 + 3)")
    assert outside._is_arithmetic("4*FloorDiv(s77, 2)")
    for code in ("exec(s0)", "().__class__", "lambda: 1", "open(s0)", "s0.real.conjugate"):
        assert not outside._is_arithmetic(code), code


def test_guards_that_are_not_comparisons_are_refused(saved: Path, tmp_path: Path) -> None:
    def run_code(model: Any) -> Any:
        model["guards_code"] = ["exit()"]
        return model

    with pytest.raises(BadInput, match="guard"):
        outside.check_archive(rewritten(saved, tmp_path / "evil.pt2", run_code))
    assert outside._is_guard("L['args'][0][0].size()[0] <= 8 and 2 <= L['x'].size()[1]")
    assert not outside._is_guard("L['x'].__class__")


def test_pickled_objects_and_compiled_code_are_refused(saved: Path, tmp_path: Path) -> None:
    for name in ("data__constants__custom_obj_0", "data__aotinductor__model__a.so"):
        path = rewritten(saved, tmp_path / "evil.pt2", **{name: b"x"})
        with pytest.raises(BadInput, match="holds"):
            outside.read_exported(path)
    config = json.dumps({"config": {"w": {"path_name": "weight_9", "use_pickle": True}}}).encode()
    path = rewritten(
        saved, tmp_path / "p.pt2", **{"data__weights__other_weights_config.json": config}
    )
    with pytest.raises(BadInput, match="w is pickled"):
        outside.read_exported(path)


def test_example_inputs_that_unpickle_to_code_do_not_run(saved: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(mark),)

    evil = tmp_path / "inputs.pt"
    torch.save(Evil(), evil)
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(tmp_path / "e.pt2", "w") as copy:
        for entry in source.infolist():
            is_sample = entry.filename.endswith("sample_inputs/model.pt")
            copy.writestr(entry.filename, evil.read_bytes() if is_sample else source.read(entry))
    with pytest.raises(BadInput):
        outside.read_exported(tmp_path / "e.pt2")
    assert not mark.exists()
    assert pickle.dumps(Evil())  # the object itself is a working bomb


def test_bombs_and_files_that_are_none_are_refused(tmp_path: Path, saved: Path) -> None:
    bomb = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small/archive_format", "pt2")
        archive.writestr("small/data/weights/weight_0", b"\0" * 10_000_000)
    with pytest.raises(BadInput, match="grows from"):
        outside.read_exported(bomb)
    text = tmp_path / "text.pt2"
    text.write_text("hello")
    with pytest.raises(BadInput, match=r"not a \.pt2 archive"):
        outside.read_exported(text)
    with pytest.raises(BadInput, match="no such file"):
        outside.read_exported(tmp_path / "absent.pt2")


def test_a_file_larger_than_memory_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "available_bytes", lambda: 1000)
    with pytest.raises(BadInput, match="GiB of memory are free"):
        outside.read_exported(saved)


# ONNX -----------------------------------------------------------------------------------


def onnx_file(path: Path, domain: str = "", location: str = "") -> Path:
    """Write a small ONNX file."""
    import onnx
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    node = helper.make_node("Relu" if not domain else "Odd", ["x"], ["y"], domain=domain)
    graph = helper.make_graph([node], "g", [x], [y])
    if location:
        weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
        graph.initializer.append(weight)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def test_an_onnx_file_is_checked_and_gets_an_example(tmp_path: Path) -> None:
    model = onnx_search.check(onnx_file(tmp_path / "m.onnx"))
    (example,) = onnx_search.example_of(model)
    assert example.shape == (1, 4)


def test_custom_operators_and_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"custom operators of my\.domain"):
        onnx_search.check(onnx_file(tmp_path / "m.onnx", domain="my.domain"))
    with pytest.raises(BadInput, match="outside its folder"):
        onnx_search.check(onnx_file(tmp_path / "m.onnx", location="../../etc/passwd"))
    with pytest.raises(BadInput, match="are missing"):
        onnx_search.check(onnx_file(tmp_path / "m.onnx", location="absent.bin"))
    (tmp_path / "m.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(BadInput, match="not an ONNX file"):
        onnx_search.check(tmp_path / "m.onnx")
