"""Gavel's measured training speeds: `flyball/data/gavel_speeds.csv`.

Steps per second of seven models at several batch sizes, on 1 to 8 K80, P100 or V100,
on as few nodes as possible or spread over nodes.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

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
    text = resources.files("flyball.data").joinpath("gavel_speeds.csv").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {
        Row(
            row["gpu_type"],
            ModelKey(row["model"], int(row["batch_size"] or 0)),
            int(row["num_gpus"]),
            row["consolidated"] == "1",
        ): float(row["steps_per_s"])
        for row in csv.DictReader(lines)
    }


@cache
def _keys() -> dict[str, tuple[ModelKey, ...]]:
    """Measured batch sizes of each model, rising, by its name in lower case."""
    keys = sorted({row.key for row in _table()})
    named: dict[str, tuple[ModelKey, ...]] = {}
    for key in keys:
        named[key.model.lower()] = (*named.get(key.model.lower(), ()), key)
    return named
