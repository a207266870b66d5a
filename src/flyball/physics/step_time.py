"""Measured step times of six training applications: `flyball/data/step_times.toml`.

Pollux and Sia profiled them over batch sizes and placements on five types of device. One
step on K devices takes

    T = (s - 1) Tg + (Tg^g + Ts^g)^(1/g)

Tg is the time to compute m samples on each device, Ts the time to exchange gradients, and g how
far the two overlap. A batch that does not fit into a device at once is accumulated in s pieces.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar, NamedTuple

from flyball.core.errors import UnknownName
from flyball.physics import catalogue
from flyball.physics.catalogue import DeviceType
from flyball.physics.measured import ModelKey, Rate, split_model

GOOD_FIT = 0.15
"""Largest median error of a fit that counts as a measurement; above it is an estimate."""


class Line(NamedTuple):
    """Seconds as a linear function of a count."""

    start_s: float
    each_s: float

    def at(self, count: float) -> float:
        """Return the seconds at `count`."""
        return self.start_s + self.each_s * count


@dataclass(frozen=True)
class Fit:
    """The step times of one application on one type of device.

    Attributes:
        compute: computing time, by samples on a device.
        inside: exchange on one node, by devices above two; None = not measured.
        between: exchange across nodes, likewise.
        overlap: g; 1 = compute and exchange follow each other, large = the longer one counts.
        largest: samples a device takes at once.
        most_devices: the largest gang that was profiled.
        error: median of |fit / measured - 1|.
    """

    compute: Line
    inside: Line | None
    between: Line | None
    overlap: float
    largest: int
    most_devices: int
    error: float

    def step_s(self, devices: int, across: bool, local_batch: float) -> float | None:
        """Return the seconds of one step; None if such a gang was not measured.

        Args:
            devices: in the gang.
            across: on several nodes.
            local_batch: samples on each device in one step.
        """
        pieces = max(1, math.ceil(local_batch / self.largest - 1e-9))
        piece_s = self.compute.at(local_batch / pieces)
        if devices == 1:
            return pieces * piece_s
        exchange = self.between if across else self.inside
        if exchange is None:
            return None
        exchange_s = exchange.at(devices - 2)
        last_s = (piece_s**self.overlap + exchange_s**self.overlap) ** (1.0 / self.overlap)
        return float((pieces - 1) * piece_s + last_s)


@dataclass(frozen=True)
class Application:
    """One application: how it trains, and how fast on which device.

    Attributes:
        first_batch: the batch size that progress is counted in (M0).
        largest_batch: the largest that was trained to the same target.
        noise: the mean gradient noise over signal at the first batch size (n).
        steps: steps of the first batch size to the target.
        fits: by device type.
    """

    name: str
    first_batch: int
    largest_batch: int
    noise: float
    steps: float
    fits: Mapping[str, Fit]

    def gain(self, batch: float) -> float:
        """Return the worth of a step of `batch` samples, in steps of the first batch size."""
        return (self.noise + 1.0) / (self.noise * self.first_batch / batch + 1.0)

    def efficiency(self, batch: float) -> float:
        """Return the worth of a sample at this batch size; 1 at the first."""
        return self.gain(batch) * self.first_batch / batch

    def steps_to_target(self, batch: float) -> float:
        """Return the number of steps of `batch` samples that the whole training takes."""
        return self.steps / self.gain(batch)


@dataclass(frozen=True)
class StepTimes:
    """The step times of an application at one batch size, for `flyball.physics.speed`.

    Attributes:
        batch: samples in one step of the whole gang.
    """

    application: Application
    batch: int
    anchor: ClassVar[str] = "A100-40GB"
    """Device type fitted for every application; it links measured and unmeasured types."""

    @property
    def text(self) -> str:
        """The source and the model, for people."""
        return f"step times, {ModelKey(self.application.name, self.batch).text}"

    def rate(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Return the speed of a packed gang relative to the anchor's; None = not measured."""
        step_s = self._step_s(device, count, _crosses(device, count, devices_per_node))
        anchor = catalogue.get(self.anchor)
        anchor_s = self._step_s(anchor, count, _crosses(anchor, count, 0))
        if step_s is None or anchor_s is None:
            return None
        return Rate(anchor_s / step_s, self._remark(device, count))

    def apart(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Return the speed of a gang spread over nodes relative to packed; None = not measured."""
        packed_s = self._step_s(device, count, _crosses(device, count, devices_per_node))
        apart_s = self._step_s(device, count, True)
        if packed_s is None or apart_s is None:
            return None
        return Rate(packed_s / apart_s, self._remark(device, count))

    def _step_s(self, device: DeviceType, count: int, across: bool) -> float | None:
        return step_time_s(self.application.name, device.name, count, across, self.batch / count)

    def _remark(self, device: DeviceType, count: int) -> str:
        """Return why a value is not a measurement of exactly this gang, "" if it is one."""
        fitted = _fitted_as(device.name)
        fit = self.application.fits[fitted]
        if count > fit.most_devices:
            return f"{count} devices by a fit to {fit.most_devices} at most"
        if fit.error > GOOD_FIT:
            return f"{count} devices by a fit {100 * fit.error:.0f} % off"
        return f"{count} devices as on {fitted}" if fitted != device.name else ""


def step_time_s(
    application: str, device: str, devices: int, across: bool, local_batch: float
) -> float | None:
    """Return the seconds of one training step; None if that application was not measured there.

    Args:
        application: a name of `applications()`.
        device: name of a device type in the catalogue.
        devices: in the gang.
        across: spread over several nodes.
        local_batch: samples on each device; accumulated if more than it takes at once.

    Raises:
        UnknownName: no such application.
    """
    if application not in applications():
        raise UnknownName("application", application, applications())
    fit = applications()[application].fits.get(_fitted_as(device))
    return None if fit is None else fit.step_s(devices, across, local_batch)


def find(model: str | None) -> StepTimes | None:
    """Return the step times of a model as users write it: `bert (batch size 384)` or `bert:384`.

    A name alone means the middle (by ratio) of the batch sizes it was trained with.
    """
    name, batch = split_model(model)
    application = applications().get(name)
    if application is None:
        return None
    if batch is None:
        batch = round(math.sqrt(application.first_batch * application.largest_batch))
    return StepTimes(application, batch) if batch > 0 else None


@cache
def applications() -> Mapping[str, Application]:
    """Return all applications by name."""
    document = _document()
    return {
        name: Application(
            name,
            table["first_batch"],
            table["largest_batch"],
            float(table["noise"]),
            float(table["steps"]),
            {
                device: _fit(row, document["most_devices"][device])
                for device, row in table["fits"].items()
            },
        )
        for name, table in document["applications"].items()
    }


def _crosses(device: DeviceType, count: int, devices_per_node: int) -> bool:
    """Return whether even a packed gang needs several nodes."""
    return count > (devices_per_node or device.node_devices)


def _fitted_as(device: str) -> str:
    """Return the type whose figures are used for this one."""
    stand_ins: dict[str, str] = _document()["stand_ins"]
    return stand_ins.get(device, device)


def _fit(row: dict[str, Any], most_devices: int) -> Fit:
    inside, between = row.get("inside_s"), row.get("between_s")
    return Fit(
        compute=Line(*row["compute_s"]),
        inside=Line(*inside) if inside else None,
        between=Line(*between) if between else None,
        overlap=float(row["overlap"]),
        largest=row["largest"],
        most_devices=most_devices,
        error=row["error"],
    )


@cache
def _document() -> dict[str, Any]:
    text = resources.files("flyball.data").joinpath("step_times.toml").read_text("utf-8")
    return tomllib.loads(text)
