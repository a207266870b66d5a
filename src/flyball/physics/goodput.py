"""Goodput of an elastic job: how its progress changes with its number of devices.

Progress to the target is steps a second times what a step is worth. With the batch fixed as
the user set it a step is worth the same everywhere, so only its time counts; with an adaptive
batch the one of highest goodput

    gain(M) / T(M)

is chosen for every gang, among the batch sizes the application was trained with to its
target. Both come from `flyball.physics.step_time`. Models that ElasticFlow measured are known
at its batch sizes and numbers of devices, on the one type it used. Of any other model at least
the part of a step can be stated that many devices share out among themselves: `amdahl:0.9`.
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
"""Batch sizes tried between the first and the largest, by even ratios."""

ELASTICFLOW_PREFIX = "elasticflow-"
"""Marks a model of ElasticFlow's whose name the step times also use."""

AMDAHL_PREFIX = "amdahl:"
"""Before the part of a step that many devices share out among themselves."""


class Best(NamedTuple):
    """The goodput of a gang and the batch size that gives it.

    Attributes:
        per_s: steps of the first batch size a second (of ElasticFlow's models: iterations).
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
        """How it trains, and how fast on which device."""
        return step_time.applications()[self.name]

    def per_s(self, device: str, count: int, across: bool) -> float | None:
        """Goodput on `count` devices of a type; None = not measured."""
        if not self.adapts:
            return self.own_per_s(device, count, across)
        best = self.best(device, count, across)
        return None if best is None else best.per_s

    def own_per_s(self, device: str, count: int, across: bool) -> float | None:
        """The same with the batch as the user set it."""
        return self._at(self.batch, device, count, across)

    def best(self, device: str, count: int, across: bool) -> Best | None:
        """The batch size of highest goodput; the user's own is always one of those tried."""
        found: Best | None = None
        for batch in self._batches(count):
            per_s = self._at(batch, device, count, across)
            if per_s is None:
                return None
            if found is None or per_s > found.per_s:
                found = Best(per_s, batch)
        return found

    def _at(self, batch: float, device: str, count: int, across: bool) -> float | None:
        step_s = step_time_s(self.name, device, count, across, batch / count)
        return None if step_s is None else self.application.gain(batch) / step_s

    def _batches(self, count: int) -> list[float]:
        """Even ratios over the range, and every batch that just fills the pieces of some type."""
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
        """Iterations a second of `count` devices on as few nodes as possible."""
        packs = count <= catalogue.get(self.device).node_devices
        if catalogue.get(device).name != self.device or across == packs:
            return None
        return dict(self.iterations).get(count)

    def own_per_s(self, device: str, count: int, across: bool) -> float | None:
        """The same: the batch is always the user's."""
        return self.per_s(device, count, across)


@dataclass(frozen=True)
class Amdahl:
    """Nothing was measured but how a step shrinks: a part of it does with every device, the rest
    never does. The same on every type.

    Attributes:
        parallel: that part, 0 to 1.
    """

    parallel: float
    adapts: bool = False

    def per_s(self, device: str, count: int, across: bool) -> float:
        """Steps in the time that one device takes for one."""
        return 1.0 / (1.0 - self.parallel + self.parallel / count)

    def own_per_s(self, device: str, count: int, across: bool) -> float:
        """The same: the batch is always the user's."""
        return self.per_s(device, count, across)


Growth = Training | Measured | Amdahl
"""What is known of a model on gangs of other sizes than its own."""


def growth(model: str | None, adaptive: bool) -> Growth | None:
    """What is known of a model as users write it on other gangs; None = nothing: it is rigid.

    Args:
        model: `bert (batch size 384)`, `bert:384`, `bert` or `amdahl:0.9`.
        adaptive: the batch may follow the gang, where the model's efficiency is known.

    Raises:
        BadInput: a part that is none.
    """
    part = stated_part(model)
    if part is not None:
        return Amdahl(part)
    found = step_time.find(model)
    if found is not None:
        return Training(found.application.name, found.batch, adaptive)
    name, batch = split_model(model)
    measured = elasticflow().get((name.removeprefix(ELASTICFLOW_PREFIX), batch or 0))
    return None if measured is None else Measured(measured.device, tuple(measured.per_s.items()))


def stated_part(model: str | None) -> float | None:
    """The part of a step that devices share, of a model that is nothing but that; else None.

    Raises:
        BadInput: a part that is none.
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
def relative(known: Growth, device: str, own: int, count: int, per_node: int) -> float:
    """Progress of a packed gang relative to that of the user's own on the same type.

    Args:
        known: of the model.
        device: type of both gangs.
        own: devices the user asked for, with the batch as set.
        count: devices of the gang.
        per_node: devices of a node; a gang of more is packed on several.

    Returns:
        Exactly 1.0 for the own gang with its own batch; 0 = not measured.
    """
    here = known.per_s(device, count, count > per_node)
    base = known.own_per_s(device, own, own > per_node)
    if count == own and not known.adapts:
        return 1.0
    return here / base if here and base else 0.0


@lru_cache(1 << 16)
def apart(known: Growth, device: str, count: int, per_node: int) -> float | None:
    """Progress of a gang spread over nodes relative to packed; None = not measured.

    A fit that is poor or goes beyond what was profiled may not say that spreading helps.
    """
    if count == 1:
        return 1.0
    if isinstance(known, Amdahl):
        return None
    packed = known.per_s(device, count, count > per_node)
    spread = known.per_s(device, count, True)
    if not packed or not spread:
        return None
    return spread / packed if _trusted(known, device, count) else min(1.0, spread / packed)


def _trusted(known: Growth, device: str, count: int) -> bool:
    if not isinstance(known, Training):
        return True
    fit = known.application.fits.get(device)  # a stand-in's figures are an estimate
    return fit is not None and count <= fit.most_devices and fit.error <= GOOD_FIT
