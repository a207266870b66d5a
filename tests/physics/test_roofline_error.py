"""How far the roofline is from measured ratios; docs/concept/abstraction.md quotes these."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from flyball.core.cluster import Network
from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data
from flyball.core.workload import JobClass
from flyball.physics import catalogue, measured
from flyball.physics.catalogue import DeviceType
from flyball.physics.network import spread_factor
from flyball.physics.roofline import relative_speed
from flyball.schedule.classify import classify_one

PAGE = Path(__file__).parents[2] / "docs" / "concept" / "abstraction.md"

NEUSIGHT_DEVICES = {
    "Tesla_P100-PCIE-16GB": "P100",
    "Tesla_T4": "T4",
    "NVIDIA_L4": "L4",
    "NVIDIA_A100-PCIE-40GB": "A100",
    "NVIDIA_A100_80GB_PCIe": "A100",
    "NVIDIA_H100_80GB_HBM3": "H100",
    "AMD_Instinct_MI250": "MI250",
}
NEUSIGHT_BASE = "Tesla_V100-PCIE-32GB"


def rows_of(*parts: str) -> list[dict[str, str]]:
    try:
        path = shared_data(*parts)
    except DataAbsent as absent:
        pytest.skip(str(absent))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def gavel_errors() -> dict[str, list[float]]:
    """Relative errors of K80 and P100 against V100, one device, by workload class."""
    errors: dict[str, list[float]] = {}
    for key in measured.models():
        kind = classify_one(model=key.text).kind
        for name in ("K80", "P100"):
            device = catalogue.get(name)
            steps = measured.steps_per_s(device.measured_as, key, 1)
            anchor = measured.steps_per_s("v100", key, 1)
            assert steps and anchor
            error = abs(relative_speed(device, kind) * anchor / steps - 1)
            errors.setdefault(kind.label, []).append(error)
    return errors


def neusight_errors() -> dict[str, list[float]]:
    """Relative errors against V100, whole models in FP32, by device."""
    bandwidth = {
        row["gpu"]: float(row["Mem_Bw"]) for row in rows_of("dnn_perf", "neusight_gpu_specs.csv.gz")
    }
    times: dict[str, dict[tuple[str, str, str], float]] = {}
    for row in rows_of("dnn_perf", "neusight_model_latency.csv.gz"):
        if row["option"] == "":
            case = (row["model_name"], row["batch"], row["mode"])
            times.setdefault(row["device"], {})[case] = float(row["measured_e2e_ms"])
    base = times[NEUSIGHT_BASE]
    errors: dict[str, list[float]] = {}
    for source_name, name in NEUSIGHT_DEVICES.items():
        device = replace(catalogue.get(name), bandwidth_gb_s=bandwidth[source_name])
        for case in times[source_name].keys() & base.keys():
            error = error_of(device, base[case] / times[source_name][case])
            errors.setdefault(name, []).append(error)
    return errors


def error_of(device: DeviceType, ratio: float) -> float:
    return abs(relative_speed(device, JobClass.COMPUTE_INTENSIVE) / ratio - 1)


GAVEL_NETWORKS = {
    "V100": Network(between_nodes_gbit_s=10.0, inside_node_gbit_s=1200.0),
    "P100": Network(between_nodes_gbit_s=10.0, inside_node_gbit_s=100.0),
    "K80": Network(between_nodes_gbit_s=10.0, inside_node_gbit_s=100.0),
}
"""Assumed: NVLink or PCIe 3.0 inside, 10 Gbit/s between."""


def spread_errors() -> dict[str, list[float]]:
    """Relative errors of the speed of spread gangs, by device."""
    errors: dict[str, list[float]] = {}
    for key in measured.models():
        kind = classify_one(model=key.text).kind
        for name, network in GAVEL_NETWORKS.items():
            device = catalogue.get(name)
            for count in (2, 4, 8):
                together = measured.steps_per_s(device.measured_as, key, count)
                apart = measured.steps_per_s(device.measured_as, key, count, packed=False)
                if together and apart:
                    factor = spread_factor(device, kind, count, network)
                    errors.setdefault(f"spread {name}", []).append(
                        abs(factor * together / apart - 1)
                    )
    return errors


def page_rows(errors: dict[str, list[float]]) -> list[str]:
    everything = [error for group in errors.values() for error in group]
    return [
        f"| {name} | {len(group)} | {median(group) * 100:.0f} % |"
        for name, group in [*errors.items(), ("all", everything)]
    ]


def test_the_page_quotes_the_errors_against_gavel() -> None:
    text = PAGE.read_text("utf-8")
    for row in page_rows(gavel_errors()) + page_rows(spread_errors())[:-1]:
        assert row in text


def test_the_page_quotes_the_errors_against_neusight() -> None:
    rows = page_rows(neusight_errors())
    text = PAGE.read_text("utf-8")
    for row in rows:
        assert row in text


def test_the_roofline_is_right_to_a_quarter_where_it_was_not_fitted() -> None:
    everything = [error for group in neusight_errors().values() for error in group]
    assert median(everything) < 0.25


def test_catalogue_agrees_with_neusight_on_bandwidth_and_fp32() -> None:
    specs = {row["gpu"]: row for row in rows_of("dnn_perf", "neusight_gpu_specs.csv.gz")}
    for source_name, name in NEUSIGHT_DEVICES.items():
        if name == "A100":  # another form factor
            continue
        device, spec = catalogue.get(name), specs[source_name]
        assert device.bandwidth_gb_s == pytest.approx(float(spec["Mem_Bw"]), rel=0.03)
        fp32 = float(spec["SingleFLOPs"] or spec["SingleFLOPsMM"]) / 1000
        assert device.peak_tflops["fp32"] == pytest.approx(fp32, rel=0.05)
