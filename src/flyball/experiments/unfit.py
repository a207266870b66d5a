"""Leaves out the jobs of a workload that fit nowhere on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flyball.app import PolicySetting
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.workload import Workload
from flyball.twin.build import unfit_jobs


class Fitting(NamedTuple):
    """The jobs that can run, and how many cannot, by the reason."""

    workload: Workload
    left_out: dict[str, int]

    @property
    def text(self) -> str:
        """What was left out, in a sentence; empty if nothing was."""
        return left_out_text(self.left_out, len(self.workload))


def left_out_text(left_out: dict[str, int], kept: int) -> str:
    """Return a sentence about the jobs left out, by reason; empty if there are none."""
    if not left_out:
        return ""
    count = sum(left_out.values())
    reasons = "; ".join(f"{number:,} x {reason}" for reason, number in left_out.items())
    return (
        f"left out {count:,} of {kept + count:,} jobs that fit nowhere on this cluster: {reasons}"
    )


def fitting(
    workload: Workload, cluster: Cluster, policies: Sequence[PolicySetting], effects: Effects
) -> Fitting:
    """Leave out the jobs that one of the policies could never start.

    Raises:
        BadInput: no job is left.
    """
    fits = np.ones(len(workload), bool)
    left_out: dict[str, int] = {}
    # Of a policy's knobs only its power cap decides whether a job fits.
    for knobs in {policy.knobs.cap: policy.knobs for policy in policies}.values():
        for reason, rows in unfit_jobs(cluster, workload, knobs, effects).items():
            newly_unfit = rows[fits[rows]]
            fits[newly_unfit] = False
            if len(newly_unfit):
                left_out[reason] = left_out.get(reason, 0) + len(newly_unfit)
    remaining = workload.take(np.flatnonzero(fits)) if left_out else workload
    result = Fitting(remaining, left_out)
    if not fits.any():
        raise BadInput(f"{result.text}; none is left", "choose a larger cluster or budget")
    return result
