"""Estimates of jobs whose run time nobody states: from the jobs that ended before.

A job is expected to take what the jobs of its kind (model and gang) took; if none of them has
ended, as much device time as those of its application; else as all that ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.codes import Status
from flyball.core.grouping import group_rows
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import S_PER_HOUR, US_PER_S
from flyball.core.workload import Workload
from flyball.physics.measured import split_model

NOTHING_KNOWN_US = S_PER_HOUR * US_PER_S
"""Expected work of a job of one device before any job has ended."""


@dataclass(frozen=True, eq=False)
class FromEnded:
    """Predicts the work of every job by those that ended.

    Attributes:
        kinds: a number for each job's model and gang.
        applications: a number for each job's application.
        devices: that each job asks for.
    """

    kinds: Ints
    applications: Ints
    devices: Ints

    @classmethod
    def of(cls, workload: Workload) -> FromEnded:
        """Return the estimates for the jobs of a workload."""
        names = [split_model(model)[0] for model in workload.models] + [""]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        applications = np.array([numbers[name] for name in names])[workload.model]
        kinds = group_rows(workload.model, workload.devices).of_row
        return cls(kinds, applications, np.maximum(1, workload.devices))

    def __call__(self, state: State) -> Floats:
        """Return the estimated work of every job."""
        ended = np.flatnonzero(state.runs["status"] == Status.DONE)
        device_us = state.runs["done_us"][ended] * self.devices[ended]
        everywhere = np.zeros(len(self.kinds), np.int64)
        out = np.full(len(self.kinds), NOTHING_KNOWN_US)
        for groups in (everywhere, self.applications, self.kinds):  # the most specific last
            counts = np.bincount(groups[ended], minlength=int(groups.max()) + 1)
            sums = np.bincount(groups[ended], device_us, minlength=len(counts))
            means = sums / np.maximum(1, counts)
            out = np.where(counts[groups] > 0, means[groups], out)
        estimates: Floats = np.maximum(1.0, out / self.devices)
        return estimates
