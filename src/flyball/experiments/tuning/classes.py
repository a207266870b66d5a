"""Class pathways in a replay: every policy as it is, and with its jobs on their pathways.

A job has the class that the trace states, else the one it is classified as. What belongs to the
job (`tune.pathways.Change`) is changed about each job; with scope `cluster` the policy also gets
the knobs and tuners of the pathway that leads over the whole trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from flyball.app import PolicySetting, TunerSetting, TuningSetting, tuned
from flyball.core.errors import BadInput, FlyballError
from flyball.core.intervals import paired
from flyball.core.metrics import waits_s
from flyball.core.protocols import Tuner
from flyball.core.results import Floats, Ints, Results
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import JobClass, Workload
from flyball.schedule.classify import STATED, classify_workload
from flyball.tune.pathway_scope import Scope
from flyball.tune.pathways import (
    Pathway,
    choose,
    leading,
    pathway_of,
    pipelined,
    prepare,
    settings,
)

SUFFIX = "pathways"
"""Ends the name of a policy whose jobs follow their pathways."""
CHANGES = {pathway: settings(pathway).change for pathway in Pathway}


# Before a run -------------------------------------------------------------------------


class Followed(NamedTuple):
    """Holds a workload whose jobs follow their pathways.

    Attributes:
        workload: with a job's transfers as jobs of their own, where they are separate.
        rows: the row of each job of the original workload.
    """

    workload: Workload
    rows: Ints


def follow(workload: Workload, fetch_share: float = 0.0) -> Followed:
    """Return the workload with each job changed by the pathway of its class.

    Args:
        fetch_share: part of a bandwidth-limited job's time in which it fetches its data, which
            the pathway takes off its devices; 0 = not known, so nothing is taken off.
    """
    kinds = classify_workload(workload).kind
    pathways = choose(kinds)
    changed = prepare(workload, pathways, CHANGES)
    whole = (workload.devices > 0) & (workload.milli == MILLI_PER_DEVICE)
    changed = replace(changed, most=np.where(whole, changed.most, workload.most))
    if not fetch_share:
        return Followed(changed, np.arange(len(workload)))
    transfer = np.where(kinds == JobClass.BANDWIDTH_LIMITED, fetch_share, 0.0)
    return Followed(*pipelined(changed, pathways, transfer, CHANGES))


def results_of(results: Results, rows: Ints) -> Results:
    """Return the results of these jobs alone; totals of the cluster stay as they are."""
    count = len(results.submit_us)
    by_job = {
        entry.name: getattr(results, entry.name)[rows]
        for entry in fields(results)
        if not entry.name.startswith("node_") and np.shape(getattr(results, entry.name)) == (count,)
    }
    return replace(results, **by_job)


def leads(workload: Workload) -> Pathway:
    """Return the pathway that asks for most device time over the whole trace, as expected."""
    expected_us = np.where(
        np.isnan(workload.estimate_us), workload.duration_us, workload.estimate_us
    )
    share: Floats = workload.devices * workload.milli / MILLI_PER_DEVICE
    return leading(choose(classify_workload(workload).kind), share * expected_us)


def with_pathways(policy: PolicySetting, scope: Scope, lead: Pathway) -> PolicySetting:
    """Return the policy with its jobs on their pathways.

    Args:
        policy: with or without tuners.
        scope: `JOBS` or `CLUSTER`.
        lead: the pathway whose knobs and tuners it gets with `CLUSTER`.

    Raises:
        BadInput: a policy that cannot take the knobs or tuners of the pathway.
    """
    named = replace(policy, name=f"{policy.name}+{SUFFIX}", pathways=scope.label)
    if scope != Scope.CLUSTER:
        return named
    if policy.allocator is not None or policy.decider is not None:
        raise BadInput(
            f"policy {policy.name} does not decide by knobs, so no pathway can lead it",
            "use --pathways jobs, or a policy of knobs",
        )
    setting = settings(lead)
    led = replace(named, knobs=setting.apply(policy.knobs))
    if not setting.tuners:
        return led
    tuning = TuningSetting(tuple(map(_tuner_setting, setting.tuners)), setting.round_s)
    return replace(tuned(led, tuning), name=named.name)


def _tuner_setting(tuner: Tuner) -> TunerSetting:
    """Return a tuner of a pathway as users name it, with what differs from the defaults."""
    usual, changed = type(tuner)(), []
    for entry in fields(tuner):  # type: ignore[arg-type]  # built-in tuners are dataclasses
        value = getattr(tuner, entry.name)
        if value != getattr(usual, entry.name):
            changed.append((entry.name, value))
    return TunerSetting(type(tuner).__name__.lower(), tuple(changed))


class PathwayArms(NamedTuple):
    """Holds the policies of a replay with pathways, and what each of them is compared with."""

    policies: tuple[PolicySetting, ...]
    against: dict[str, str]


def pathway_arms(
    policies: Sequence[PolicySetting],
    scope: Scope,
    workload: Workload,
    explicit: bool,
    notes: list[str],
) -> PathwayArms:
    """Return every policy, and the same with its jobs on their pathways.

    Args:
        explicit: the policies were named: one that no pathway can lead is refused, not left out.
        notes: receives the mix of classes, which pathway leads, and what is left out.
    """
    lead = leads(workload)
    notes.append(mix_text(workload, lead if scope == Scope.CLUSTER else None))
    arms: list[PolicySetting] = []
    against = {}
    for policy in policies:
        try:
            other = with_pathways(policy, scope, lead)
        except FlyballError as error:
            if explicit:
                raise
            notes.append(str(error))
            continue
        arms += [policy, other]
        against[other.name] = policy.name
    return PathwayArms(tuple(arms), against)


def mix_text(workload: Workload, lead: Pathway | None) -> str:
    """Return how many jobs each class has, how many were stated, and which pathway leads."""
    verdicts = classify_workload(workload)
    counts = np.bincount(verdicts.kind, minlength=len(JobClass))
    parts = [f"{counts[kind]:,} {kind.label}" for kind in JobClass if counts[kind]]
    stated = int((verdicts.decided_by == STATED).sum())
    text = f"classes: {', '.join(parts)}; {stated:,} of {len(workload):,} stated in the trace"
    return text if lead is None else f"{text}; the {lead.label} pathway leads"


# After it -----------------------------------------------------------------------------

ClassFigures = dict[str, dict[str, float]]
"""By class, the number of its jobs and what became of them."""
COMPARED = ("completion_s", "wait_s", "wait_p95_s")


def class_figures(workload: Workload, results: Results) -> ClassFigures:
    """Return completion and wait of the jobs of each class."""
    kinds = classify_workload(workload).kind
    completion_s: Floats = (results.end_us - results.submit_us) / US_PER_S
    wait_s = waits_s(results)
    figures = {}
    for kind in JobClass:
        mine = kinds == kind
        if mine.any():
            figures[kind.label] = {
                "jobs": float(mine.sum()),
                "completion_s": float(completion_s[mine].mean()),
                "wait_s": float(wait_s[mine].mean()),
                "wait_p95_s": float(np.percentile(wait_s[mine], 95)),
            }
    return figures


def class_rows(
    figures: Mapping[str, Sequence[ClassFigures]], against: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row per class and policy: means over the seeds, and the change from its baseline.

    Args:
        figures: by policy, those of each seed.
        against: the policy that each is compared with.
    """
    rows = []
    labels = [kind.label for kind in JobClass if kind.label in next(iter(figures.values()))[0]]
    for label in labels:
        for policy, seeds in figures.items():
            mine = [of_seed[label] for of_seed in seeds]
            row: dict[str, Any] = {
                "class": label,
                "pathway": pathway_of(JobClass[label.upper().replace("-", "_")]).label,
                "policy": policy,
                "jobs": round(fmean(values["jobs"] for values in mine)),
                **{name: fmean(values[name] for values in mine) for name in COMPARED},
                "against": against.get(policy),
                "change": None,
            }
            if policy in against:
                base = [of_seed[label] for of_seed in figures[against[policy]]]
                row["change"] = {
                    name: _change([v[name] for v in mine], [v[name] for v in base])
                    for name in COMPARED
                }
            rows.append(row)
    return rows


def _change(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Return the paired difference, and the change in percent where it has a base."""
    mean, low, high = paired(ours, theirs)
    change: dict[str, Any] = {"mean": mean, "low": low, "high": high}
    if all(theirs):
        percents = [100.0 * (a - b) / b for a, b in zip(ours, theirs, strict=True)]
        change["percent"] = list(paired(percents, [0.0] * len(percents)))
    return change
