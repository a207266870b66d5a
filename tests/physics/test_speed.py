from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.cluster import Network
from flyball.core.errors import BadInput
from flyball.core.workload import JobClass
from flyball.physics import catalogue, measured
from flyball.physics.network import spread_factor
from flyball.physics.roofline import attainable_tflops, relative_speed, training_format
from flyball.physics.speed import Speed, speed

NETWORK = Network()
V100, P100, K80, A100, H100 = map(catalogue.get, ("V100", "P100", "K80", "A100", "H100"))
COMPUTE = JobClass.COMPUTE_INTENSIVE

devices = st.sampled_from(list(catalogue.load().values()))
kinds = st.sampled_from(list(JobClass))
STEP_TIMED = ("bert:384", "cifar10:2048", "imagenet", "ncf:32768", "yolov3:64")
models = st.sampled_from(
    [None, "unheard-of", "A3C", *STEP_TIMED, *(key.text for key in measured.models())]
)
counts = st.integers(1, 64)


def packed(model: str | None, device: str, base: str, count: int = 1) -> Speed:
    return speed(model, COMPUTE, catalogue.get(device), catalogue.get(base), count, False, NETWORK)


@given(models, kinds, devices, counts)
def test_base_on_base_packed_is_exactly_one(
    model: str | None, kind: JobClass, device: catalogue.DeviceType, count: int
) -> None:
    assert speed(model, kind, device, device, count, False, NETWORK).value == 1.0


@given(models, kinds, devices, devices, counts, st.booleans())
def test_speeds_are_finite_and_not_negative(
    model: str | None,
    kind: JobClass,
    device: catalogue.DeviceType,
    base: catalogue.DeviceType,
    count: int,
    spread: bool,
) -> None:
    result = speed(model, kind, device, base, count, spread, NETWORK)
    assert 0.0 <= result.value < 10_000.0  # a board against a single core
    assert result.basis


@given(models, kinds, devices, devices, counts)
def test_an_estimated_speed_is_never_higher_spread(
    model: str | None,
    kind: JobClass,
    device: catalogue.DeviceType,
    base: catalogue.DeviceType,
    count: int,
) -> None:
    together = speed(model, kind, device, base, count, False, NETWORK)
    apart = speed(model, kind, device, base, count, True, NETWORK)
    if apart.estimated:
        assert apart.value <= together.value
    if count == 1:
        assert apart == together


def test_measured_ratio() -> None:
    result = packed("ResNet-18 (batch size 32)", "V100", "K80")
    key = measured.ModelKey("ResNet-18", 32)
    fast, slow = measured.steps_per_s("v100", key, 1), measured.steps_per_s("k80", key, 1)
    assert fast and slow
    assert result.value == pytest.approx(fast / slow, rel=1e-12)
    assert not result.estimated
    back = packed("resnet-18:32", "K80", "V100")
    assert back.value * result.value == pytest.approx(1.0)


def test_what_did_not_fit_cannot_run() -> None:
    assert packed("ResNet-50:128", "K80", "V100", 2) == Speed(
        0.0, False, "measured: Gavel, ResNet-50 (batch size 128), 2 devices"
    )


def test_a_base_that_is_said_not_to_fit_falls_back_to_the_roofline() -> None:
    result = packed("ResNet-50:128", "V100", "K80", 2)
    assert result.estimated
    assert result.value == pytest.approx(1.0 / relative_speed(K80, COMPUTE))


def test_an_unmeasured_count_takes_the_nearest_lower_and_says_so() -> None:
    six = packed("LM:20", "P100", "V100", 6)
    assert six.value == packed("LM:20", "P100", "V100", 4).value
    assert six.estimated
    assert six.basis.endswith("4 devices instead of 6")


def test_one_measured_type_goes_by_way_of_the_v100() -> None:
    model = "CycleGAN"
    result = packed(model, "A100", "P100")
    assert result.estimated
    expected = relative_speed(A100, COMPUTE) * packed(model, "V100", "P100").value
    assert result.value == pytest.approx(expected)


def test_unmeasured_types_go_by_the_roofline() -> None:
    result = packed("CycleGAN", "H100", "A100")
    assert result == Speed(
        relative_speed(H100, COMPUTE) / relative_speed(A100, COMPUTE),
        True,
        "roofline, compute-intensive",
    )


def test_measured_spread() -> None:
    result = speed("LM:20", JobClass.BANDWIDTH_LIMITED, V100, V100, 4, True, NETWORK)
    key = measured.ModelKey("LM", 20)
    apart, together = (
        measured.steps_per_s("v100", key, 4, packed_gang) for packed_gang in (False, True)
    )
    assert apart and together
    assert result.value == apart / together < 0.5
    assert not result.estimated


def test_spread_that_was_not_measured_goes_by_the_network() -> None:
    for model in ("Recommendation", None):
        result = speed(model, JobClass.MIXED, V100, V100, 4, True, NETWORK)
        assert result.value == spread_factor(V100, JobClass.MIXED, 4, NETWORK) < 1.0
        assert result.estimated


def test_a_gang_that_needs_several_nodes_loses_nothing_more() -> None:
    result = speed(None, COMPUTE, V100, V100, 16, True, NETWORK, devices_per_node=8)
    assert result.value == 1.0


def test_impossible_questions() -> None:
    with pytest.raises(BadInput, match="gang of 0"):
        packed(None, "V100", "V100", 0)
    counter = replace(V100, name="counter", peak_tflops={"int8": 1.0}, measured_as="")
    assert speed(None, COMPUTE, counter, V100, 1, False, NETWORK).value == 0.0
    with pytest.raises(BadInput, match="no compute-intensive job can run on counter"):
        speed(None, COMPUTE, V100, counter, 1, False, NETWORK)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("ResNet-18 (batch size 32)", ("ResNet-18", 32)),
        ("resnet-18:32", ("ResNet-18", 32)),
        ("ResNet-18", ("ResNet-18", 64)),
        ("ResNet-50", ("ResNet-50", 32)),
        (" A3C ", ("A3C", 0)),
        ("ResNet-18:48", None),
        ("GPT-9", None),
        ("", None),
        (None, None),
    ],
)
def test_model_names(written: str | None, key: tuple[str, int] | None) -> None:
    assert measured.model_key(written) == key


def test_the_whole_table_is_there() -> None:
    assert len(measured.models()) == 26
    for key in measured.models():
        assert measured.model_key(key.text) == key


def test_roofline_by_hand() -> None:
    # 900 GB/s at 25 FLOP/B is below 0.7 x 125 TFLOP/s; a K80's 0.7 x 4.37 is below 240 x 25.
    assert attainable_tflops(V100, COMPUTE) == pytest.approx(22.5)
    assert attainable_tflops(K80, COMPUTE) == pytest.approx(3.059)
    assert relative_speed(K80, COMPUTE) == pytest.approx(1 / (0.1 + 0.9 * 22.5 / 3.059))
    assert training_format(A100) == "bf16"
    assert training_format(K80) == "fp32"


@given(kinds, devices, st.floats(1.0, 10.0))
def test_more_bandwidth_and_more_peak_never_hurt(
    kind: JobClass, device: catalogue.DeviceType, times: float
) -> None:
    wider = replace(device, bandwidth_gb_s=device.bandwidth_gb_s * times)
    peaks = {key: value * times for key, value in device.peak_tflops.items()}
    faster = replace(wider, peak_tflops=peaks)
    speeds = [relative_speed(variant, kind) for variant in (device, wider, faster)]
    assert speeds == sorted(speeds)


@given(kinds, devices, counts, st.floats(0.1, 2000), st.floats(0.1, 2000))
def test_a_slower_network_never_helps(
    kind: JobClass, device: catalogue.DeviceType, count: int, one: float, other: float
) -> None:
    slow, fast = sorted((one, other))
    factors = [
        spread_factor(device, kind, count, Network(between, 1200.0)) for between in (slow, fast)
    ]
    assert 0.0 < factors[0] <= factors[1] <= 1.0
    larger = spread_factor(device, kind, count + 1, Network(slow, 1200.0))
    assert larger <= factors[0]


def test_a_network_needs_bandwidth() -> None:
    with pytest.raises(BadInput, match="above 0"):
        spread_factor(V100, COMPUTE, 2, Network(0.0, 1200.0))
