from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from flyball.core.cluster import NodeGroup
from flyball.core.errors import UnknownName
from flyball.physics import catalogue
from flyball.physics.catalogue import DeviceType
from flyball.physics.page import page

ASKED_FOR = {
    *("H100", "A100", "V100", "P100", "K80", "T4", "L4", "A10", "RTX2080Ti", "RTX6000"),
    *("MI250", "TPUv3", "TPUv4", "CPU32", "CPU64", "EdgeNPU", "FPGA"),
}
FIGURES = (
    *("memory_gib", "bandwidth_gb_s", "idle_w", "peak_w"),
    *("node_devices", "host_w", "sleep_w", "wake_s"),
)


def all_figures(device: DeviceType) -> dict[str, float]:
    figures = {f"peak_tflops.{key}": value for key, value in device.peak_tflops.items()}
    for name in FIGURES:
        figures[name] = getattr(device, name)
    return figures


def test_every_type_is_there() -> None:
    assert set(catalogue.names()) >= ASKED_FOR


@pytest.mark.parametrize("name", catalogue.names())
def test_every_figure_has_a_source_and_makes_sense(name: str) -> None:
    device = catalogue.get(name)
    figures = all_figures(device)
    assert set(figures) == set(device.sources)
    assert set(device.sources.values()) <= set(catalogue.sources())
    assert all(value > 0 for value in figures.values())
    assert device.idle_w < device.peak_w
    assert device.kind in {"gpu", "tpu", "cpu", "npu", "fpga"}
    assert device.cap_curve in catalogue.document()["cap_curves"]


def test_cap_curves_have_sources_and_no_source_is_idle() -> None:
    curves = catalogue.document()["cap_curves"].values()
    used = {curve["source"] for curve in curves}
    for device in catalogue.load().values():
        used |= set(device.sources.values())
    assert used == set(catalogue.sources())


def test_peaks_do_not_fall_with_shorter_formats() -> None:
    order = ("fp64", "fp32", "tf32", "fp16", "int8")
    for device in catalogue.load().values():
        peaks = [device.peak_tflops[name] for name in order if name in device.peak_tflops]
        assert peaks == sorted(peaks), device.name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("v100", "V100"),
        ("rtx2080ti", "RTX2080Ti"),
        ("RTX 2080 Ti", "RTX2080Ti"),
        ("2080ti", "RTX2080Ti"),
        ("TPUv3", "TPUv3"),
        ("tpu-v4", "TPUv4"),
        ("cpu64", "CPU64"),
        ("CPU-32", "CPU32"),
        ("V100M32", "V100-32GB"),
        ("a100-80gb", "A100"),
        ("Edge-NPU", "EdgeNPU"),
    ],
)
def test_names_are_forgiving(alias: str, name: str) -> None:
    assert catalogue.get(alias).name == name


def test_unknown_name_says_what_was_meant() -> None:
    with pytest.raises(UnknownName, match="did you mean 'H100'"):
        catalogue.get("H1000")


def test_devices_can_be_keys_and_travel_between_processes() -> None:
    device = catalogue.get("V100")
    assert {device: 1}[pickle.loads(pickle.dumps(device))] == 1


def test_the_page_is_what_the_data_says() -> None:
    written = Path(__file__).parents[2] / "docs" / "reference" / "devices.md"
    assert written.read_text("utf-8") == page()


@pytest.mark.parametrize(
    ("groups", "unit"),
    [
        ([("CPU1", 4, 4)], "core"),
        ([("CPU1", 64, 128)], "device"),  # two cores each
        ([("V100", 8, 64), ("A100", 8, 64)], "GPU"),
        ([("V100", 8, 64), ("CPU1", 4, 4)], "device"),
        ([("not in the catalogue", 8, 64)], "device"),
    ],
)
def test_devices_are_called_what_users_call_them(
    groups: list[tuple[str, int, int]], unit: str
) -> None:
    nodes = [NodeGroup("n", 1, device, devices, cpus) for device, devices, cpus in groups]
    assert catalogue.unit_of(nodes) == unit
