"""Tables of measured training speeds.

* Gavel's (`flyball/data/gavel_speeds.csv`): steps per second of seven models at several
  batch sizes, on 1 to 8 K80, P100 or V100, on as few nodes as possible or spread over nodes.
* ElasticFlow's (`flyball/data/elasticflow_speeds.csv`): iterations per second of twelve
  models on 1 to 64 A100 or T4. Each model and batch size was measured on one of the two
  types only, so they give run times but no ratio between types.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar, NamedTuple

from flyball.core.cluster import ModelSpeed
from flyball.physics.catalogue import REFERENCE, DeviceType

ANCHOR = "v100"
"""Device type measured for every model and count; it links measured and unmeasured types."""


class ModelKey(NamedTuple):
    """A model and batch size as in the table; batch 0 where the table states none."""

    model: str
    batch: int

    @property
    def text(self) -> str:
        """The model as Gavel writes it: `ResNet-18 (batch size 32)`."""
        return f"{self.model} (batch size {self.batch})" if self.batch else self.model


class MeasuredGang(NamedTuple):
    """The subject of a measurement: a model on a gang of one device type."""

    device: str
    key: ModelKey
    devices: int
    packed: bool


class Rate(NamedTuple):
    """A measured ratio of speeds, and how the measurement differs from the request ("" = not)."""

    value: float
    remark: str = ""


@dataclass(frozen=True)
class GavelSpeeds:
    """Gavel's measurements of one model, for `flyball.physics.speed`."""

    key: ModelKey
    anchor: ClassVar[str] = REFERENCE

    @property
    def text(self) -> str:
        """The source and the model, for people."""
        return f"Gavel, {self.key.text}"

    def rate(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Return the speed of a packed gang relative to the anchor's; None = not measured.

        A count that was not measured takes the nearest lower one that was.
        """
        used = measured_count(self.key, count)
        steps = steps_per_s(device.measured_as, self.key, used)
        anchor = steps_per_s(ANCHOR, self.key, used)
        if steps is None or not anchor:
            return None
        return Rate(steps / anchor, _remark(used, count))

    def apart(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Return the speed of a gang spread over nodes relative to packed; None = not measured."""
        used = measured_count(self.key, count)
        packed = steps_per_s(device.measured_as, self.key, used, packed=True)
        apart = steps_per_s(device.measured_as, self.key, used, packed=False)
        if used == 1 or not packed or apart is None:
            return None
        return Rate(apart / packed, _remark(used, count))


def _remark(used: int, count: int) -> str:
    return "" if used == count else f"{used} devices instead of {count}"


ELASTICFLOW_TYPES = {"A100": "A100-40GB", "T4": "T4"}
"""ElasticFlow's device types in the catalogue; its A100s were those of Azure's ND96asr, 40 GB."""


class Iterations(NamedTuple):
    """ElasticFlow's measurements of a model at one batch size.

    Attributes:
        device: the one type of the catalogue it was measured on.
        per_s: iterations per second by number of devices.
    """

    device: str
    per_s: dict[int, float]


@cache
def elasticflow() -> Mapping[tuple[str, int], Iterations]:
    """Return ElasticFlow's table by model and batch size (of all devices together)."""
    table: dict[tuple[str, int], Iterations] = {}
    for row in _rows("elasticflow_speeds.csv"):
        key = row["model"], int(row["global_batch_size"])
        device = ELASTICFLOW_TYPES[row["gpu_type"]]
        iterations = table.setdefault(key, Iterations(device, {}))
        assert iterations.device == device, f"{key} is measured on two types"
        iterations.per_s[int(row["num_gpus"])] = float(row["iters_per_s"])
    return table


def model_key(model: str | None) -> ModelKey | None:
    """Return the table's key for a model as users write it; None if it was not measured.

    Accepts `ResNet-18 (batch size 32)`, `ResNet-18:32` and `ResNet-18`, in any case. A
    name alone means the middle one of its measured batch sizes, the lower of two.
    """
    name, batch = split_model(model)
    keys = _keys().get(name)
    if not keys:
        return None
    if batch is None:
        return keys[(len(keys) - 1) // 2]
    return next((key for key in keys if key.batch == batch), None)


def find_stated(model: str | None, speeds: Iterable[ModelSpeed]) -> ModelSpeed | None:
    """Return the speed a cluster file states for a model: with its batch size, else by name."""
    if not model:
        return None
    by_model = {split_model(speed.model): speed for speed in speeds}
    name, batch = split_model(model)
    return by_model.get((name, batch)) or by_model.get((name, None))


def split_model(model: str | None) -> tuple[str, int | None]:
    """Return the name in lower case and the batch size, if stated, of a model as users write it."""
    match = re.fullmatch(r"\s*(.*?)\s*(?:\(batch size (\d+)\)|:(\d+))?\s*", model or "", re.I)
    assert match is not None, "every part of the pattern may be empty"
    batch = match[2] or match[3]
    return match[1].lower(), int(batch) if batch else None


def models() -> tuple[ModelKey, ...]:
    """Return all measured models and batch sizes."""
    return tuple(key for keys in _keys().values() for key in keys)


def steps_per_s(device: str, key: ModelKey, count: int, packed: bool = True) -> float | None:
    """Return the measured speed; 0 = it did not fit there; None = not measured."""
    return _table().get(MeasuredGang(device, key, count, packed))


@cache
def measured_count(key: ModelKey, count: int) -> int:
    """Return the measured gang size to use for `count` devices: the nearest that is not larger."""
    sizes = {gang.devices for gang in _table() if gang.key == key and gang.device == ANCHOR}
    return max((size for size in sizes if size <= count), default=min(sizes))


@cache
def _table() -> dict[MeasuredGang, float]:
    return {
        MeasuredGang(
            row["gpu_type"],
            ModelKey(row["model"], int(row["batch_size"] or 0)),
            int(row["num_gpus"]),
            row["consolidated"] == "1",
        ): float(row["steps_per_s"])
        for row in _rows("gavel_speeds.csv")
    }


def _rows(file: str) -> list[dict[str, str]]:
    text = resources.files("flyball.data").joinpath(file).read_text("utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def _keys() -> dict[str, tuple[ModelKey, ...]]:
    """Return the measured batch sizes of each model, rising, by its name in lower case."""
    keys = sorted({gang.key for gang in _table()})
    named: dict[str, tuple[ModelKey, ...]] = {}
    for key in keys:
        named[key.model.lower()] = (*named.get(key.model.lower(), ()), key)
    return named
