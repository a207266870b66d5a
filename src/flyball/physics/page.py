"""Prints the catalogue as a page: `docs/reference/devices.md` is what `page()` returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flyball.core.workload import CLASS_LABELS as LABELS
from flyball.core.workload import JobClass
from flyball.physics.abstraction import acu
from flyball.physics.catalogue import DeviceType, load, sources
from flyball.physics.power import cap_factors, draw_w

HEAD = """# Devices

Flyball's figures for each type of device. This page is printed from
`src/flyball/data/devices.toml`; a test fails when they differ. To print it again:

    python -c 'from flyball.physics.page import page; print(page(), end="")' \\
        > docs/reference/devices.md

Names and aliases may be written in any case, with or without spaces and dashes. A device is
what a job asks for: one GPU of a K80 board, one die of an MI250 module, one TPU chip, one
CPU socket. Peak figures are dense. [Abstraction](../concept/abstraction.md) says how speed
and units (ACU) follow from these figures.
"""

FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "int8")


def page() -> str:
    """Return the page in Markdown."""
    devices = list(load().values())
    parts = (
        HEAD,
        "## Arithmetic and memory\n",
        "TFLOP/s by number format (int8: TOP/s), GiB, GB/s.\n",
        _table(("name", "what it is", *FORMATS, "memory", "bandwidth"), map(_figures, devices)),
        "## Power\n",
        "Watts of one device: idle, at most, and in a job of each class.\n",
        _table(("name", "idle", "peak", *LABELS), map(_draws, devices)),
        "The node it sits in: its devices, watts of the host without them, watts asleep, seconds\n"
        "to wake. Then its power-cap curve, and what a cap at 75 % of the draw does to time and\n"
        "power.\n",
        _table(
            ("name", "devices", "host", "asleep", "wake", "curve", "time", "power"),
            map(_node, devices),
        ),
        "## Units\n",
        "Abstract compute units: work per second where one V100 does 1.\n",
        _table(("name", *LABELS, "overall"), map(_units, devices)),
        "## Other names\n",
        _table(("name", "also"), ((device.name, ", ".join(device.aliases)) for device in devices)),
        "## Sources\n",
        _table(("name", *SOURCE_COLUMNS), map(_sources, devices)),
        "\n".join(f"* **{key}**: {text}." for key, text in sources().items()) + "\n",
    )
    return "\n".join(parts)


SOURCE_COLUMNS = {
    "peaks": "peak_tflops",
    "memory": "memory_gib",
    "bandwidth": "bandwidth_gb_s",
    "idle": "idle_w",
    "peak": "peak_w",
    "host": "host_w",
    "asleep, wake": "sleep_w",
}


def _figures(device: DeviceType) -> tuple[str, ...]:
    peaks = (_number(device.peak_tflops.get(number_format)) for number_format in FORMATS)
    memory = (_number(device.memory_gib), _number(device.bandwidth_gb_s))
    return (device.name, device.label, *peaks, *memory)


def _draws(device: DeviceType) -> tuple[str, ...]:
    draws = (f"{draw_w(device, kind):.0f}" for kind in JobClass)
    return (device.name, _number(device.idle_w), _number(device.peak_w), *draws)


def _node(device: DeviceType) -> tuple[str, ...]:
    node = (device.node_devices, device.host_w, device.sleep_w, device.wake_s)
    time, power = cap_factors(device, 0.75)
    return (device.name, *map(_number, node), device.cap_curve, f"{time:.2f}", f"{power:.2f}")


def _units(device: DeviceType) -> tuple[str, ...]:
    return (device.name, *(f"{acu(device, kind):.2f}" for kind in (*JobClass, None)))


def _sources(device: DeviceType) -> tuple[str, ...]:
    cells = []
    for figure in SOURCE_COLUMNS.values():
        keys = {
            source
            for name, source in device.sources.items()
            if name == figure or name.startswith(f"{figure}.")
        }
        cells.append(", ".join(sorted(keys)))
    return (device.name, *cells)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
