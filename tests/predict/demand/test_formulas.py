"""Analytic estimates: counted by hand, fitted to data with known coefficients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flyball.core.errors import BadInput, UnknownName
from flyball.predict.demand.formulas import VALUE, Row, codes, measured_logs, number
from flyball.predict.demand.memory import Memory
from flyball.predict.demand.operators import Chip, Operators, count_of
from flyball.predict.demand.step_times import StepTimes
from flyball.predict.demand.throughput import Throughput

CHIP = Chip(1e13, 1e12, 10, 1000, 2**20)


def test_a_matrix_product_by_hand() -> None:
    row = {"op": "linear", "gpu": "x", "B": "2", "M": "128", "N": "256", "K": "64", "H": ""}
    counted = count_of(row)
    assert counted.flops == 2 * 2 * 128 * 256 * 64
    assert counted.moved == 4 * (2 * 128 * 64 + 256 * 64 + 2 * 128 * 256)
    assert counted.tiles == 4
    assert counted.filled == 1.0
    formula = Operators({"x": CHIP})
    expected = max(counted.flops / 1e13, counted.moved / 1e12)
    assert formula.logs([row])[0] == pytest.approx(math.log(expected))
    by_name = dict(zip(formula.names, formula.features([row])[0], strict=True))
    assert by_name["log_waves"] == pytest.approx(math.log(0.4))
    assert math.isnan(by_name["log_h"])


def test_elementwise_moves_what_it_must() -> None:
    assert count_of({"op": "add", "B": 10, "H": 100}).moved == 12_000
    assert count_of({"op": "relu", "B": 10, "H": 100}).moved == 8_000


def test_operators_refuse() -> None:
    with pytest.raises(UnknownName, match="operator"):
        count_of({"op": "conv9d"})
    with pytest.raises(BadInput, match="H is None"):
        count_of({"op": "relu", "B": 3})
    with pytest.raises(UnknownName, match="device"):
        Operators().logs([{"op": "relu", "gpu": "abacus", "B": 3, "H": 4}])


def test_devices_of_the_catalogue_serve() -> None:
    formula = Operators({"Tesla T4": CHIP})
    assert formula.chip("T4") == CHIP
    assert formula.chip("A100").peak_flops == pytest.approx(19.5e12, rel=0.01)
    assert math.isnan(formula.features([{"op": "relu", "gpu": "A100", "B": 9, "H": 9}])[0, 3])


def sia(placement: str, batch: float, seconds: float, application: str = "bert") -> Row:
    base = {"application": application, "cluster": "aws", "placement": placement}
    return {**base, "local_bsz": batch, VALUE: seconds}


def test_step_times_are_found_again() -> None:
    """0.1 s, 10 ms a sample, 50 ms to exchange in a node and 5 ms for each further device."""
    rows = []
    for placement in ("1", "2", "4", "22", "44"):
        for batch in (4, 8, 16, 32):
            devices, nodes = sum(int(digit) for digit in placement), len(placement)
            exchange = 0.0 if devices == 1 else 0.05 + 0.005 * (devices - 2)
            seconds = 0.1 + 0.01 * batch + exchange * (3 if nodes > 1 else 1)
            rows.append(sia(placement, batch, seconds))
    formula = StepTimes()
    formula.fit(rows, measured_logs(rows))
    np.testing.assert_allclose(formula.logs(rows), measured_logs(rows), atol=1e-6)
    other = StepTimes()
    other.restore(formula.as_dict())
    np.testing.assert_array_equal(other.features(rows), formula.features(rows))
    unknown = formula.logs([sia("1", 8, 1.0, "never seen")])
    assert np.isfinite(unknown[0])
    with pytest.raises(BadInput, match="placement"):
        formula.logs([sia("a0", 8, 1.0)])


def gavel(model: str, kind: str, devices: int, batch: int) -> dict[str, Any]:
    speed = {"A": 10.0, "B": 3.0}[model] * {"k80": 0.2, "v100": 1.0}[kind]
    value = speed * devices**0.8 * (32 / batch) ** 0.9
    base = {"model": model, "gpu_type": kind, "num_gpus": str(devices), "batch_size": f"{batch}.0"}
    return {**base, "consolidated": "1", VALUE: value}


def test_throughput_of_what_was_not_measured() -> None:
    rows = [
        gavel(model, kind, devices, batch)
        for model in "AB"
        for kind in ("k80", "v100")
        for devices in (1, 2, 4)
        for batch in (16, 32, 64, 128)
    ]
    left_out = rows[::5]
    kept = [row for row in rows if row not in left_out]
    formula = Throughput()
    formula.fit(kept, measured_logs(kept))
    np.testing.assert_allclose(formula.logs(left_out), measured_logs(left_out), atol=0.15)
    other = Throughput()
    other.restore(formula.as_dict())
    np.testing.assert_array_equal(other.logs(rows), formula.logs(rows))


def test_memory_factors_are_found_again() -> None:
    draw = np.random.default_rng(0)
    rows: list[Row] = []
    for _ in range(50):
        parameters, activations = draw.integers(10_000, 10_000_000), draw.integers(100, 10_000)
        mib = (4 * 4 * parameters + 2 * 4 * activations * 64) / 2**20 + 8.0
        row = {"total_parameters": parameters, "total_activations": activations, "batch_size": 64}
        rows.append({**row, "depth": 3, "arch": "a", VALUE: mib})
    formula = Memory()
    formula.fit(rows, measured_logs(rows))
    assert formula.as_dict()["terms"] == pytest.approx([4.0, 2.0, 8.0], rel=1e-3)


def test_numbers_and_codes() -> None:
    assert number({"a": "2.5"}, "a") == 2.5
    assert number({}, "a", 7.0) == 7.0
    for bad in ("x", -1, 0, math.inf, None):
        with pytest.raises(BadInput):
            number({"a": bad}, "a")
    np.testing.assert_array_equal(codes([{"a": "y"}, {"a": "?"}], "a", ["x", "y"]), [1, np.nan])
