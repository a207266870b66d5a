"""Power, temperature and voltage: measured, modelled and absent."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.monitor.site import HOST, absent, bare, frozen, opened

from flyball.monitor.collectors.power import ModelledPower

PACKAGE = "sys/class/powercap/intel-rapl:0/energy_uj"


def test_rapl(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    power = opened("power", site)
    assert power.about["kind"] == "measured"
    assert power.collect(1.0).values == {
        "package_0_0_energy_j_total": 0.0,
        "dram_0_0_energy_j_total": 0.0,
    }
    (site.root / PACKAGE).write_text("81000000\n")
    values = power.collect(2.0).values
    assert values["package_0_0_w"] == pytest.approx(80.0)
    assert values["dram_0_0_w"] == 0.0
    # The counter begins again at the end of its range.
    (site.root / PACKAGE).write_text("50000000\n")
    values = power.collect(3.0).values
    moved_j = (50_000_000 - 81_000_000 + 262_143_328_850) / 1e6
    assert values["package_0_0_w"] == pytest.approx(moved_j)
    assert values["package_0_0_energy_j_total"] == pytest.approx(80.0 + moved_j)


def test_modelled_says_so(tmp_path: Path) -> None:
    site = frozen(tmp_path, host_power=HOST)
    for path in (site.root / "sys/class/powercap").glob("*/energy_uj"):
        path.unlink()
    power = opened("power", site)
    assert isinstance(power, ModelledPower)
    assert power.about["kind"].startswith("modelled: no readable energy counter")
    assert "60 W idle to 200 W" in power.about["source"]
    assert power.collect(1.0).values == {}
    # One core of two busy for the whole second.
    group = site.root / "sys/fs/cgroup/cpuacct/cpuacct.usage_percpu"
    group.write_text("251000000000 250000000000 0 0 \n")
    assert power.collect(2.0).values == {
        "host_modelled_w": pytest.approx(130.0),
        "host_modelled_energy_j_total": pytest.approx(130.0),
    }


def test_not_measured_and_not_stated(tmp_path: Path) -> None:
    assert "--host-watts IDLE:PEAK" in absent("power", bare(tmp_path))


def test_temperature(tmp_path: Path) -> None:
    assert opened("temperature", frozen(tmp_path)).collect(1.0).values == {
        "coretemp0_package_id_0_c": 51.0,
        "coretemp0_temp2_c": 48.0,
        "zone0_acpitz_c": 27.8,
    }
    assert "no temperature sensor" in absent("temperature", bare(tmp_path))


def test_voltage(tmp_path: Path) -> None:
    assert opened("voltage", frozen(tmp_path)).collect(1.0).values == {
        "nct67751_vcore_v": 1.024,
        "nct67751_in3_v": 3.312,
    }
    assert "no voltage sensor" in absent("voltage", bare(tmp_path))
