"""Which of the five workload classes a job belongs to, from what a trace says of it.

Rules in order, the first that applies; each gives its reason:

1. a known model has the class its measurements show;
2. a part of one device, with little memory or for a short time: latency-sensitive;
3. a gang of `GANG` devices or more: bandwidth-limited;
4. memory per device, by the table of workload classes: above 16 GiB memory-bound,
   above 2 GiB mixed, else compute-intensive;
5. nothing known: compute-intensive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE, S_PER_MIN, duration_text, to_s
from flyball.core.workload import Ints, JobClass
from flyball.physics.measured import split_model

GANG = 16
"""More devices than a node has: the gang talks over the network."""

SMALL_MIB = 8 * MIB_PER_GIB
"""Latency-sensitive jobs need 1-8 GB."""

SHORT_S = 10 * S_PER_MIN

LARGE_MIB = 16 * MIB_PER_GIB
MIDDLE_MIB = 2 * MIB_PER_GIB

KNOWN_MODELS = {
    "resnet-18": (
        JobClass.COMPUTE_INTENSIVE,
        "convolutions: 3.4 to 12 times faster on V100 than K80",
    ),
    "resnet-50": (JobClass.COMPUTE_INTENSIVE, "convolutions: 5 to 7 times faster on V100 than K80"),
    "cyclegan": (JobClass.COMPUTE_INTENSIVE, "convolutions: 9 times faster on V100 than K80"),
    "transformer": (
        JobClass.MIXED,
        "attention and embeddings: 2 to 6 times faster on V100 than K80",
    ),
    "lm": (
        JobClass.BANDWIDTH_LIMITED,
        "large gradients: 3 to 10 times slower when spread over nodes",
    ),
    "recommendation": (JobClass.MEMORY_BOUND, "embedding tables: no faster on V100 than P100"),
    "a3c": (JobClass.LATENCY_SENSITIVE, "many small steps: only twice as fast on V100 as on K80"),
}
"""By name in lower case; the reasons are from Gavel's measurements."""


class Verdict(NamedTuple):
    """A class, and why."""

    kind: JobClass
    reason: str


def classify_one(
    memory_mib: int = 0,
    devices: int = 1,
    milli: int = MILLI_PER_DEVICE,
    duration_estimate_us: float = float("nan"),
    model: str | None = None,
) -> Verdict:
    """The class of one job and the reason for it.

    Args:
        memory_mib: per device, 0 = not stated.
        devices: gang size.
        milli: thousandths of each device.
        duration_estimate_us: expected run time, NaN = not stated.
        model: as in the job's description, None = not stated.
    """
    known = _known(model)
    if known is not None:
        return known
    memory_gib = memory_mib / MIB_PER_GIB
    short = duration_estimate_us <= SHORT_S * 1e6
    if devices == 1 and milli < MILLI_PER_DEVICE and (0 < memory_mib <= SMALL_MIB or short):
        size = f"{memory_gib:.1f} GiB" if memory_mib else duration_text(to_s(duration_estimate_us))
        return Verdict(JobClass.LATENCY_SENSITIVE, f"{milli / 10:.0f} % of one device, {size}")
    if devices >= GANG:
        return Verdict(JobClass.BANDWIDTH_LIMITED, f"a gang of {devices}, {GANG} or more")
    if memory_mib > LARGE_MIB:
        return Verdict(JobClass.MEMORY_BOUND, f"{memory_gib:.1f} GiB a device, above 16")
    if memory_mib > MIDDLE_MIB:
        return Verdict(JobClass.MIXED, f"{memory_gib:.1f} GiB a device, between 2 and 16")
    if memory_mib > 0:
        return Verdict(JobClass.COMPUTE_INTENSIVE, f"{memory_gib:.1f} GiB a device, at most 2")
    return Verdict(JobClass.COMPUTE_INTENSIVE, "nothing known that says otherwise")


def classify(
    memory_mib: npt.ArrayLike,
    devices: npt.ArrayLike,
    milli: npt.ArrayLike,
    duration_estimate_us: npt.ArrayLike,
    model: npt.ArrayLike,
    models: tuple[str, ...] = (),
) -> Ints:
    """The classes of many jobs, by column; the same rules as `classify_one`.

    Args:
        memory_mib, devices, milli, duration_estimate_us: as for one job.
        model: indices in `models`, negative = not stated.
        models: names of models.

    Returns:
        One `JobClass` a job.
    """
    memory, gang, share, estimate, code = np.broadcast_arrays(
        *(np.atleast_1d(each) for each in (memory_mib, devices, milli, duration_estimate_us, model))
    )
    kinds = np.full(memory.shape, JobClass.COMPUTE_INTENSIVE, np.int64)
    kinds[memory > MIDDLE_MIB] = JobClass.MIXED
    kinds[memory > LARGE_MIB] = JobClass.MEMORY_BOUND
    kinds[gang >= GANG] = JobClass.BANDWIDTH_LIMITED
    small = ((memory > 0) & (memory <= SMALL_MIB)) | (estimate <= SHORT_S * 1e6)
    kinds[(gang == 1) & (share < MILLI_PER_DEVICE) & small] = JobClass.LATENCY_SENSITIVE
    for index, name in enumerate(models):
        known = _known(name)
        if known is not None:
            kinds[code == index] = known.kind
    return kinds


def _known(model: str | None) -> Verdict | None:
    name, _ = split_model(model)
    if name not in KNOWN_MODELS:
        return None
    kind, why = KNOWN_MODELS[name]
    return Verdict(kind, f"{name}: {why}")
