"""What happened to the jobs of a trace on the real cluster, and how close runs of the twin come.

A trace that holds starts is a record of its cluster under its own policy. The distance of a
run from it compares the waits of each job in the run and in the record, on a scale of ratios:
in hours, a single backlog that a small difference causes outweighs all other jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster
from flyball.core.metrics import WINDOW_BEGINS, Spread, without_nan
from flyball.core.results import Results
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import Workload

BOUND_S = 60.0
"""Seconds added to both waits of a job before taking their ratio: short waits count as alike."""


@dataclass(frozen=True)
class Record:
    """The history in a trace, in the metrics that follow from its starts and ends.

    Attributes:
        jobs: with a recorded start and end; no other job counts here.
        of: jobs of the trace.
        completion_s: from submission to the recorded end.
        wait_s: from submission to the recorded first start.
        makespan_s: from the first submission to the last recorded end.
        utilisation: of the cluster's device time in the window, the part these jobs held.
    """

    jobs: int
    of: int
    completion_s: Spread
    wait_s: Spread
    makespan_s: float
    utilisation: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes None."""
        plain: dict[str, Any] = without_nan(asdict(self))
        return plain


@dataclass(frozen=True)
class Closeness:
    """How far the starts of a run are from the recorded ones, over the recorded jobs.

    Attributes:
        jobs: started both in the run and in the record.
        wait_s, recorded_wait_s: mean times from submission to first start.
        start_error_s: mean of |start - recorded start|.
        start_error_p50_s: its median.
        distance: mean of |ln((wait + 1 min) / (recorded wait + 1 min))|; 0 = every job starts
            when it did, 0.7 = waits are typically off by a factor of two.
    """

    jobs: int
    wait_s: float
    recorded_wait_s: float
    start_error_s: float
    start_error_p50_s: float
    distance: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes None."""
        plain: dict[str, Any] = without_nan(asdict(self))
        return plain


def is_recorded(workload: Workload) -> npt.NDArray[np.bool_]:
    """Return which jobs have a recorded start and end, in a possible order."""
    started = (workload.start_us >= 0) & (workload.start_us >= workload.submit_us)
    return started & (workload.end_us >= workload.start_us)


def record_of(workload: Workload, cluster: Cluster) -> Record | None:
    """Return the history in a trace; None if it records no job."""
    kept = is_recorded(workload)
    if not kept.any():
        return None
    submit_us, start_us, end_us = (
        getattr(workload, name)[kept] for name in ("submit_us", "start_us", "end_us")
    )
    first_us = int(workload.submit_us[0])
    return Record(
        jobs=int(kept.sum()),
        of=len(workload),
        completion_s=Spread.of((end_us - submit_us) / US_PER_S),
        wait_s=Spread.of((start_us - submit_us) / US_PER_S),
        makespan_s=(int(end_us.max()) - first_us) / US_PER_S,
        utilisation=_utilisation(workload, kept, cluster),
    )


def _utilisation(workload: Workload, kept: npt.NDArray[np.bool_], cluster: Cluster) -> float:
    """Return the device time that recorded jobs held in the window / (devices x window)."""
    first_us, last_us = int(workload.submit_us[0]), int(workload.submit_us[-1])
    begin_us = first_us + round((last_us - first_us) * WINDOW_BEGINS)
    if last_us == begin_us:
        return float("nan")
    shares = (workload.devices * (workload.milli / MILLI_PER_DEVICE))[kept]
    start_us = np.clip(workload.start_us[kept], begin_us, last_us)
    end_us = np.clip(workload.end_us[kept], begin_us, last_us)
    held_us = float(np.sum(shares * (end_us - start_us)))
    return held_us / (cluster.device_count * (last_us - begin_us))


def closeness(workload: Workload, results: Results) -> Closeness | None:
    """Return how close a run comes to the record; None without a record."""
    both = is_recorded(workload) & (results.first_start_us >= 0)
    if not both.any():
        return None
    start_s = results.first_start_us[both] / US_PER_S
    recorded_s = workload.start_us[both] / US_PER_S
    submit_s = workload.submit_us[both] / US_PER_S
    errors_s = np.abs(start_s - recorded_s)
    ratios = (start_s - submit_s + BOUND_S) / (recorded_s - submit_s + BOUND_S)
    return Closeness(
        jobs=int(both.sum()),
        wait_s=float((start_s - submit_s).mean()),
        recorded_wait_s=float((recorded_s - submit_s).mean()),
        start_error_s=float(errors_s.mean()),
        start_error_p50_s=float(np.median(errors_s)),
        distance=float(np.abs(np.log(ratios)).mean()),
    )


def over_seeds(by_seed: Sequence[Closeness]) -> Closeness:
    """Return the mean over the seeds of one policy, at least one."""
    return Closeness(
        by_seed[0].jobs,
        *(
            fmean(getattr(item, name) for item in by_seed)
            for name in (
                *("wait_s", "recorded_wait_s", "start_error_s", "start_error_p50_s"),
                "distance",
            )
        ),
    )


def closest(by_policy: Mapping[str, Closeness]) -> str:
    """Return the policy whose waits are nearest to the recorded ones; of equals the first."""
    return min(by_policy, key=lambda name: by_policy[name].distance)
