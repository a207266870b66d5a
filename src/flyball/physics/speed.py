"""How fast a job runs on a type of device, relative to the type its duration is for.

Measured where Gavel measured both types for this model; else from the roofline, and
then marked `estimated`.
"""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.cluster import Network
from flyball.core.errors import BadInput
from flyball.core.workload import JobClass
from flyball.physics import measured
from flyball.physics.catalogue import DeviceType
from flyball.physics.measured import ANCHOR, ModelKey
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


@dataclass(frozen=True)
class _Rate:
    """Speed of a gang relative to the anchor type, at the same count, packed."""

    value: float
    measured: bool


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
    """Speed of a gang on `device` relative to the same gang on `base`, packed.

    * Both types measured for this model: the ratio of the measured steps. A count that
      was not measured takes the nearest lower one that was, and is marked estimated.
    * Neither measured: the ratio of the rooflines.
    * One of them measured: that one's measured ratio to the V100, the other one's
      roofline ratio to the V100.

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
            nothing more by spreading. 0 = not stated.

    Returns:
        Exactly 1.0 if `device` is `base` and the gang is packed.
    """
    if count < 1:
        raise BadInput(f"a gang of {count} devices", "ask for 1 or more")
    key = measured.model_key(model)
    packed = _packed(key, kind, device, base, count)
    if not spread or count == 1 or packed.value == 0.0:
        return packed
    return _spread(packed, key, kind, device, count, cluster_network, devices_per_node)


def _packed(
    key: ModelKey | None, kind: JobClass, device: DeviceType, base: DeviceType, count: int
) -> Speed:
    if device.name == base.name:
        return Speed(1.0, False, f"the {base.name} its duration is for")
    own, other = _rate(key, kind, device, count), _rate(key, kind, base, count)
    if other.measured and other.value == 0.0:  # it ran there, whatever the table says
        own, other = _rate(None, kind, device, count), _rate(None, kind, base, count)
    if other.value == 0.0:
        raise BadInput(
            f"no {kind.label} job can run on {base.name}", "state another device for its duration"
        )
    value = own.value / other.value
    if key is None or not (own.measured or other.measured):
        return Speed(value, True, f"roofline, {kind.label}")
    if not (own.measured and other.measured):
        return Speed(value, True, f"roofline against V100, {kind.label}, and Gavel, {key.text}")
    used = measured.measured_count(key, count)
    exact = used == count or value == 0.0
    at = f"{used} devices" if used == count else f"{used} devices instead of {count}"
    return Speed(value, not exact, f"measured: Gavel, {key.text}, {at}")


def _rate(key: ModelKey | None, kind: JobClass, device: DeviceType, count: int) -> _Rate:
    if key is not None and device.measured_as:
        used = measured.measured_count(key, count)
        steps = measured.steps_per_s(device.measured_as, key, used)
        anchor = measured.steps_per_s(ANCHOR, key, used)
        if steps is not None and anchor:
            return _Rate(steps / anchor, True)
    return _Rate(relative_speed(device, kind), False)


def _spread(
    packed: Speed,
    key: ModelKey | None,
    kind: JobClass,
    device: DeviceType,
    count: int,
    network: Network,
    devices_per_node: int,
) -> Speed:
    ratio = _measured_spread(key, device, count)
    if ratio is not None and key is not None:
        estimated = packed.estimated or measured.measured_count(key, count) != count
        factor = min(1.0, ratio) if estimated else ratio
        return Speed(packed.value * factor, estimated, f"{packed.basis}; spread: measured")
    crosses_anyway = 0 < devices_per_node < count
    factor = 1.0 if crosses_anyway else spread_factor(device, kind, count, network)
    return Speed(packed.value * factor, True, f"{packed.basis}; spread: by network")


def _measured_spread(key: ModelKey | None, device: DeviceType, count: int) -> float | None:
    """Speed spread over speed packed, if both were measured for a gang."""
    if key is None or not device.measured_as:
        return None
    used = measured.measured_count(key, count)
    if used == 1:
        return None
    packed = measured.steps_per_s(device.measured_as, key, used, packed=True)
    apart = measured.steps_per_s(device.measured_as, key, used, packed=False)
    return apart / packed if packed and apart is not None else None
