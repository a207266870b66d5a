"""Goodput of an elastic job: how its progress changes with its number of devices.

Progress to the target is steps per second times what a step is worth. With the batch fixed as
the user set it a step is worth the same everywhere, so only its time counts; with an adaptive
batch the one of highest goodput

    gain(M) / T(M)

is chosen for every gang, among the batch sizes with which the application was trained to its
target. Both come from `flyball.physics.step_time`. Models that ElasticFlow measured have figures
for its batch sizes and numbers of devices, on the one type it used. For any other model the user
can state the part of a step that runs in parallel: `amdahl:0.9`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.physics import catalogue, step_time
from flyball.physics.measured import elasticflow, split_model
from flyball.physics.step_time import GOOD_FIT, Application, step_time_s

BATCHES = 48
"""Number of batch sizes tried between the first and the largest, by even ratios."""

ELASTICFLOW_PREFIX = "elasticflow-"
"""Prefix of an ElasticFlow model whose name the step times also use."""

AMDAHL_PREFIX = "amdahl:"
"""Prefix of the part of a step that runs in parallel."""


class Best(NamedTuple):
    """The goodput of a gang and the batch size that gives it.

    Attributes:
        per_s: steps of the first batch size per second (of ElasticFlow's models: iterations).
        batch: samples in one step of the whole gang.
    """

    per_s: float
    batch: float


@dataclass(frozen=True)
class Training:
    """An application that trains to its target at any batch size in its range.

    Attributes:
        name: of the application, one of `step_time.applications()`.
        batch: as the user set it, of the whole gang.
        adapts: choose the best batch for every gang instead.
    """

    name: str
    batch: int
    adapts: bool

    @property
    def application(self) -> Application:
        """Figures of the application: how it trains, and how fast on which device."""
        return step_time.applications()[self.name]

    def per_s(self, device: str, count: int, across: bool) -> float | None:
        """Return the goodput on `count` devices of a type; None = not measured."""
        if not self.adapts:
            return self.own_per_s(device, count, across)
        best = self.best(device, count, across)
        return None if best is None else best.per_s

    def own_per_s(self, device: str, count: int, across: bool) -> float | None:
        """Return the goodput with the batch as the user set it; None = not measured."""
        return self._at(self.batch, device, count, across)

    def best(self, device: str, count: int, across: bool) -> Best | None:
        """Return the batch size of highest goodput; the user's is always one of those tried."""
        best: Best | None = None
        for batch in self._batches(count):
            per_s = self._at(batch, device, count, across)
            if per_s is None:
                return None
            if best is None or per_s > best.per_s:
                best = Best(per_s, batch)
        return best

    def _at(self, batch: float, device: str, count: int, across: bool) -> float | None:
        step_s = step_time_s(self.name, device, count, across, batch / count)
        return None if step_s is None else self.application.gain(batch) / step_s

    def _batches(self, count: int) -> list[float]:
        """Return batch sizes to try: even ratios over the range, and those that fill a device."""
        least = max(self.application.first_batch, count)
        most = max(self.application.largest_batch, least)
        ratio = (most / least) ** (1.0 / (BATCHES - 1))
        tried = [float(self.batch), *(least * ratio**i for i in range(BATCHES))]
        for largest in sorted({fit.largest for fit in self.application.fits.values()}):
            full = largest * count
            tried += [float(full * pieces) for pieces in range(1, int(most // full) + 1)]
        return [batch for batch in tried if batch >= count]


@dataclass(frozen=True)
class Measured:
    """A model that ElasticFlow measured, at its batch size and on its type of device."""

    device: str
    iterations: tuple[tuple[int, float], ...]
    adapts: bool = False

    def per_s(self, device: str, count: int, across: bool) -> float | None:
        """Return iterations per second of `count` devices on as few nodes as possible."""
        packs = count <= catalogue.get(self.device).node_devices
        if catalogue.get(device).name != self.device or across == packs:
            return None
        return dict(self.iterations).get(count)

    def own_per_s(self, device: str, count: int, across: bool) -> float | None:
        """Return the same as `per_s`: the batch is always the user's."""
        return self.per_s(device, count, across)


@dataclass(frozen=True)
class Amdahl:
    """A model of which only the parallel part of a step is known; the same on every type.

    Attributes:
        parallel: that part, 0 to 1; it shrinks with every device, the rest does not.
    """

    parallel: float
    adapts: bool = False

    def per_s(self, device: str, count: int, across: bool) -> float:
        """Return the number of steps in the time that one device takes for one."""
        return 1.0 / (1.0 - self.parallel + self.parallel / count)

    def own_per_s(self, device: str, count: int, across: bool) -> float:
        """Return the same as `per_s`: the batch is always the user's."""
        return self.per_s(device, count, across)


Growth = Training | Measured | Amdahl
"""How a model's progress grows with the size of its gang."""


def growth(model: str | None, adaptive: bool) -> Growth | None:
    """Return how a model's progress grows with its gang; None = not known, the job is rigid.

    Args:
        model: as users write it: `bert (batch size 384)`, `bert:384`, `bert` or `amdahl:0.9`.
        adaptive: the batch may follow the gang, where the model's efficiency is known.

    Raises:
        BadInput: the part of `amdahl:` is not a number from 0 to 1.
    """
    part = stated_part(model)
    if part is not None:
        return Amdahl(part)
    times = step_time.find(model)
    if times is not None:
        return Training(times.application.name, times.batch, adaptive)
    name, batch = split_model(model)
    measured = elasticflow().get((name.removeprefix(ELASTICFLOW_PREFIX), batch or 0))
    return None if measured is None else Measured(measured.device, tuple(measured.per_s.items()))


def stated_part(model: str | None) -> float | None:
    """Return the parallel part that a model of the form `amdahl:0.9` states; else None.

    Raises:
        BadInput: it is not a number from 0 to 1.
    """
    if model is None or not model.startswith(AMDAHL_PREFIX):
        return None
    try:
        part = float(model.removeprefix(AMDAHL_PREFIX))
    except ValueError:
        part = -1.0
    if not 0.0 <= part <= 1.0:
        raise BadInput(f"model {model!r}", f"write {AMDAHL_PREFIX}0.9, a part from 0 to 1")
    return part


@lru_cache(1 << 16)
def relative(curve: Growth, device: str, requested: int, count: int, per_node: int) -> float:
    """Return the progress of a packed gang relative to the gang the user asked for.

    Args:
        curve: of the model.
        device: type of both gangs.
        requested: devices the user asked for, with the batch as set.
        count: devices of the gang.
        per_node: devices of a node; a gang of more is packed on several.

    Returns:
        Exactly 1.0 for the requested gang with the batch as set; 0 = not measured.
    """
    here = curve.per_s(device, count, count > per_node)
    base = curve.own_per_s(device, requested, requested > per_node)
    if count == requested and not curve.adapts:
        return 1.0
    return here / base if here and base else 0.0


@lru_cache(1 << 16)
def apart(curve: Growth, device: str, count: int, per_node: int) -> float | None:
    """Return the progress of a gang spread over nodes relative to packed; None = not measured.

    A fit that is poor, or that goes beyond what was profiled, may not claim that spreading helps.
    """
    if count == 1:
        return 1.0
    if isinstance(curve, Amdahl):
        return None
    packed = curve.per_s(device, count, count > per_node)
    spread = curve.per_s(device, count, True)
    if not packed or not spread:
        return None
    return spread / packed if _trusted(curve, device, count) else min(1.0, spread / packed)


def _trusted(curve: Growth, device: str, count: int) -> bool:
    if not isinstance(curve, Training):
        return True
    fit = curve.application.fits.get(device)  # a stand-in's figures are an estimate
    return fit is not None and count <= fit.most_devices and fit.error <= GOOD_FIT
