"""Sets the load of a workload: by scaling its arrivals, or by drawing the right number of jobs.

Load is the sum of devices x duration over (devices of the cluster x span of the arrivals).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.units import S_PER_DAY, US_PER_S
from flyball.core.workload import NOT_STATED, Workload
from flyball.twin.generate.settings import GeneratorSettings
from flyball.twin.inputs.traces.describe import device_seconds

MAX_DRAWS = 12
"""Maximum number of draws, and of scalings of durations."""
CLOSE_ENOUGH = 0.01
"""Relative difference of a draw's work from the target that ends the search."""


def rescale(workload: Workload, load: float, devices: int) -> Workload:
    """Return the same jobs with arrivals stretched or compressed after the first one.

    Bursts and seasons are stretched with everything else. Recorded starts and ends are dropped:
    they belong to the arrivals as they were.

    Args:
        workload: two jobs or more that do not all arrive at once.
        load: target load; 1.0 keeps every device busy for as long as jobs arrive.
        devices: number of devices of the cluster.
    """
    check_load(load, devices)
    needed_us = float(device_seconds(workload).sum()) * US_PER_S
    if workload.span_us == 0 or needed_us == 0:
        raise BadInput(
            f"{workload.name}: the load cannot be set",
            "give jobs that take time and do not all arrive at once",
        )
    factor = needed_us / (devices * load) / workload.span_us
    first = workload.submit_us[0]
    submit_us = first + np.rint((workload.submit_us - first) * factor).astype(np.int64)
    unknown = np.full(len(workload), NOT_STATED, np.int64)  # no record of these arrivals
    return replace(workload, submit_us=submit_us, start_us=unknown, end_us=unknown)


def check_load(load: float, devices: int) -> None:
    """Refuse a load or a number of devices that is not above 0."""
    if not (0 < load < 1e6 and devices > 0):
        raise BadInput(f"load {load} on {devices} devices makes no sense", "use numbers above 0")


def draw_at_load(
    draw: Callable[[int], Workload], settings: GeneratorSettings, load: float, devices: int
) -> Workload:
    """Draw as many jobs as make this load over exactly `settings.days`.

    Durations have heavy tails, so two draws of nearly as many jobs differ by far more than one
    job's work. Several counts are drawn and the closest is kept; its durations are then
    scaled by a common factor near 1 to make up the rest.

    Args:
        draw: draws a workload with a number of jobs.
        settings: gives the span, the first guess of the rate and the longest duration.
        load: target load on `devices`.
        devices: number of devices of the cluster.
    """
    check_load(load, devices)
    target_s = load * devices * settings.days * S_PER_DAY
    closest = _closest_draw(draw, max(2, round(settings.days * settings.jobs_per_day)), target_s)
    scaled = _scale_durations(closest, target_s, settings.max_duration_s)
    if abs(device_seconds(scaled).sum() / target_s - 1) > CLOSE_ENOUGH:
        raise BadInput(
            f"load {load:g} on {devices} devices for {settings.days:g} days is "
            f"{target_s:.3g} device-seconds, less work than two jobs have",
            "give a higher load, more devices or more days",
        )
    return rescale(scaled, load, devices)


def _closest_draw(draw: Callable[[int], Workload], guess: int, target_s: float) -> Workload:
    """Return the draw whose work is nearest, of several around the right number of jobs."""
    drawn: dict[int, float] = {}
    count, best, least = guess, None, np.inf
    for _ in range(MAX_DRAWS):
        workload = draw(count)
        drawn[count] = float(device_seconds(workload).sum())
        distance = abs(np.log(drawn[count] / target_s))
        if distance < least:
            best, least = workload, distance
        if least < CLOSE_ENOUGH:
            break
        # All draws so far estimate the mean work of a job better than the last one does.
        count = max(2, round(target_s * sum(drawn) / sum(drawn.values())))
        while count in drawn:
            count += 1
    assert best is not None
    return best


def _scale_durations(workload: Workload, target_s: float, longest_s: float) -> Workload:
    """Return the workload with durations scaled, in whole seconds, to `target_s` of work."""
    original_s = workload.duration_us / US_PER_S
    factor = 1.0
    scaled = workload
    for _ in range(MAX_DRAWS):  # clipping at the ends takes some work away again
        factor *= target_s / float(device_seconds(scaled).sum())
        duration_s = np.clip(np.rint(original_s * factor), 1.0, longest_s)
        scaled = replace(workload, duration_us=(duration_s * US_PER_S).astype(np.int64))
    return scaled
