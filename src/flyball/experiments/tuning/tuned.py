"""Compares tuned policies with the same without tuners, and measures what each tuner adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from flyball.app import PolicySetting, TuningSetting, tuned
from flyball.core.errors import BadInput
from flyball.core.metrics import Summary
from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import Workload
from flyball.experiments.replay import ReplayCase, Run, by_policy, changes
from flyball.experiments.report import report_json
from flyball.experiments.tuning.classes import ClassFigures, class_rows
from flyball.tune.registry import settings

USUAL_RANGE = -1
"""Value of `Workload.most` for a job that may be resized and states no range."""

SHOWN: tuple[str, ...] = (
    "work_per_window",
    "energy_per_work",
    "utilisation",
    "preemptions",
    "finish_fairness_p95",
)
"""Metrics that are shown besides completion and wait."""


def with_elastic_jobs(workload: Workload, share: float, seed: int) -> Workload:
    """Make some jobs elastic, drawn by seed; a workload that states ranges is returned as it is.

    Args:
        workload: of any kind.
        share: part of the jobs that may be resized within their usual range.
        seed: of the draw; a larger share only adds jobs.
    """
    if not 0 <= share <= 1:
        raise BadInput(f"an elastic share of {share:g} is out of range", "use 0 to 1")
    if workload.most.any():
        return workload
    drawn = np.random.default_rng([seed, 7]).random(len(workload)) < share
    able = (workload.devices > 0) & (workload.milli == MILLI_PER_DEVICE)
    return replace(workload, most=np.where(drawn & able, USUAL_RANGE, 0))


@dataclass(frozen=True)
class Arms:
    """Holds the policies to run, and what each of them is compared with.

    Attributes:
        policies: the first one is the one to beat.
        against: the name of a policy -> the name of the one it is compared with.
        left_out: the name of a policy -> the tuner it goes without.
    """

    policies: tuple[PolicySetting, ...]
    against: dict[str, str]
    left_out: dict[str, str]


def beside(policies: Sequence[PolicySetting], tuning: TuningSetting) -> Arms:
    """Return every policy as it is, and tuned."""
    both = [(policy, tuned(policy, tuning)) for policy in policies]
    return Arms(
        tuple(policy for pair in both for policy in pair),
        {after.name: before.name for before, after in both},
        {},
    )


def ablation(policy: PolicySetting, tuning: TuningSetting, names: Sequence[str]) -> Arms:
    """Return the policy, the same with all tuners, and with each of `names` left out in turn.

    Raises:
        BadInput: a name that is not among the tuners.
    """
    for name in names:
        if name not in tuning.names:
            raise BadInput(
                f"{name} cannot be left out: it is not among the tuners",
                f"tuners: {','.join(tuning.names)}",
            )
    complete = tuned(policy, tuning)
    less = {f"without {name}": _less(policy, tuning, name) for name in names}
    named = tuple(replace(arm, name=name) for name, arm in less.items())
    against = {complete.name: policy.name, **dict.fromkeys(less, complete.name)}
    left_out = {f"without {name}": name for name in names}
    return Arms((policy, complete, *named), against, left_out)


def _less(policy: PolicySetting, tuning: TuningSetting, name: str) -> PolicySetting:
    rest = tuning.without(name)
    return tuned(policy, rest) if rest.tuners else policy


def tuned_json(
    runs: Sequence[Run], case: ReplayCase, site_policy: str | None = None
) -> dict[str, Any]:
    """Return the report for JSON, with the tuners of each policy and all their settings."""
    tuning = {policy.name: _described(policy) for policy in case.policies}
    return {**report_json(runs, case, site_policy), "tuning": tuning}


def _described(policy: PolicySetting) -> dict[str, Any] | None:
    if policy.tuning is None:
        return None
    tuners = {
        tuner.name: {**settings(tuner.name), **dict(tuner.changed)}
        for tuner in policy.tuning.tuners
    }
    head = {"every_s": policy.tuning.every_s, "optimise": policy.tuning.feedback}
    return {**head, "forecast": policy.tuning.forecast, "tuners": tuners}


def rows(runs: Sequence[Run], arms: Arms) -> list[dict[str, Any]]:
    """Return a row per arm: means over the seeds, and the change from its baseline."""
    runs_of = by_policy(runs)
    moved = {change["policy"]: change for change in changes(runs, arms.against)}
    out = []
    for policy in arms.policies:
        row: dict[str, Any] = {
            "policy": policy.name,
            "tuners": policy.tuning.names if policy.tuning else [],
            "left_out": arms.left_out.get(policy.name),
            **means([run.summary for run in runs_of[policy.name]]),
            "against": arms.against.get(policy.name),
            "change": None,
        }
        if policy.name in moved:
            gaps = moved[policy.name]
            row["change"] = {key: gap for key, gap in gaps.items() if isinstance(gap, dict)}
        out.append(row)
    return out


def by_class(runs: Sequence[Run], arms: Arms) -> list[dict[str, Any]]:
    """Return a row per workload class and arm, with the change from its baseline."""
    figures: dict[str, list[ClassFigures]] = {policy.name: [] for policy in arms.policies}
    for run in runs:
        assert run.by_class is not None, "the case has no figures by class"
        figures[run.policy].append(run.by_class)
    return class_rows(figures, arms.against)


def means(summaries: Sequence[Summary]) -> dict[str, float]:
    """Return the metrics that tuned policies are judged by, as means over the seeds."""
    return {
        "completion_s": fmean(summary.completion_s.mean for summary in summaries),
        "wait_s": fmean(summary.wait_s.mean for summary in summaries),
        **{name: fmean(getattr(summary, name) for summary in summaries) for name in SHOWN},
    }
