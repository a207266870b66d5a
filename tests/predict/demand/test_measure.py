"""Nets are drawn, built, run and written to a table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flyball.core.errors import BadInput, Unavailable
from flyball.predict.demand import measure
from flyball.predict.demand.measure_shapes import TYPES, WORK, Shape, draw_shape, smallest, work_of

torch = pytest.importorskip("torch")

WORDS = {"model_type": "mlp", "precision": "fp32", "optimizer": "sgd"}
ROW = {**dict.fromkeys(measure.COLUMNS, "1"), **WORDS}


def nothing(_done: str) -> None:
    """Nobody is watching."""


def test_shapes_are_spread_and_the_same_for_the_same_seed() -> None:
    shapes = [draw_shape(at, 5) for at in range(160)]
    assert shapes == [draw_shape(at, 5) for at in range(160)]
    assert shapes != [draw_shape(at, 6) for at in range(160)]
    assert [shape.type for shape in shapes[:8]] == list(TYPES)
    works = np.log10([work_of(shape) for shape in shapes])
    assert np.percentile(works, 90) - np.percentile(works, 10) > 0.6 * np.log10(WORK[1] / WORK[0])


@pytest.mark.parametrize("variant", [0, 1])
@pytest.mark.parametrize("name", TYPES)
def test_every_net_learns(name: str, variant: int) -> None:
    """One step changes every weight there is a gradient for, and all of them stay finite."""
    from flyball.experiments.demand.measure_nets import stepper

    torch.manual_seed(1)
    plain = Shape(name, 8, 1, 1, 8, variant, 8, regularization="l1", learning_rate=0.01)
    net, step = stepper(smallest(plain))
    before = [weights.clone() for weights in net.parameters()]
    step()
    pairs = list(zip(before, net.parameters(), strict=True))
    assert all(torch.isfinite(now).all() for _was, now in pairs)
    assert sum(not torch.equal(was, now) for was, now in pairs) >= 0.9 * len(pairs)


@pytest.mark.parametrize("how", ["noise", "mask", "mixup"])
def test_augmentation_keeps_the_shape(how: str) -> None:
    from flyball.experiments.demand.measure_nets import augmented

    for given in (torch.randn(8, 16), torch.randint(1, 50, (8, 16))):
        result = augmented(given, how)
        assert result.shape == given.shape
        assert result.dtype == given.dtype
        assert not torch.equal(result, given)


def test_operations_are_counted() -> None:
    """Three products of two operations for each weight; the first layer needs no input gradient."""
    from flyball.experiments.demand.measure_nets import stepper
    from flyball.experiments.demand.measure_step import counted

    _net, step = stepper(Shape("mlp", width=32, layers=2, batch=4, size=16))
    assert counted(step) == 4 * (2 * 2 * 16 * 32 + 3 * 2 * (32 * 32 + 32 * 10))
    _net, step = stepper(Shape("lstm", width=16, layers=1, batch=3, size=8))
    gates, head = 4 * 2 * 16 * 16, 16 * 1000
    assert counted(step) == 3 * 2 * 3 * 8 * (gates + head)


def test_a_table_is_measured_and_taken_up_again(tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    done: list[str] = []
    assert measure.measure(out, 1, 3, "2026-01-02", False, done.append) == 1
    assert measure.measure(out, 2, 3, "2026-01-02", True, done.append) == 1
    assert done == ["mlp", "resnet"]
    rows = measure.read_rows(out)
    assert [row["model_type"] for row in rows] == done
    for row in rows:
        assert 0.0 < float(row["step_s"]) <= float(row["step_median_s"])
        assert float(row["flops"]) > 0.0
        assert float(row["memory_mib"]) > 0.0
        assert int(row["steps"]) >= 3
    card = json.loads(out.with_suffix(".json").read_text())
    assert card["rows"] == 2
    assert card["date"] == "2026-01-02"
    assert card["machine"]["cpu"]
    assert card["versions"]["torch"]
    assert set(card["columns"]) == set(measure.COLUMNS)
    assert card["clock_over_core"]["median"] > 0.5
    with pytest.raises(BadInput, match="--resume"):
        measure.measure(out, 2, 3, "2026-01-02", False, nothing)
    with pytest.raises(BadInput, match="seed 3"):
        measure.measure(out, 2, 4, "2026-01-02", True, nothing)


def test_tables_that_do_not_serve(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        measure.read_rows(tmp_path / "none.csv")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="other columns"):
        measure.read_rows(other)
    lone = tmp_path / "lone.csv"
    lone.write_text(",".join(measure.COLUMNS) + "\n" + ",".join(ROW.values()) + "\n")
    with pytest.raises(BadInput, match="no card"):
        measure.measure(lone, 2, 1, "2026-01-02", True, nothing)


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> None:
        raise ImportError

    monkeypatch.setattr(measure, "import_module", absent)
    with pytest.raises(Unavailable, match=r"flyball\[learn\]"):
        measure.measure(tmp_path / "x.csv", 1, 1, "2026-01-02", False, nothing)
    assert not (tmp_path / "x.csv").exists()


def test_the_warm_up_is_of_the_same_make() -> None:
    shape = replace(draw_shape(5, 1), precision="bf16", optimizer="adagrad")
    small = smallest(shape)
    assert (small.type, small.precision, small.optimizer) == (shape.type, "bf16", "adagrad")
    assert work_of(small) < 0.1 * work_of(shape) or work_of(shape) < 1e7
