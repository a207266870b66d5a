"""Golden values of memory, network and disk from the frozen machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.monitor.site import absent, bare, frozen, opened

KIB = 1024


def test_memory(tmp_path: Path) -> None:
    assert opened("memory", frozen(tmp_path)).collect(1.0).values == {
        "total_bytes": 16_000_000 * KIB,
        "used_bytes": 6_000_000 * KIB,
        "available_bytes": 10_000_000 * KIB,
        "free_bytes": 4_000_000 * KIB,
        "cached_bytes": 6_000_000 * KIB,
        "swap_used_bytes": 500_000 * KIB,
        "faults_total": 7000,
        "major_faults_total": 60,
        "swap_in_pages_total": 30,
        "swap_out_pages_total": 40,
        "stalled_s_total": 2.5,
    }


def test_totals_of_memory_are_read_now_and_then(tmp_path: Path) -> None:
    memory = opened("memory", frozen(tmp_path))
    samples = [memory.collect(1.0 + at / 5).values for at in range(6)]
    assert all("used_bytes" in values for values in samples)
    for name in ("faults_total", "stalled_s_total"):
        assert [name in values for values in samples] == [True, False, False, True, False, False]


def test_memory_without_a_field_raises(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    memory = opened("memory", site)
    (site.root / "proc/meminfo").write_text("MemTotal: 5 kB\n")
    with pytest.raises(ValueError):
        memory.collect(1.0)


def test_bandwidth(tmp_path: Path) -> None:
    assert opened("bandwidth", frozen(tmp_path)).collect(1.0).values == {
        "domain0_bytes_total": 987654321
    }
    assert "no memory bandwidth counters" in absent("bandwidth", bare(tmp_path))


def test_network(tmp_path: Path) -> None:
    network = opened("network", frozen(tmp_path))
    values = network.collect(1.0).values
    assert values["eth0.rx_bytes_total"] == values["rx_bytes_total"] == 5_000_000
    assert values["eth0.tx_bytes_total"] == values["tx_bytes_total"] == 3_000_000
    assert [values[f"eth0.rx_{name}_total"] for name in ("packets", "errors", "dropped")] == [
        4000, 1, 2,
    ]  # fmt: skip
    assert [values[f"eth0.tx_{name}_total"] for name in ("packets", "errors", "dropped")] == [
        2000, 3, 4,
    ]  # fmt: skip
    assert values["lo.rx_bytes_total"] == 1000
    assert not any(name.startswith("idle0") for name in values)
    states = {name: value for name, value in values.items() if name.startswith("tcp_") and value}
    assert states == {
        "tcp_sockets": 5,
        "tcp_orphans": 1,
        "tcp_time_wait": 2,
        "tcp_listen": 2,
        "tcp_established": 2,
        "tcp_close_wait": 1,
    }


def test_connections_are_counted_now_and_then(tmp_path: Path) -> None:
    network = opened("network", frozen(tmp_path))
    counted = ["tcp_listen" in network.collect(1.0 + at / 2).values for at in range(30)]
    assert counted == [True] + [False] * 26 + [True, False, False]


def test_many_interfaces_are_cut_to_the_busiest(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    network = opened("network", site)
    path = site.root / "proc/net/dev"
    rest = " 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0"
    path.write_text("\n".join(["a", "b", *(f"  v{at}: {at}{rest}" for at in range(1, 100)), ""]))
    values = network.collect(1.0).values
    assert "v99.rx_bytes_total" in values
    assert sum(name.endswith(".rx_bytes_total") for name in values) == 32


def test_disk(tmp_path: Path) -> None:
    values = opened("disk", frozen(tmp_path)).collect(1.0).values
    assert values == {
        "read_bytes_total": 80_000 * 512,
        "written_bytes_total": 160_000 * 512,
        "nvme0n1.reads_total": 1000,
        "nvme0n1.read_bytes_total": 80_000 * 512,
        "nvme0n1.writes_total": 2000,
        "nvme0n1.written_bytes_total": 160_000 * 512,
        "nvme0n1.busy_s_total": 1.2,
        "dm-0.reads_total": 800,
        "dm-0.read_bytes_total": 60_000 * 512,
        "dm-0.writes_total": 1500,
        "dm-0.written_bytes_total": 140_000 * 512,
        "dm-0.busy_s_total": 1.0,
        "stalled_s_total": 2.5,
    }


@pytest.mark.parametrize("name", ["memory", "network", "disk"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    assert "not a Linux machine" in absent(name, bare(tmp_path))
