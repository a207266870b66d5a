"""Power of devices and nodes, and the effect of a power cap on time and draw.

Everything here is a model of measured data; `docs/concept/abstraction.md` lists the sources.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.core.workload import JobClass
from flyball.physics.catalogue import DeviceType, document

DRAW_SHARE = {
    JobClass.COMPUTE_INTENSIVE: 0.87,
    JobClass.MEMORY_BOUND: 0.41,
    JobClass.LATENCY_SENSITIVE: 0.63,
    JobClass.BANDWIDTH_LIMITED: 0.64,
    JobClass.MIXED: 0.64,
}
"""Draw as a part of the peak while a job of the class runs, without a cap.

Zeus, medians over V100, A40, RTX 6000 and P100: compute-intensive between ResNet-50 (0.845)
and BERT (0.896); mixed DeepSpeech2 (0.636); memory-bound between ShuffleNetV2 (0.61, short of
bandwidth) and NCF (0.204, starved by the host). Latency-sensitive: a lightly loaded
inference replica on H100 (ML.ENERGY, 0.63). A gang that waits for its network was not
measured and is taken as mixed.
"""

IDLE_SHARE = 0.15
"""Idle draw as a share of the peak: an idle A100 in Acme draws 60 of 400 W. Converts a share of the
peak into a utilisation."""

FULL_CAP = 0.95
"""Part of the draw above which a cap hardly has an effect."""


class CapCurve(NamedTuple):
    """The effect of power caps on one type of device.

    Attributes:
        points: (ln(draw / cap), ln(time factor)), both rising; the first is no cap.
        drawn: power drawn under a cap, as a part of the cap.
    """

    points: tuple[tuple[float, float], ...]
    drawn: float


def utilisation(kind: JobClass) -> float:
    """Return how much of the span between idle and peak draw a job of this class uses, 0..1."""
    return (DRAW_SHARE[kind] - IDLE_SHARE) / (1.0 - IDLE_SHARE)


def draw_w(device: DeviceType, kind: JobClass) -> float:
    """Return the watts of one device while it runs a job of this class, without a cap."""
    return device.idle_w + (device.peak_w - device.idle_w) * utilisation(kind)


def host_w(device: DeviceType, devices_per_node: int) -> float:
    """Return the watts of an awake node without its devices, in proportion to their number."""
    return device.host_w * devices_per_node / device.node_devices


def cap_factors(device: DeviceType, draw_fraction_cap: float) -> tuple[float, float]:
    """Return the effect of a cap at a fraction of the draw.

    Time is interpolated linearly between the device's measured points. Power is a fixed part of
    the cap from 95 % of the draw down, and falls evenly to there from no cap.

    Args:
        device: whose curve to use.
        draw_fraction_cap: the cap as a part of the uncapped draw, above 0 and at most 1.

    Returns:
        Factors on time (1 or more, rising as the cap falls) and on drawn power (1 or
        less, falling with it); exactly (1.0, 1.0) without a cap.
    """
    if not 0.0 < draw_fraction_cap <= 1.0:
        raise BadInput(f"a cap at {draw_fraction_cap} of the draw", "use more than 0, at most 1")
    if draw_fraction_cap == 1.0:
        return 1.0, 1.0
    curve = cap_curve(device.cap_curve)
    log_ratio = -math.log(draw_fraction_cap)
    part = min(1.0, log_ratio / -math.log(FULL_CAP))
    drawn = curve.drawn**part * draw_fraction_cap
    return math.exp(_along(curve.points, log_ratio)), drawn


@cache
def cap_curve(name: str) -> CapCurve:
    """Return the power-cap curve of this name in the catalogue."""
    table = document()["cap_curves"][name]
    measured = ((-math.log(cap), math.log(time)) for cap, time in table["points"])
    return CapCurve(((0.0, 0.0), *measured), table["drawn"])


def _along(points: tuple[tuple[float, float], ...], at: float) -> float:
    """Interpolate linearly between the points; beyond them, continue the last line."""
    last = len(points) - 1
    right = next((i for i in range(1, last) if at <= points[i][0]), last)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
