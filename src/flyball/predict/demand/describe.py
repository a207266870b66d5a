"""Estimates a job's demand on a device from its description: a value, a band, and its basis.

Measurements of the model take precedence, then, on one core, the model learnt from our measured
steps; anything else is counted and put under the roofline of the catalogue. The bands of counted
estimates are stated factors, wider with every gap in the description: they are judgement, not
calibration, and the basis states that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.physics import catalogue, measured, step_time
from flyball.physics.catalogue import DeviceType
from flyball.physics.roofline import EFFICIENCY
from flyball.predict.demand.counts import StepCounts, count
from flyball.predict.demand.formulas import number
from flyball.predict.demand.own_model import CoreEstimate, estimate_on_core

LAUNCH_S = 6e-6
"""Host time per kernel launch."""
CONTEXT_MIB = 1443.0
"""Memory of a process with a CUDA context and no net in GPUMemNet's measurements."""
COUNTED = {"flops": 1.5, "step_s": 3.0, "memory_mib": 2.0}
"""Factor to either side of an estimate that is counted from a full description."""
GAPS = {"model_type": 10.0, "parameters": 10.0, "batch_size": 4.0, "input_size": 2.0, "layers": 1.3}
"""Further factor for each field that is not stated."""
WIDEST = 1e4
ONE_CORE = "CPU1"
"""Device type of our measured set."""
OTHER_CORE = 2.0
"""Factor by which a step may differ on another make of core: stated, not measured."""
FORMATS = {
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),
    "fp16": ("fp16", "bf16", "fp32"),
    "bf16": ("bf16", "fp16", "fp32"),
}
"""Number formats of a device that can be used for a precision, best first."""


class Estimate(NamedTuple):
    """Holds a value with its 90 % band, and its basis."""

    value: float
    low: float
    high: float
    basis: str


@dataclass(frozen=True)
class Demand:
    """Holds the demand of a step on one device.

    Attributes:
        flops: operations of a step.
        step_s: time of a step.
        memory_mib: memory on the device.
        utilisation: part of the step in which the device is busy.
        run_s: time of all `iterations`; None = not stated.
        remarks: what was missing or unusual, as sentences.
    """

    flops: Estimate
    step_s: Estimate
    memory_mib: Estimate
    utilisation: Estimate
    run_s: Estimate | None
    remarks: tuple[str, ...]


def one(description: Mapping[str, object], device: str, devices: int = 1) -> Demand:
    """Estimate the demand of one job on one type of device.

    Args:
        description: see `counts.count`; also `iterations`, and `model`, a measured model such
            as `bert:48`.
        device: a name of the catalogue.
        devices: number of devices in the gang; the batch is divided among them.

    Raises:
        UnknownName: there is no such device.
        BadInput: a value is not possible, or the device cannot train.
    """
    if devices < 1:
        raise BadInput(f"{devices} devices", "use at least 1")
    chip = catalogue.get(device)
    counted = count(description)
    compute_s, memory_s, host_s = _parts(counted, chip, description, devices)
    busy_s = max(compute_s, memory_s)
    roof = "compute" if compute_s >= memory_s else "memory"
    basis = f"roofline of {chip.name} ({roof})"
    on_core = estimate_on_core(description) if chip.name == ONE_CORE and devices == 1 else None
    step = (
        _measured(description, chip, devices)
        or (_on_core(on_core["step"], OTHER_CORE) if on_core else None)
        or _band("step_s", busy_s + host_s, counted.gaps, basis)
    )
    held_mib = counted.held(devices) / 2**20
    busy = busy_s / (busy_s + host_s)
    return Demand(
        flops=_band("flops", counted.flops, counted.gaps, "counted"),
        step_s=step,
        memory_mib=_on_core(on_core["memory"], 1.0)
        if on_core
        else _memory(held_mib, counted, chip),
        utilisation=Estimate(busy, busy / 3.0, min(1.0, busy * 3.0), f"{basis} against the host"),
        run_s=_run(step, description),
        remarks=_remarks(description, counted, chip, devices),
    )


def _parts(
    counted: StepCounts, chip: DeviceType, description: Mapping[str, object], devices: int
) -> tuple[float, float, float]:
    """Return the seconds to compute, to move bytes, and of the host."""
    precision = str(description.get("precision") or "fp32").lower()
    usable = next((name for name in FORMATS[precision] if name in chip.peak_tflops), None)
    if usable is None:
        raise BadInput(f"{chip.name} cannot train in {precision}", "choose another device")
    compute_s = counted.flops / devices / (chip.peak_tflops[usable] * 1e12 * EFFICIENCY)
    memory_s = counted.moved(devices) / (chip.bandwidth_gb_s * 1e9)
    return compute_s, memory_s, counted.kernels * LAUNCH_S


def _band(what: str, value: float, gaps: tuple[str, ...], basis: str) -> Estimate:
    factor = COUNTED[what]
    for gap in gaps:
        factor *= GAPS[gap]
    factor = min(factor, WIDEST)
    note = f"{basis}; the band is a stated factor of {factor:.3g}, not measured"
    return Estimate(value, value / factor, value * factor, note)


def _on_core(estimate: CoreEstimate, factor: float) -> Estimate:
    """Return the estimate learnt on one core, widened by `factor` for other makes of core."""
    note = "learnt from steps measured on one core of an Intel Xeon (data/measured_steps.json)"
    if factor > 1.0:
        note += f"; another core may differ: band widened by a stated factor of {factor:g}"
    return Estimate(estimate.value, estimate.low / factor, estimate.high * factor, note)


def _memory(held_mib: float, counted: StepCounts, chip: DeviceType) -> Estimate:
    """Return the memory: the context, which is known, plus an estimate with its band."""
    context_mib = CONTEXT_MIB if chip.kind == "gpu" else 0.0
    above = _band("memory_mib", held_mib, counted.gaps, "counted, above the context")
    return Estimate(
        *(context_mib + above.value, context_mib + above.low, context_mib + above.high),
        above.basis,
    )


def _run(step: Estimate, description: Mapping[str, object]) -> Estimate | None:
    """Return the time of all steps, None if their number is not stated."""
    if description.get("iterations") in (None, ""):
        return None
    steps = number(description, "iterations")
    basis = f"{steps:g} steps; {step.basis}"
    return Estimate(step.value * steps, step.low * steps, step.high * steps, basis)


def _measured(description: Mapping[str, object], chip: DeviceType, devices: int) -> Estimate | None:
    """Return the step time of a model measured on this type; None if it was not."""
    model = str(description.get("model") or "")
    match = step_time.find(model)
    if match is not None:
        name, local = match.application.name, match.batch / devices
        across = devices > chip.node_devices
        seconds = step_time.step_time_s(name, chip.name, devices, across, local)
        if seconds is not None:
            fits = match.application.fits
            near = [fits[chip.name]] if chip.name in fits else list(fits.values())
            error = max(0.15, 3.0 * max(fit.error for fit in near))
            low, high = seconds / (1.0 + error), seconds * (1.0 + error)
            return Estimate(seconds, low, high, f"measured: {match.text} on {chip.name}")
    key = measured.model_key(model)
    if key is not None and chip.measured_as:
        count_used = measured.measured_count(key, devices)
        speed = measured.steps_per_s(chip.measured_as, key, count_used)
        if speed:
            basis = f"measured: Gavel, {key.text} on {count_used} x {chip.name}"
            return Estimate(1.0 / speed, 0.85 / speed, 1.15 / speed, basis)
    return None


def _remarks(
    description: Mapping[str, object], counted: StepCounts, chip: DeviceType, devices: int
) -> tuple[str, ...]:
    """Return remarks for the user."""
    remarks = []
    model_type, model = description.get("model_type"), str(description.get("model") or "")
    if "model_type" in counted.gaps and model_type:
        remarks.append(f"model type {model_type!r} is not known: a wide band")
    if missing := [gap for gap in counted.gaps if not description.get(gap)]:
        remarks.append(f"not stated, a usual value taken: {', '.join(missing)}")
    held_gib = counted.held(devices) / 2**30
    if held_gib > chip.memory_gib:
        remarks.append(
            f"{held_gib:.0f} GiB do not fit into the {chip.memory_gib:g} GiB of a device"
        )
    unmeasured = step_time.find(model) is None and measured.model_key(model) is None
    if model and unmeasured:
        remarks.append(f"model {model!r} was not measured: counted")
    if devices > 1 and unmeasured:
        remarks.append("the exchange of gradients is not counted")
    return tuple(remarks)
