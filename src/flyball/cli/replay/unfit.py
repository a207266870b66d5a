"""`--skip-unfit`: leaves out jobs of a trace that fit nowhere on a cluster, and reports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flyball.cli.output import note

if TYPE_CHECKING:
    from flyball.app import PolicySetting
    from flyball.core.cluster import Cluster
    from flyball.core.effects import Effects
    from flyball.core.workload import Workload
    from flyball.experiments.unfit import Fitting


def without_unfit(
    workload: Workload, cluster: Cluster, policies: Sequence[PolicySetting], effects: Effects
) -> Fitting:
    """Leave out the jobs that some policy could never start, and print how many there are.

    Raises:
        BadInput: no job is left.
    """
    from flyball.experiments.unfit import fitting

    result = fitting(workload, cluster, policies, effects)
    if result.text:
        note(f"note: {result.text}")
    return result
