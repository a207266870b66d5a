"""The speed of a job on a type of device, relative to the type its duration is for.

Measured where both types were measured for this model, by Gavel or in the step times of
Pollux and Sia; else from the roofline, and then marked `estimated`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from flyball.core.cluster import Network
from flyball.core.errors import BadInput
from flyball.core.workload import JobClass
from flyball.physics import catalogue, measured, step_time
from flyball.physics.catalogue import DeviceType
from flyball.physics.measured import GavelSpeeds, Rate
from flyball.physics.network import spread_factor
from flyball.physics.roofline import relative_speed


@dataclass(frozen=True)
class Speed:
    """Progress per second relative to the base; 0 = cannot run there.

    Attributes:
        value: 2.0 = done in half the time.
        estimated: not measured for these types at this count.
        basis: where the value comes from, for people.
    """

    value: float
    estimated: bool
    basis: str = ""


class Evidence(Protocol):
    """Measurements of a model; ratios hold for the same gang and batch size."""

    anchor: ClassVar[str]
    """A device type measured for it, which links measured and unmeasured types."""

    @property
    def text(self) -> str:
        """The source and the model, for people."""

    def rate(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Return the speed of a packed gang relative to the anchor's; 0 = it does not fit."""

    def apart(self, device: DeviceType, count: int, devices_per_node: int = 0) -> Rate | None:
        """Return the speed of a gang spread over nodes relative to packed."""


def evidence(model: str | None) -> Evidence | None:
    """Return the measurements of a model as users write it; None if there are none."""
    key = measured.model_key(model)
    return step_time.find(model) if key is None else GavelSpeeds(key)


def speed(
    model: str | None,
    kind: JobClass,
    device: DeviceType,
    base: DeviceType,
    count: int,
    spread: bool,
    cluster_network: Network,
    devices_per_node: int = 0,
) -> Speed:
    """Return the speed of a gang on `device` relative to the same gang on `base`, packed.

    * Both types measured for this model: the ratio of the measured steps. Marked estimated
      where it is not exactly this gang: Gavel's nearest lower count, a fit used beyond what
      was profiled or a poor one, figures of a similar type.
    * Neither measured: the ratio of the rooflines.
    * One of them measured: that one's measured ratio to the anchor (V100 for Gavel's models,
      A100-40GB for step times), the other one's roofline ratio to the anchor.

    Spread over nodes, the measured ratio applies where there is one, else the network's
    factor. An estimated speed is never higher spread than packed; some measured are.

    Args:
        model: as in the job's description; None if not stated.
        kind: the job's workload class.
        device: the type it would run on.
        base: the type its duration is for.
        count: devices in the gang.
        spread: on more nodes than it needs.
        cluster_network: bandwidth inside and between nodes.
        devices_per_node: of `device`; a gang that needs several nodes anyway loses
            nothing more by spreading. 0 = not stated; step times then take the catalogue's.

    Returns:
        Exactly 1.0 if `device` is `base` and the gang is packed.
    """
    if count < 1:
        raise BadInput(f"a gang of {count} devices", "ask for 1 or more")
    facts = evidence(model)
    gang = (model, facts, kind, count, devices_per_node)
    if device.name != base.name and (device.like or base.like):
        packed = _defined(gang, device, base)
    else:
        packed = _packed(facts, kind, device, base, count, devices_per_node)
    device = catalogue.get(device.like) if device.like else device  # that type was measured
    if not spread or count == 1 or packed.value == 0.0:
        return packed
    return _spread(packed, facts, kind, device, count, cluster_network, devices_per_node)


Gang = tuple[str | None, Evidence | None, JobClass, int, int]
"""Model, its measurements, class, devices in the gang, devices per node."""


def _defined(gang: Gang, device: DeviceType, base: DeviceType) -> Speed:
    """Return the speed where a cluster file defines one of the types."""
    there, here = _to_reference(gang, device), _to_reference(gang, base)
    if here.value == 0.0:
        _possible(base, gang[2])
    value = there.value / here.value if here.value else 0.0
    basis = there.basis if device.like else here.basis
    return Speed(value, there.estimated or here.estimated, basis)


def _to_reference(gang: Gang, device: DeviceType) -> Speed:
    """Return the speed relative to the reference device."""
    model, facts, kind, count, devices_per_node = gang
    reference = catalogue.reference()
    stated = measured.find_stated(model, device.speeds)
    if stated is not None:
        against = _to_reference(gang, catalogue.get(stated.against))
        basis = f"cluster file: {stated.times:g} times {stated.against}"
        exact = stated.against == reference.name
        return Speed(stated.times * against.value, not exact and against.estimated, basis)
    if device.like:
        like = _to_reference(gang, catalogue.get(device.like))
        return Speed(like.value * device.speed, True, f"as {device.like} x {device.speed:g}")
    return _packed(facts, kind, device, reference, count, devices_per_node)


def _packed(
    facts: Evidence | None,
    kind: JobClass,
    device: DeviceType,
    base: DeviceType,
    count: int,
    devices_per_node: int,
) -> Speed:
    if device.name == base.name:
        return Speed(1.0, False, f"the {base.name} its duration is for")
    on_device = facts.rate(device, count, devices_per_node) if facts else None
    on_base = facts.rate(base, count) if facts else None
    # The table has it as not fitting on its base, but there is a duration for it there.
    ran_though_unfit = on_base is not None and on_base.value == 0.0
    if facts is None or ran_though_unfit or (on_device is None and on_base is None):
        value = relative_speed(device, kind) / _possible(base, kind)
        return Speed(value, True, f"roofline, {kind.label}")
    if on_device is not None and on_base is not None:
        value = on_device.value / on_base.value
        remark = "; ".join(dict.fromkeys(filter(None, (on_device.remark, on_base.remark))))
        basis = f"measured: {facts.text}, {remark or f'{count} devices'}"
        return Speed(value, bool(remark) and value != 0.0, basis)
    anchor = relative_speed(catalogue.get(facts.anchor), kind)
    there = on_device.value if on_device else relative_speed(device, kind) / anchor
    here = on_base.value if on_base else _possible(base, kind) / anchor
    basis = f"roofline against {facts.anchor}, {kind.label}, and {facts.text}"
    return Speed(there / here, True, basis)


def _possible(base: DeviceType, kind: JobClass) -> float:
    """Return the roofline speed of the type a duration is for; it must not be 0."""
    value = relative_speed(base, kind)
    if value == 0.0:
        raise BadInput(
            f"no {kind.label} job can run on {base.name}", "state another device for its duration"
        )
    return value


def _spread(
    packed: Speed,
    facts: Evidence | None,
    kind: JobClass,
    device: DeviceType,
    count: int,
    network: Network,
    devices_per_node: int,
) -> Speed:
    ratio = facts.apart(device, count, devices_per_node) if facts else None
    if ratio is not None:
        estimated = packed.estimated or bool(ratio.remark)
        factor = min(1.0, ratio.value) if estimated else ratio.value
        return Speed(packed.value * factor, estimated, f"{packed.basis}; spread: measured")
    crosses_anyway = 0 < devices_per_node < count
    factor = 1.0 if crosses_anyway else spread_factor(device, kind, count, network)
    return Speed(packed.value * factor, True, f"{packed.basis}; spread: by network")
