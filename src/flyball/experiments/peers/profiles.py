"""Run times of whole trainings as the simulators of Sia and Pollux have them, from their profiles.

The fits of `physics/step_time.py` are within a few percent of most profiles, but not of all: eight
T4s train yolov3 40 % slower than the fit says. On their ground their tables count. A step on a
placement is interpolated between the local batch sizes that were profiled there, or, where the
placement was not, over nodes, devices and batch size. What a step is worth follows from the
gradient statistics of each epoch, so a training is a sum over its epochs.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.physics import catalogue
from flyball.physics.measured import split_model

PROFILED_AS = {"T4": "aws", "RTX2080Ti": "rtx", "A100-40GB": "dgx-ext"}
"""Device types, and the name of their profile."""
EPOCHS = {
    "bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50,
}  # fmt: skip
"""Epochs to the target, in both simulators."""
MOST_NODES = 16
"""Gangs on more nodes are interpolated as if on this many."""
BATCHES = 100
"""Number of batch sizes tried for an elastic gang, by even ratios."""
MOST_DEVICES = 64
"""Neither simulator gives a job more."""
ROUNDING = 1e-8
POLLUX_LARGEST = {"yolov3": 8.0}
"""Largest local batch in Pollux's simulator where it is not the largest that was profiled."""
ONE_DEVICE = ("ncf",)
"""Applications that both simulators keep on one device, with the batch as set."""
FILES = tuple(
    ("sia_pollux", f"{name}.csv.gz") for name in ("placements", "scalability", "validation")
)
Placement = tuple[int, ...]
"""Devices on each node."""


@dataclass(frozen=True)
class Profile:
    """Holds the profiled steps of one application on one type of device.

    Attributes:
        by_placement: rows of local batch, step time and exchange time, by the placement's digits.
        points: rows of nodes, devices, local batch, step time and exchange time.
    """

    by_placement: dict[str, Floats]
    points: Floats

    @property
    def least_batch(self) -> float:
        """Return the smallest local batch."""
        return float(min(rows[0, 0] for rows in self.by_placement.values()))

    def times(self, placement: Placement, batches: Floats) -> Floats:
        """Return step and exchange times by local batch; NaN = beyond what was profiled."""
        rows = self.by_placement.get(_digits(placement))
        if rows is None:
            gang = (min(len(placement), MOST_NODES), sum(placement))
            at = np.array([(*gang, batch) for batch in batches], float)
            return np.asarray(self._interpolator(at), float)
        out = np.stack([np.interp(batches, rows[:, 0], rows[:, at]) for at in (1, 2)], axis=1)
        out[(batches < rows[0, 0]) | (batches > rows[-1, 0])] = np.nan
        return np.asarray(out, float)

    def largest_batch(self, placement: Placement) -> float:
        """Return the largest local batch that was profiled on such a placement, or a wider one."""
        rows = self.by_placement.get(_digits(placement))
        if rows is not None:
            return float(rows[-1, 0])
        nodes, devices, batch = self.points[:, :3].T
        wide = (nodes >= len(placement)) & (devices >= sum(placement))
        return float(batch[wide].max() if wide.any() else batch.max())

    @cached_property
    def _interpolator(self) -> Any:
        from scipy.interpolate import LinearNDInterpolator

        return LinearNDInterpolator(self.points[:, :3], self.points[:, 3:])


@dataclass(frozen=True)
class Training:
    """Describes how an application trains to its target, epoch by epoch.

    Attributes:
        batches: those that were trained with, in order.
        targets: progress at the end of each epoch, in steps of the first batch size.
        squares, variances: gradient statistics by batch size (row) and epoch (column).
    """

    batches: Floats
    targets: Floats
    squares: Floats
    variances: Floats

    def steps(self, batch: Floats) -> Floats:
        """Return the steps of each epoch (column) with each of these batch sizes (row)."""
        epochs = range(len(self.targets))
        square = np.stack([np.interp(batch, self.batches, self.squares[:, e]) for e in epochs], 1)
        noise = np.stack([np.interp(batch, self.batches, self.variances[:, e]) for e in epochs], 1)
        part = (self.batches[0] / batch)[:, None]
        gain = (noise + square) / (noise * part + square)
        return np.asarray(np.diff(self.targets, prepend=0.0) / gain, float)


@dataclass(frozen=True, eq=False)
class PeerTimes:
    """Holds run times by application, type and gang, for `Costs.run_times`.

    Attributes:
        pollux: the rules of Pollux's simulator; else those of Sia's.
    """

    pollux: bool
    _known: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def rigid_s(self, model: str, device: str, devices: int, across: bool) -> float | None:
        """Return the seconds with the batch as the user set it; None = cannot run so."""
        seconds: float | None = self._kept("rigid", model, device, devices, across)
        return seconds

    def elastic_s(self, model: str, device: str, devices: int, across: bool) -> float | None:
        """Return the seconds with the best batch for this gang; None = cannot run so."""
        name = split_model(model)[0]
        seconds: float | None = self._kept("elastic", name, device, devices, across)
        return seconds

    def steps_per_s(self, model: str, device: str, devices: int, across: bool) -> float:
        """Return the steps per second with the batch as the user set it; 0 = cannot run so."""
        return float(self._kept("steps", model, device, devices, across) or 0.0)

    def most_devices(self, model: str) -> int:
        """Return the largest gang that both simulators would give to a model."""
        name = split_model(model)[0]
        if name in ONE_DEVICE:
            return 1
        least = min(profiles()[name, cluster].least_batch for cluster in PROFILED_AS.values())
        return min(MOST_DEVICES, int(trainings()[name].batches[-1] // least))

    def _kept(self, kind: str, *gang: Any) -> Any:
        if (kind, *gang) not in self._known:
            self._known[kind, *gang] = getattr(self, f"_{kind}")(*gang)
        return self._known[kind, *gang]

    def _rigid(self, model: str, device: str, devices: int, across: bool) -> float | None:
        name, batch = split_model(model)
        if batch is None:
            raise BadInput(f"model {model!r} states no batch size", "write e.g. bert:384")
        placement = placed(device, devices, across)
        atomic, pieces = self._pieces(name, device, placement, np.array([batch / devices]))
        step_s = self._step_s(name, device, placement, atomic, pieces)
        if np.isnan(step_s[0]):
            return None
        steps = trainings()[name].steps(devices * atomic * pieces).sum(axis=1)
        return float(steps[0] * step_s[0])

    def _steps(self, model: str, device: str, devices: int, across: bool) -> float | None:
        name, batch = split_model(model)
        placement = placed(device, devices, across)
        atomic, pieces = self._pieces(name, device, placement, np.array([(batch or 0) / devices]))
        step_s = self._step_s(name, device, placement, atomic, pieces)
        return None if np.isnan(step_s[0]) else float(1.0 / step_s[0])

    def _elastic(self, name: str, device: str, devices: int, across: bool) -> float | None:
        training, placement = trainings()[name], placed(device, devices, across)
        profile = profiles()[name, PROFILED_AS[device]]
        first, largest = training.batches[0], training.batches[-1]
        least = max(profile.least_batch, math.ceil(first / devices - ROUNDING))
        if least * devices > largest or (name in ONE_DEVICE and devices > 1):
            return None
        local = np.geomspace(least, max(least, largest / devices), BATCHES)
        atomic, pieces = self._pieces(name, device, placement, local)
        step_s = self._step_s(name, device, placement, atomic, pieces)
        batch = devices * atomic * pieces
        runs = ~np.isnan(step_s) & (batch <= largest) & (batch >= first)
        if not runs.any():
            return None
        return float((training.steps(batch[runs]) * step_s[runs, None]).min(axis=0).sum())

    def _pieces(
        self, name: str, device: str, placement: Placement, local: Floats
    ) -> tuple[Floats, Floats]:
        """Return the samples a device takes at once, and in how many pieces a step is done."""
        profile, training = profiles()[name, PROFILED_AS[device]], trainings()[name]
        most, devices = profile.largest_batch(placement), sum(placement)
        if self.pollux:
            most = POLLUX_LARGEST.get(name, float(profile.points[:, 2].max()))
        local = np.ceil(local - ROUNDING)
        pieces = np.ceil(local / most - ROUNDING)
        if devices == 1:  # more than the first batch is accumulated even where it would fit
            pieces = np.where(local > training.batches[0], np.maximum(pieces, 2), pieces)
        atomic = np.ceil(local / pieces - ROUNDING)
        return np.minimum(atomic, training.batches[-1] // (devices * pieces)), pieces

    def _step_s(
        self, name: str, device: str, placement: Placement, atomic: Floats, pieces: Floats
    ) -> Floats:
        times = profiles()[name, PROFILED_AS[device]].times(placement, atomic)
        return np.asarray(times[:, 0] + (times[:, 0] - times[:, 1]) * (pieces - 1), float)


def placed(device: str, devices: int, across: bool) -> Placement:
    """Return the devices on each node: packed, or in two halves if it is spread without need."""
    per_node = catalogue.get(device).node_devices
    if devices <= per_node:
        return (devices - devices // 2, devices // 2) if across and devices > 1 else (devices,)
    whole, rest = divmod(devices, per_node)
    return (per_node,) * whole + ((rest,) if rest else ())


def _digits(placement: Placement) -> str:
    """Return the smallest rotation of a placement, as profiles name it."""
    turns = (placement[at:] + placement[:at] for at in range(len(placement)))
    return "".join(map(str, min(turns)))


@cache
def profiles() -> dict[tuple[str, str], Profile]:
    """Return the profiles by application and name of the hardware."""
    by_placement: dict[tuple[str, str], dict[str, list[Any]]] = defaultdict(dict)
    gangs: dict[tuple[str, str], dict[Any, list[Any]]] = defaultdict(dict)
    for row in _rows("placements"):
        key, digits = (row["application"], row["cluster"]), row["placement"]
        batch, times = float(row["local_bsz"]), (float(row["step_time_s"]), _exchange_s(row))
        by_placement[key].setdefault(digits, []).append((batch, *times))
        gang = (float(len(digits)), float(sum(map(int, digits))), batch)
        gangs[key].setdefault(gang, []).append(times)
    points = {
        key: [(*gang, *np.mean(times, axis=0)) for gang, times in rows.items()]
        for key, rows in gangs.items()
    }
    for row in _rows("scalability"):
        gang = (float(row["num_nodes"]), float(row["num_replicas"]), float(row["local_bsz"]))
        times = (float(row["step_time_s"]), _exchange_s(row))
        points[row["application"], row["cluster"]].append((*gang, *times))
    return {
        key: Profile(
            {digits: np.array(sorted(rows)) for digits, rows in by_placement[key].items()},
            np.array(points[key]),
        )
        for key in by_placement
    }


def _exchange_s(row: dict[str, str]) -> float:
    return float(row["sync_time_s"])


@cache
def trainings() -> dict[str, Training]:
    """Return how each application trains."""
    epochs: dict[str, dict[int, list[Any]]] = defaultdict(dict)
    for row in _rows("validation"):
        figures = [float(row[name]) for name in ("progress", "grad_sqr", "grad_var")]
        epochs[row["application"]].setdefault(int(row["batch_size"]), []).append(figures)
    out = {}
    for name, count in EPOCHS.items():
        batches = sorted(epochs[name])
        table = np.array([epochs[name][batch][:count] for batch in batches])
        progress, squares, variances = np.moveaxis(table, 2, 0)
        out[name] = Training(np.array(batches, float), progress.min(axis=0), squares, variances)
    return out


def _rows(name: str) -> Iterator[dict[str, str]]:
    path = shared_data("sia_pollux", f"{name}.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
