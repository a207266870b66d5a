"""One description: an estimate with a band, whatever is missing."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.errors import BadInput, DataAbsent, UnknownName
from flyball.predict.demand.counts import count, kind_of
from flyball.predict.demand.describe import CONTEXT_MIB, one
from flyball.predict.demand.formulas import shared_rows
from flyball.predict.demand.operators import CATALOGUE_NAMES

BERT = {
    "model_type": "bert",
    "parameters": 1.1e8,
    "batch_size": 32,
    "input_size": 128,
    "layers": 12,
    "precision": "fp32",
    "optimizer": "adam",
}


def test_counted_by_hand() -> None:
    counted = count({**BERT, "model_type": "mlp"})
    assert counted.flops == pytest.approx(3 * 2 * 1.1e8 * 32)
    assert counted.weights == pytest.approx(1.1e8 * (4 + 4 + 8))
    assert not counted.gaps
    resnet = {"model_type": "resnet50", "parameters": 25.6e6, "batch_size": 1}
    assert count({**resnet, "input_size": 224}).flops == pytest.approx(3 * 8.2e9, rel=0.01)
    mixed = count({**BERT, "precision": "fp16", "optimizer": "sgd"})
    assert mixed.weights == pytest.approx(1.1e8 * (2 + 2 + 4))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("ResNet-50", "cnn"), ("GPT-2", "transformer"), ("LSTM", "rnn"), ("MLP", "mlp"), ("?", "")],
)
def test_kinds(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_a_full_description() -> None:
    demand = one(BERT, "A100")
    assert 0.02 < demand.step_s.value < 1.0
    assert demand.step_s.high / demand.step_s.low == pytest.approx(9.0)
    assert "roofline of A100" in demand.step_s.basis
    assert demand.memory_mib.value > CONTEXT_MIB + 1_600
    assert 0.0 < demand.utilisation.value <= 1.0
    assert demand.utilisation.high <= 1.0
    assert demand.remarks == ()
    assert demand.run_s is None
    whole = one({**BERT, "iterations": 100}, "A100").run_s
    assert whole is not None
    assert whole.high == pytest.approx(100 * demand.step_s.high)
    faster = one({**BERT, "precision": "bf16"}, "A100")
    assert faster.step_s.value < demand.step_s.value


def test_an_unknown_type_and_missing_fields_widen_the_band() -> None:
    demand = one({"model_type": "quantum soup"}, "T4")
    assert demand.step_s.high / demand.step_s.low > 1e4
    assert demand.step_s.value > 0.0
    assert any("'quantum soup' is not known" in remark for remark in demand.remarks)
    assert any("parameters, batch_size" in remark for remark in demand.remarks)
    nothing = one({}, "T4")
    assert nothing.flops.value > 0.0
    assert any("model_type" in remark for remark in nothing.remarks)


def test_measured_models_go_first() -> None:
    demand = one({"model": "bert:48"}, "T4")
    assert demand.step_s.basis.startswith("measured")
    assert demand.step_s.high / demand.step_s.low < 3.0
    gavel = one({"model": "ResNet-18:32"}, "V100", 2)
    assert "Gavel, ResNet-18 (batch size 32) on 2 x V100" in gavel.step_s.basis
    other = one({**BERT, "model": "my-own"}, "V100", 2)
    assert "roofline" in other.step_s.basis
    assert any("was not measured" in remark for remark in other.remarks)
    assert any("exchange of gradients" in remark for remark in other.remarks)


def test_a_gang_shares_activations_but_not_weights() -> None:
    alone, four = one(BERT, "A100"), one(BERT, "A100", 4)
    weights_mib = count(BERT).weights / 2**20
    assert four.memory_mib.value < alone.memory_mib.value
    assert four.memory_mib.value > CONTEXT_MIB + weights_mib


def test_too_large() -> None:
    demand = one({**BERT, "parameters": 7e10, "layers": 80}, "T4")
    assert any("do not fit" in remark for remark in demand.remarks)


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": -1},
        {"batch_size": "many"},
        {"layers": 0},
        {"precision": "fp7"},
        {"optimizer": "hope"},
    ],
)
def test_values_that_cannot_be(change: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        one({**BERT, **change}, "A100")


def test_devices_that_cannot_be() -> None:
    with pytest.raises(UnknownName):
        one(BERT, "abacus")
    with pytest.raises(BadInput):
        one(BERT, "A100", 0)


SIZES = {
    "bert_large": (3.4e8, 24),
    "gpt2_large": (7.74e8, 36),
    "gpt3_xl": (1.3e9, 24),
    "opt_13": (1.3e9, 24),
    "gpt3_27": (2.7e9, 32),
}
"""Published parameters and layers."""


def test_the_factor_of_three_against_whole_models() -> None:
    """NeuSight's training steps on one device; the counts were not fitted to them."""
    try:
        rows = list(shared_rows("dnn_perf", "neusight_model_latency.csv.gz"))
    except DataAbsent:
        pytest.skip("no shared data")
    names = {name.replace(" ", "_"): alias for name, alias in CATALOGUE_NAMES.items()}
    ratios = []
    for row in rows:
        size, device = SIZES.get(row["model_name"]), names.get(row["device"])
        if row["mode"] != "train" or row["option"] or size is None or device is None:
            continue
        stated = {"parameters": size[0], "layers": size[1], "batch_size": row["batch"]}
        given = {"model_type": "transformer", "input_size": row["seqlen"], **stated}
        ratios.append(one(given, device).step_s.value * 1e3 / float(row["measured_e2e_ms"]))
    assert len(ratios) == 22
    assert np.median(ratios) == pytest.approx(0.80, abs=0.02)
    assert np.mean((np.array(ratios) > 1 / 3) & (np.array(ratios) < 3)) >= 0.95
