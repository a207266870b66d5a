"""The device catalogue: what each type of device can do, with sources.

The figures are in `flyball/data/devices.toml`, each with its source. The other modules of this
package compute relative speed, power and units of capability from them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from flyball.core.cluster import DefinedType, ModelSpeed, NodeGroup
from flyball.core.errors import BadInput, UnknownName

REFERENCE = "V100"
"""Device type that speeds are relative to: the fastest one that Gavel measured."""

FIGURE_GROUPS = ("peak_tflops", "memory", "power", "host", "standby")


@dataclass(frozen=True)
class DeviceType:
    """One type of device, and the node it usually sits in.

    Attributes:
        name: as users write it; case, spaces and dashes do not matter.
        label: make and model.
        kind: gpu, tpu, cpu, npu or fpga.
        peak_tflops: dense peak by number format (fp64, fp32, tf32, bf16, fp16, int8), in
            TFLOP/s (int8: TOP/s). A format it does not have is absent.
        memory_gib: memory of one device.
        bandwidth_gb_s: of that memory.
        idle_w: draw of one idle device.
        peak_w: highest sustained draw (thermal design power, or measured maximum).
        node_devices: devices of the node that the next three figures describe.
        host_w: that node without its devices, awake.
        sleep_w: the whole node asleep.
        wake_s: from asleep to ready.
        cap_curve: name of its power-cap curve.
        measured_as: its name in the table of measured speeds, "" if it is not there.
        aliases: other names.
        like: of a type that a cluster file defines, the catalogue's type it is based on; else "".
        speed: how many times as fast as `like` it runs models that were not measured.
        speeds: measured speeds of such a type, by model.
        sources: for each figure (`peak_tflops.fp32`, `memory_gib`, ...) a key of `sources()`.
    """

    name: str
    label: str
    kind: str
    peak_tflops: Mapping[str, float] = field(hash=False)
    memory_gib: float
    bandwidth_gb_s: float
    idle_w: float
    peak_w: float
    node_devices: int
    host_w: float
    sleep_w: float
    wake_s: float
    cap_curve: str
    measured_as: str = ""
    aliases: tuple[str, ...] = ()
    like: str = ""
    speed: float = 1.0
    speeds: tuple[ModelSpeed, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)


def get(name: str) -> DeviceType:
    """Return the device type of this name or alias.

    Raises:
        UnknownName: there is none.
    """
    device = _lookup(name)
    if device is None:
        raise UnknownName("device type", name, names())
    return device


def names() -> tuple[str, ...]:
    """Return the names of all device types: the catalogue's in its order, then the defined ones."""
    return (*load(), *(device.name for device in _defined.values()))


_defined: dict[str, DeviceType] = {}
"""Types that the cluster files in use define, by plain name. A cluster's types are defined when its
file is read and again wherever its twin is built, as that may be in another process."""


def define(types: Iterable[DefinedType]) -> None:
    """Register the types that a cluster defines; a later one of the same name replaces it.

    Raises:
        BadInput: the name is in the catalogue.
        UnknownName: the type it is based on is not in the catalogue.
    """
    for own_type in types:
        taken = _by_plain_name().get(_plain(own_type.name))
        if taken is not None:
            raise BadInput(
                f"type {own_type.name!r} is in the catalogue already ({taken.label})",
                f"give it another name, e.g. {own_type.name}-tuned",
            )
        like = _by_plain_name().get(_plain(own_type.like))
        if like is None:
            raise UnknownName("device type", own_type.like, load())
        peak_w = like.peak_w if own_type.peak_w is None else own_type.peak_w
        share_idle_w = like.idle_w * peak_w / like.peak_w  # the same share of the peak
        _defined[_plain(own_type.name)] = replace(
            like,
            name=own_type.name,
            label=f"{own_type.name}, like {like.name}",
            aliases=(),
            like=like.name,
            speed=own_type.speed,
            speeds=own_type.speeds,
            memory_gib=like.memory_gib if own_type.memory_gib is None else own_type.memory_gib,
            peak_w=peak_w,
            idle_w=share_idle_w if own_type.idle_w is None else own_type.idle_w,
        )


@cache
def load() -> Mapping[str, DeviceType]:
    """Return all device types by name, in the catalogue's order."""
    tables = document()["devices"]
    return MappingProxyType({name: _device(name, table) for name, table in tables.items()})


def reference() -> DeviceType:
    """Return the device type that is worth exactly one unit."""
    return get(REFERENCE)


def sources() -> Mapping[str, str]:
    """Return the text of each source key."""
    texts: dict[str, str] = document()["sources"]
    return MappingProxyType(texts)


@cache
def document() -> dict[str, Any]:
    """Return the parsed catalogue file."""
    text = resources.files("flyball.data").joinpath("devices.toml").read_text("utf-8")
    return tomllib.loads(text)


def _lookup(name: str) -> DeviceType | None:
    return _defined.get(_plain(name)) or _by_plain_name().get(_plain(name))


@cache
def _by_plain_name() -> dict[str, DeviceType]:
    devices: dict[str, DeviceType] = {}
    for device in load().values():
        for name in (device.name, *device.aliases):
            assert _plain(name) not in devices, f"two devices are called {name}"
            devices[_plain(name)] = device
    return devices


def _plain(name: str) -> str:
    """Return a name in lower case without spaces and dashes: `RTX 2080 Ti` is `rtx2080ti`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _device(name: str, table: dict[str, Any]) -> DeviceType:
    peaks, peak_sources = _figures(table["peak_tflops"])
    figures: dict[str, Any] = {}
    where = {f"peak_tflops.{key}": source for key, source in peak_sources.items()}
    for group in FIGURE_GROUPS[1:]:
        values, value_sources = _figures(table[group])
        figures |= values
        where |= value_sources
    figures["node_devices"] = int(figures["node_devices"])
    return DeviceType(
        name=name,
        label=table["label"],
        kind=table["kind"],
        peak_tflops=peaks,
        cap_curve=table["cap_curve"],
        measured_as=table.get("measured_as", ""),
        aliases=tuple(table["aliases"]),
        sources=where,
        **figures,
    )


def _figures(table: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Return a group's figures, and the source of each."""
    source = table["source"]
    values = {key: float(value) for key, value in table.items() if key != "source"}
    if isinstance(source, str):
        return values, dict.fromkeys(values, source)
    return values, {key: source[key] for key in values}


CORE = "CPU1"
"""Device type that stands for one core."""
DEVICE = "device"
"""Name of a device in texts where there are several kinds of them."""


def unit_of(groups: Iterable[NodeGroup]) -> str:
    """Return what users call the devices of these nodes: `core`, `GPU`, or `device` for a mix."""
    units = {_unit(group) for group in groups}
    return units.pop() if len(units) == 1 else DEVICE


def _unit(group: NodeGroup) -> str:
    device = _lookup(group.device)
    if device is not None and device.name == CORE:
        return "core" if group.cpus == group.devices else DEVICE  # else one stands for several
    return "GPU" if device is not None and device.kind == "gpu" else DEVICE
