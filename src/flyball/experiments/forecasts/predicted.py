"""Gives the jobs of a workload the run times that the live predictor would have recorded.

Predictions need a history, and the history depends on the schedule. The workload is run once by
the `easy` policy with the estimates it comes with; the predictor then follows the submissions,
starts and ends of that run in order of time, as it follows a journal, and grows new trees as often
as live. All policies compared get the same predictions, so that they differ in nothing else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.results import Floats
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.learn.run_times import refit_due
from flyball.predict.runtime.estimator import RunTimes
from flyball.predict.runtime.history import Step, in_order
from flyball.predict.runtime.rows import rows_of, runs_of
from flyball.predict.runtime.trees import LEVELS, MIDDLE
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin


def with_predictions(cluster: Cluster, workload: Workload, effects: Effects) -> Workload:
    """Return the workload with predicted run times as estimates, and with their quantiles."""
    quantiles_us = predict(_as_run(cluster, workload, effects)) * US_PER_S
    return replace(workload, estimate_us=quantiles_us[:, MIDDLE].copy(), quantiles_us=quantiles_us)


def _as_run(cluster: Cluster, workload: Workload, effects: Effects) -> Workload:
    """Return the workload with the starts and ends of a run by `easy`."""
    twin = Twin(cluster, workload, get_policy("easy").knobs, effects)
    twin.run()
    runs = twin.state.runs
    return replace(workload, start_us=np.array(runs.first_start_us), end_us=np.array(runs.end_us))


def predict(workload: Workload) -> Floats:
    """Return the quantiles of run times, in seconds, as predicted when each job was submitted.

    Args:
        workload: jobs with their starts and ends.
    """
    quantiles = np.zeros((len(workload), len(LEVELS)))
    rows, estimator = rows_of(workload), RunTimes()
    fitted_at = 0
    for when_s, step, index, run in in_order(runs_of(rows)):
        if step is Step.SUBMIT:
            quantiles[index] = estimator.submitted(index, rows[index])
        elif step is Step.START:
            estimator.started(index, when_s)
        else:
            estimator.ended(index, run.run_s, run.end_s)
            if refit_due(estimator, fitted_at):
                fitted_at = estimator.learnt
                estimator.refit(when_s)
    return quantiles
