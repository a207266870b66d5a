"""Goodput of elastic jobs: by hand, against every batch size, and where nothing is known."""

from __future__ import annotations

import pytest

from flyball.core.errors import BadInput
from flyball.physics.goodput import Amdahl, Measured, Training, apart, growth, relative
from flyball.physics.measured import elasticflow
from flyball.physics.step_time import applications, step_time_s


def test_with_the_batch_fixed_only_the_step_time_counts() -> None:
    curve = growth("cifar10 (batch size 2048)", adaptive=False)
    assert curve is not None
    compute_s = 0.0081 + 0.000788 * 512  # four T4: 512 samples on each
    exchange_s = 0.043 + 0.0045 * 2
    four_s = (compute_s**2.9 + exchange_s**2.9) ** (1 / 2.9)
    one_s = 2 * (0.0081 + 0.000788 * 1024)  # one T4: two pieces of 1024
    assert relative(curve, "T4", 1, 4, 4) == pytest.approx(one_s / four_s, rel=1e-12)
    assert relative(curve, "T4", 4, 1, 4) == pytest.approx(four_s / one_s, rel=1e-12)
    assert relative(curve, "T4", 4, 4, 4) == 1.0


def test_a_gang_beyond_a_node_pays_for_the_network() -> None:
    curve = growth("bert:384", adaptive=False)
    assert curve is not None
    inside, across = (relative(curve, "T4", 1, 8, per_node) for per_node in (8, 4))
    assert across < inside
    assert apart(curve, "T4", 8, 4) == 1.0, "on several nodes anyway"
    spread = apart(curve, "T4", 4, 4)
    assert spread == pytest.approx(
        step_time_s("bert", "T4", 4, False, 96) / step_time_s("bert", "T4", 4, True, 96)  # type: ignore[operator]
    )
    assert apart(curve, "T4", 1, 4) == 1.0


@pytest.mark.parametrize("name", ["bert", "deepspeech2", "yolov3"])
@pytest.mark.parametrize(("device", "count"), [("T4", 1), ("RTX2080Ti", 4), ("A100-40GB", 8)])
def test_the_adaptive_batch_is_nearly_the_best_of_all(name: str, device: str, count: int) -> None:
    application = applications()[name]
    training = Training(name, application.first_batch, adapts=True)
    best = training.best(device, count, False)
    assert best is not None
    everything = range(application.first_batch, application.largest_batch + 1)
    goodput = [
        application.gain(batch) / (step_time_s(name, device, count, False, batch / count) or 0.0)
        for batch in everything
    ]
    assert application.first_batch <= best.batch <= application.largest_batch
    assert best.per_s == pytest.approx(max(goodput), rel=0.005)


def test_an_adaptive_batch_is_never_slower_and_smaller_on_fewer_devices() -> None:
    for count in (1, 2, 4, 8, 16):
        fixed = Training("cifar10", 2048, adapts=False).per_s("T4", count, count > 4)
        free = Training("cifar10", 2048, adapts=True).per_s("T4", count, count > 4)
        assert fixed is not None and free is not None and free >= fixed
    sizes = [Training("cifar10", 2048, adapts=True).best("T4", n, n > 4) for n in (1, 4, 16)]
    batches = [best.batch for best in sizes if best is not None]
    assert batches == sorted(batches) and batches[0] < batches[-1]
    assert relative(Training("cifar10", 4096, adapts=True), "T4", 12, 12, 4) > 1.0


def test_figures_of_the_same_chip_serve_but_may_not_praise_spreading() -> None:
    curve = growth("imagenet:3200", adaptive=False)
    assert curve is not None
    assert relative(curve, "A100", 8, 2, 8) == relative(curve, "A100-40GB", 8, 2, 8)
    assert (apart(curve, "A100-40GB", 4, 8) or 0.0) > 1.0, "measured so: the network is as fast"
    assert apart(curve, "A100", 4, 8) == 1.0


def test_what_was_not_measured_is_not_made_up() -> None:
    alone = growth("ncf:32768", adaptive=False)
    assert alone is not None
    assert relative(alone, "T4", 1, 1, 4) == 1.0
    assert relative(alone, "T4", 1, 2, 4) == 0.0, "measured on one device only"
    assert apart(alone, "T4", 2, 4) is None
    bert = growth("bert:384", adaptive=False)
    assert bert is not None
    assert relative(bert, "H100", 4, 2, 8) == 0.0
    assert growth("ResNet-18 (batch size 32)", adaptive=True) is None
    assert growth("nobody's model", adaptive=False) is None
    assert growth(None, adaptive=False) is None


def test_a_model_of_elasticflow_is_known_on_its_own_type() -> None:
    table = elasticflow()["vgg16", 256]
    curve = growth("vgg16 (batch size 256)", adaptive=True)
    assert isinstance(curve, Measured) and not curve.adapts
    assert relative(curve, table.device, 2, 4, 8) == pytest.approx(
        table.per_s[4] / table.per_s[2], rel=1e-12
    )
    assert relative(curve, table.device, 2, 3, 8) == 0.0, "three devices were not measured"
    assert relative(curve, "V100", 2, 4, 8) == 0.0
    bert = growth("elasticflow-bert (batch size 64)", adaptive=False)
    assert isinstance(bert, Measured)


def test_the_part_that_devices_share_can_be_stated() -> None:
    curve = growth("amdahl:0.8", adaptive=True)
    assert curve == Amdahl(0.8)
    assert relative(curve, "T4", 1, 4, 4) == pytest.approx(1 / (0.2 + 0.8 / 4))
    assert relative(curve, "CPU1", 4, 1, 2) == pytest.approx(0.2 + 0.8 / 4)
    assert apart(curve, "T4", 4, 4) is None, "what the network costs is for others to say"


@pytest.mark.parametrize("text", ["amdahl:", "amdahl:x", "amdahl:1.1", "amdahl:-0.1", "amdahl:nan"])
def test_a_part_that_is_none(text: str) -> None:
    with pytest.raises(BadInput, match="from 0 to 1"):
        growth(text, adaptive=False)
