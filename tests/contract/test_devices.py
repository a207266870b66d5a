"""What every device type of the catalogue owes: sane figures, sources, names of its own.

To be in the catalogue is to earn these tests; they run over all of it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from flyball.core.workload import JobClass
from flyball.physics import catalogue
from flyball.physics.abstraction import acu
from flyball.physics.power import cap_factors, draw_w
from flyball.twin.inputs.traces.gpus import device_of

EVERY_DEVICE = pytest.mark.parametrize("name", catalogue.names())
ACCELERATORS = [
    *("H200", "B200", "H20", "H800", "A800", "L40S", "L40", "A40", "RTXA6000", "RTX6000Ada"),
    *("RTX3090", "RTX4090", "RTX5090", "MI210", "MI300X", "MI325X", "Gaudi2", "Gaudi3"),
    *("TPUv5e", "TPUv5p", "TPUv6e", "Trainium1", "Trainium2", "Inferentia2", "JetsonOrin"),
]


def plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


@pytest.mark.parametrize("name", ACCELERATORS)
def test_todays_hardware_is_known(name: str) -> None:
    assert catalogue.get(name).name == name


@EVERY_DEVICE
def test_figures_are_within_what_is_possible(name: str) -> None:
    device = catalogue.get(name)
    assert 1 <= device.memory_gib <= 1024
    assert 1 <= device.bandwidth_gb_s <= 20_000
    assert 1 <= device.peak_w <= 2_000
    assert 0.05 * device.peak_w <= device.idle_w <= 0.6 * device.peak_w
    assert 1 <= device.node_devices <= 64
    assert 0 < device.sleep_w < device.host_w + device.node_devices * device.peak_w
    assert all(0.01 <= peak <= 20_000 for peak in device.peak_tflops.values())
    assert set(device.peak_tflops) <= {"fp64", "fp32", "tf32", "bf16", "fp16", "int8"}


@EVERY_DEVICE
def test_shorter_formats_are_no_slower(name: str) -> None:
    peaks = catalogue.get(name).peak_tflops
    for wide, narrow in (("fp64", "fp32"), ("fp32", "bf16"), ("bf16", "int8"), ("tf32", "bf16")):
        if wide in peaks and narrow in peaks:
            assert peaks[wide] <= peaks[narrow], (wide, narrow)


@EVERY_DEVICE
def test_every_figure_names_a_source(name: str) -> None:
    device = catalogue.get(name)
    texts = catalogue.sources()
    for figure, source in device.sources.items():
        assert len(texts[source]) > 10, figure


@EVERY_DEVICE
def test_device_can_run_something_and_draws_power(name: str) -> None:
    device = catalogue.get(name)
    for kind in JobClass:
        assert acu(device, kind) > 0
        assert device.idle_w <= draw_w(device, kind) <= device.peak_w
    time_factor, power_factor = cap_factors(device, 0.75)
    assert time_factor >= 1 >= power_factor > 0


@EVERY_DEVICE
def test_more_of_everything_is_no_slower(name: str) -> None:
    """A type with at least the peak and bandwidth of another is at least as fast."""
    device = catalogue.get(name)
    for other in catalogue.load().values():
        formats = ("bf16", "fp16", "tf32", "fp32")
        ours, theirs = (
            next((candidate.peak_tflops[f] for f in formats if f in candidate.peak_tflops), 0.0)
            for candidate in (device, other)
        )
        if ours >= theirs and device.bandwidth_gb_s >= other.bandwidth_gb_s:
            for kind in JobClass:
                assert acu(device, kind) >= acu(other, kind), (other.name, kind)


def test_every_name_means_one_type() -> None:
    claimed = Counter(
        plain(name)
        for device in catalogue.load().values()
        for name in {plain(alias) for alias in (device.name, *device.aliases)}
    )
    assert {name for name, count in claimed.items() if count > 1} == set()


@EVERY_DEVICE
def test_every_alias_resolves_to_its_type(name: str) -> None:
    device = catalogue.get(name)
    for alias in (device.name, *device.aliases):
        for written in (alias, alias.upper(), alias.replace("-", "_"), alias.replace("-", " ")):
            assert catalogue.get(written).name == name, written
            assert device_of(written) == name, written
