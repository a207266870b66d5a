"""NVIDIA through a stand-in for NVML, AMD through the driver's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.monitor.fake_nvml import GIB, FakeNvml, NVMLError
from tests.monitor.site import absent, bare, frozen, opened

from flyball.monitor.sensor import Site

OURS = frozenset({100, 101})


def test_nvidia() -> None:
    nvidia = opened("nvidia", Site(nvml=FakeNvml(), ours=lambda: OURS))
    assert nvidia.uuids == (
        "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd",
        "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd",
    )
    assert nvidia.about["gpu1"] == nvidia.uuids[1]
    values = nvidia.collect(1.0).values
    first = {name[5:]: value for name, value in values.items() if name.startswith("gpu0.")}
    assert first == {
        "use_percent": 93,
        "memory_busy_percent": 40,
        "memory_used_bytes": 12 * GIB,
        "memory_bytes": 80 * GIB,
        "outsiders": 2,
        "outsiders_bytes": 4 * GIB,
        "power_w": 312.5,
        "energy_j_total": 5000.0,
        "temperature_c": 64,
        "clock_mhz": 1980,
        "memory_clock_mhz": 2619,
    }
    # What the second device does not measure is left out.
    assert "gpu1.use_percent" not in values
    assert (values["gpu1.outsiders"], values["gpu1.outsiders_bytes"]) == (0, 0)


def test_what_processes_hold_may_be_hidden() -> None:
    nvidia = opened("nvidia", Site(nvml=FakeNvml(per_process=False), ours=lambda: OURS))
    # 12 GiB used, 8 of them ours.
    assert nvidia.collect(1.0).values["gpu0.outsiders_bytes"] == 4 * GIB


def test_a_lost_device_raises() -> None:
    nvml = FakeNvml()
    nvidia = opened("nvidia", Site(nvml=nvml))
    nvml.lost = True
    with pytest.raises(NVMLError, match="lost"):
        nvidia.collect(1.0)


def test_no_nvidia() -> None:
    assert "Driver Not Loaded" in absent("nvidia", Site(nvml=FakeNvml(devices=-1)))
    assert absent("nvidia", Site(nvml=FakeNvml(devices=0))) == "NVML finds no device"


def test_amd(tmp_path: Path) -> None:
    amd = opened("amd", frozen(tmp_path, ours=lambda: OURS))
    assert amd.uuids == ("a1b2c3d4e5f60718",)
    assert amd.collect(1.0).values == {
        "gpu0.use_percent": 87,
        "gpu0.memory_busy_percent": 41,
        "gpu0.memory_used_bytes": 8 * GIB,
        "gpu0.memory_bytes": 17163091968,
        "gpu0.power_w": pytest.approx(215.0),
        "gpu0.temperature_c": pytest.approx(66.0),
        "gpu0.clock_mhz": pytest.approx(2100.0),
        "gpu0.memory_clock_mhz": pytest.approx(1000.0),
        "gpu0.voltage_v": pytest.approx(0.893),
        # The same file opened twice by our process counts once.
        "gpu0.outsiders_bytes": 6 * GIB,
    }
    assert "amdgpu" in absent("amd", bare(tmp_path))
