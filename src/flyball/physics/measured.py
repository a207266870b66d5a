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
"""Measured for every model and count, so what links measured and unmeasured types."""


class ModelKey(NamedTuple):
    """A model and batch size as in the table; batch 0 where the table states none."""

    model: str
    batch: int

    @property
    def text(self) -> str:
        """As Gavel writes it: `ResNet-18 (batch size 32)`."""
        return f"{self.model} (batch size {self.batch})" if self.batch else self.model


class Row(NamedTuple):
    """What a measurement is of."""

    device: str
    key: ModelKey
    devices: int
    packed: bool


class Rate(NamedTuple):
    """A measured ratio of speeds, and what was not quite as asked ("" = measured just so)."""

    value: float
    remark: str = ""


@dataclass(frozen=True)
class GavelSpeeds:
    """What Gavel measured of one model, for `flyball.physics.speed`."""

    key: ModelKey
    anchor: ClassVar[str] = REFERENCE

    @property
    def text(self) -> str:
        """The source and the model, for people."""
        return f"Gavel, {self.key.text}"

    def rate(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Speed of a packed gang relative to the same on the anchor; None = not measured.

        A count that was not measured takes the nearest lower one that was.
        """
        used = measured_count(self.key, count)
        steps = steps_per_s(device.measured_as, self.key, used)
        anchor = steps_per_s(ANCHOR, self.key, used)
        if steps is None or not anchor:
            return None
        return Rate(steps / anchor, _remark(used, count))

    def apart(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Speed of a gang spread over nodes relative to packed; None = not measured."""
        used = measured_count(self.key, count)
        packed = steps_per_s(device.measured_as, self.key, used, packed=True)
        apart = steps_per_s(device.measured_as, self.key, used, packed=False)
        if used == 1 or not packed or apart is None:
            return None
        return Rate(apart / packed, _remark(used, count))


def _remark(used: int, count: int) -> str:
    return "" if used == count else f"{used} devices instead of {count}"


ELASTICFLOW_TYPES = {"A100": "A100-40GB", "T4": "T4"}
"""Its types in the catalogue; its A100s were those of Azure's ND96asr machines, 40 GB."""


class Iterations(NamedTuple):
    """What ElasticFlow measured of a model at one batch size.

    Attributes:
        device: the one type of the catalogue it was measured on.
        per_s: iterations a second by number of devices.
    """

    device: str
    per_s: dict[int, float]


@cache
def elasticflow() -> Mapping[tuple[str, int], Iterations]:
    """ElasticFlow's table by model and batch size (of all devices together)."""
    table: dict[tuple[str, int], Iterations] = {}
    for row in _rows("elasticflow_speeds.csv"):
        key = row["model"], int(row["global_batch_size"])
        device = ELASTICFLOW_TYPES[row["gpu_type"]]
        found = table.setdefault(key, Iterations(device, {}))
        assert found.device == device, f"{key} is measured on two types"
        found.per_s[int(row["num_gpus"])] = float(row["iters_per_s"])
    return table


def model_key(model: str | None) -> ModelKey | None:
    """The table's key for a model as users write it, or None if it was not measured.

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
    """What a cluster file states of a model: with its batch size if it has that, else by name."""
    if not model:
        return None
    by_model = {split_model(each.model): each for each in speeds}
    name, batch = split_model(model)
    return by_model.get((name, batch)) or by_model.get((name, None))


def split_model(model: str | None) -> tuple[str, int | None]:
    """Name in lower case and batch size, if stated, of a model as users write it."""
    found = re.fullmatch(r"\s*(.*?)\s*(?:\(batch size (\d+)\)|:(\d+))?\s*", model or "", re.I)
    assert found is not None, "every part of the pattern may be empty"
    batch = found[2] or found[3]
    return found[1].lower(), int(batch) if batch else None


def models() -> tuple[ModelKey, ...]:
    """All measured models and batch sizes."""
    return tuple(key for keys in _keys().values() for key in keys)


def steps_per_s(device: str, key: ModelKey, count: int, packed: bool = True) -> float | None:
    """Measured speed; 0 = it did not fit there; None = not measured."""
    return _table().get(Row(device, key, count, packed))


@cache
def measured_count(key: ModelKey, count: int) -> int:
    """The measured gang size to use for a gang of `count`: the nearest that is not larger."""
    counts = {row.devices for row in _table() if row.key == key and row.device == ANCHOR}
    return max((each for each in counts if each <= count), default=min(counts))


@cache
def _table() -> dict[Row, float]:
    return {
        Row(
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
    """Measured batch sizes of each model, rising, by its name in lower case."""
    keys = sorted({row.key for row in _table()})
    named: dict[str, tuple[ModelKey, ...]] = {}
    for key in keys:
        named[key.model.lower()] = (*named.get(key.model.lower(), ()), key)
    return named
