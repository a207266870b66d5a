"""The published net: its shape, that it learns, and its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.demand.own_steps import own_rows

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from flyball.experiments.demand.published_net import BiGruTransformer, DemandNet, NetSettings  # noqa: E402

SMALL = NetSettings(heads=2, key_channels=4, channels=8, epochs=40, later_from=30, batch=64)
ROWS = own_rows()[:160]
LOGS: Floats = np.log([float(str(row["step_s"])) for row in ROWS])


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_the_stated_shape() -> None:
    use = NetSettings()
    assert (use.layers, use.heads, use.key_channels, use.places) == (2, 4, 32, 512)
    assert (use.forward_units, use.backward_units, use.dropout) == (6, 10, 0.01)
    assert (use.rate, use.later_rate, use.later_from, use.epochs) == (0.01, 0.001, 80, 200)
    assert (use.batch, use.l2, use.clip) == (256, 0.001, 10.0)
    shapes = {
        name: tuple(weights.shape)
        for name, weights in BiGruTransformer(use, 6, [3]).state_dict().items()
    }
    assert shapes["attention.0.into.weight"] == shapes["attention.1.into.weight"] == (3 * 128, 32)
    assert shapes["onward.weight_hh_l0"] == (3 * 6, 6)
    assert shapes["backward_.weight_hh_l0"] == (3 * 10, 10)
    assert shapes["places.weight"] == (512, 32)
    assert shapes["head.weight"] == (1, 16)


def test_the_backward_gru_reads_from_the_end() -> None:
    """With the onward ends silenced, the first column is the last that is read."""
    torch.manual_seed(1)
    net = BiGruTransformer(SMALL, 3, []).eval()
    net.attention = torch.nn.Sequential()
    with torch.no_grad():
        net.head.weight[:, : SMALL.forward_units] = 0.0
        base = torch.zeros(1, 3)
        first, last = base.clone(), base.clone()
        first[0, 0] = last[0, 2] = 1.0
        none = torch.zeros(1, 0, dtype=torch.int64)
        moved = [abs(float(net(changed, none) - net(base, none))) for changed in (first, last)]
    assert moved[0] > moved[1] > 0.0


def test_it_learns_and_is_the_same_again(tmp_path: Path) -> None:
    net = DemandNet(SMALL, counted=True)
    net.fit(ROWS[:120], LOGS[:120])
    predicted = net.predict(ROWS)
    seen = 1.0 - np.mean((predicted - LOGS)[:120] ** 2) / np.var(LOGS[:120])
    held = 1.0 - np.mean((predicted - LOGS)[120:] ** 2) / np.var(LOGS[120:])
    assert seen > 0.8
    assert held > 0.4
    twin = DemandNet(SMALL, counted=True)
    twin.fit(ROWS[:120], LOGS[:120])
    np.testing.assert_allclose(twin.predict(ROWS), predicted)
    net.save(tmp_path / "net")
    card = json.loads((tmp_path / "net.json").read_text())
    assert "flops" in card["numbers"]
    assert (tmp_path / "net.safetensors").exists()
    np.testing.assert_array_equal(DemandNet.load(tmp_path / "net").predict(ROWS), predicted)


def test_an_unknown_category() -> None:
    net = DemandNet(NetSettings(heads=1, key_channels=2, channels=4, epochs=1))
    net.fit(ROWS[:40], LOGS[:40])
    predicted = net.predict([{**ROWS[0], "model_type": "diffusion"}])
    assert np.all(np.isfinite(predicted))


def test_files_that_do_not_serve(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no demand net"):
        DemandNet.load(tmp_path / "none")
    net = DemandNet(NetSettings(heads=1, key_channels=2, channels=4, epochs=1))
    net.fit(ROWS[:20], LOGS[:20])
    net.save(tmp_path / "net")
    card = json.loads((tmp_path / "net.json").read_text())
    (tmp_path / "net.json").write_text(json.dumps({**card, "version": 99}))
    with pytest.raises(BadInput, match="another kind"):
        DemandNet.load(tmp_path / "net")
