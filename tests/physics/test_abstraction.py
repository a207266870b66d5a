from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.workload import JobClass
from flyball.physics import catalogue
from flyball.physics.abstraction import acu, profile
from flyball.physics.catalogue import DeviceType
from flyball.physics.roofline import relative_speed

devices = st.sampled_from(list(catalogue.load().values()))
kinds = st.sampled_from(list(JobClass))


def test_a_v100_is_exactly_one_unit() -> None:
    one = catalogue.reference()
    assert acu(one) == 1.0
    own = profile(one)
    assert set(own.throughput.values()) == {1.0}
    assert set(own.efficiency.values()) == {1.0}
    assert (own.memory, own.bandwidth) == (1.0, 1.0)


@given(devices, kinds)
def test_units_are_speed_and_lie_in_the_overall_units(device: DeviceType, kind: JobClass) -> None:
    own = profile(device)
    assert own.throughput[kind] == acu(device, kind) == relative_speed(device, kind) > 0
    low, high = min(own.throughput.values()), max(own.throughput.values())
    assert low * (1 - 1e-12) <= acu(device) <= high * (1 + 1e-12)


def test_newer_devices_are_worth_more() -> None:
    order = [acu(catalogue.get(name)) for name in ("K80", "P100", "V100", "A100", "H100")]
    assert order == sorted(order)


def test_a_low_power_card_does_more_work_per_joule() -> None:
    own = profile(catalogue.get("T4"))
    assert own.throughput[JobClass.COMPUTE_INTENSIVE] == pytest.approx(0.38, abs=0.01)
    assert own.efficiency[JobClass.COMPUTE_INTENSIVE] > 1.5
    assert own.memory == 1.0
