"""`--skip-unfit`: leaves out jobs of a trace that fit nowhere on a cluster, and reports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flyball.cli.output import note
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.app import PolicySetting
    from flyball.core.cluster import Cluster
    from flyball.core.effects import Effects
    from flyball.core.workload import Workload


class Fitting(NamedTuple):
    """Holds the jobs that can run, and the number that cannot, by reason."""

    workload: Workload
    left_out: dict[str, int]

    @property
    def text(self) -> str:
        """Return a sentence on what was left out; empty if nothing was."""
        if not self.left_out:
            return ""
        count = sum(self.left_out.values())
        reasons = "; ".join(f"{number:,} x {reason}" for reason, number in self.left_out.items())
        total = len(self.workload) + count
        return f"left out {count:,} of {total:,} jobs that fit nowhere on this cluster: {reasons}"


def without_unfit(
    workload: Workload, cluster: Cluster, policies: Sequence[PolicySetting], effects: Effects
) -> Fitting:
    """Leave out the jobs that some policy could never start, and print how many there are.

    Raises:
        BadInput: no job is left.
    """
    import numpy as np

    from flyball.twin.build import unfit_jobs

    fits = np.ones(len(workload), bool)
    left_out: dict[str, int] = {}
    for knobs in {policy.knobs.cap: policy.knobs for policy in policies}.values():
        for reason, rows in unfit_jobs(cluster, workload, knobs, effects).items():
            fresh = rows[fits[rows]]
            fits[fresh] = False
            if len(fresh):
                left_out[reason] = left_out.get(reason, 0) + len(fresh)
    fitting = Fitting(workload.take(np.flatnonzero(fits)) if left_out else workload, left_out)
    if not fits.any():
        raise BadInput(f"{fitting.text}; none is left", "choose a larger cluster or budget")
    if fitting.text:
        note(f"note: {fitting.text}")
    return fitting
