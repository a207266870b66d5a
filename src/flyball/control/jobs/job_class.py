"""The workload class of a live job, how it was determined, and what its pathway gives it.

The class is the one that its user named, else it is classified from its request: model, GPUs,
share of a GPU, estimate and priority. Host memory says nothing about the memory of a device, and
cores of one node are no gang, so neither counts.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from flyball.core.codes import CLASS_LABELS, JobClass
from flyball.core.jobs import JobSpec
from flyball.core.units import US_PER_S
from flyball.schedule.classify import Verdict, classify_one
from flyball.tune.pathway_scope import Scope
from flyball.tune.pathways import Change, Pathway, pathway_of, settings

MAX_REQUESTS = 4096
"""Maximum number of different requests whose class is cached: users may send any."""
NAMED = "named by its user"
UNCHANGED = Change()


class JobSetting(NamedTuple):
    """One thing that the pathway of a job gives it.

    Attributes:
        what: its name in `tune.pathways.Change`.
        holds: whether it holds for this job here.
        text: what it is, or why it does not hold.
    """

    what: str
    holds: bool
    text: str


class JobClasses:
    """Gives jobs their class and the settings that come with it.

    Attributes:
        scope: how far pathways are followed.
    """

    def __init__(self, scope: Scope, by_cores: bool) -> None:
        """
        Args:
            by_cores: the devices of the cluster are cores.
        """
        self.scope, self._by_cores = scope, by_cores

    def verdict(self, spec: JobSpec) -> Verdict:
        """Return the class of a job, the reason for it and a confidence."""
        if spec.kind:
            return Verdict(JobClass(CLASS_LABELS.index(spec.kind)), NAMED, 1.0)
        gang = 1 if self._by_cores else spec.gpus
        return _classified(spec.model, gang, spec.milli, spec.estimate_s, spec.priority)

    def pathway(self, spec: JobSpec) -> Pathway:
        """Return the pathway of a job's class."""
        return pathway_of(self.verdict(spec).kind)

    def follows(self, spec: JobSpec) -> bool:
        """Whether a job gets what its pathway gives to jobs."""
        return self.scope >= (Scope.NAMED if spec.kind else Scope.JOBS)

    def change(self, spec: JobSpec) -> Change:
        """Return what changes about a job; nothing if it does not follow its pathway."""
        if not self.follows(spec):
            return UNCHANGED
        return settings(self.pathway(spec)).change

    def priority(self, spec: JobSpec) -> float:
        """Return the priority by which decisions order a job."""
        return spec.priority + self.change(spec).priority

    def view(self, spec: JobSpec) -> dict[str, Any]:
        """Return the class of a job and its settings, as the API shows them."""
        verdict = self.verdict(spec)
        pathway = pathway_of(verdict.kind)
        return {
            "name": verdict.kind.label,
            "named": bool(spec.kind),
            "confidence": round(verdict.confidence, 2),
            "reason": verdict.reason,
            "pathway": pathway.label,
            "scope": self.scope.label,
            "follows": self.follows(spec),
            "settings": [
                setting._asdict() for setting in self._settings(spec, settings(pathway).change)
            ],
        }

    def _settings(self, spec: JobSpec, change: Change) -> list[JobSetting]:
        """Return what a pathway gives to a job, each with whether it holds."""
        follows = self.follows(spec)
        rows = []
        if change.priority:
            total = f"{spec.priority + change.priority:g}"
            text = f"priority {total} ({spec.priority:g} requested, {change.priority:+g} by class)"
            rows.append(JobSetting("priority", follows, text))
        if change.chunks:
            text = f"data in {change.chunks} chunks, by FLYBALL_FETCH_CHUNKS in its environment"
            rows.append(JobSetting("chunks", follows, text))
        if change.resizable:
            text = f"may be resized from {spec.least} to {spec.most}"
            if not spec.elastic:
                text = "may be resized, but it states no range (--elastic MIN-MAX)"
            rows.append(JobSetting("resizable", follows and spec.elastic, text))
        if change.together > 1:
            text = "may share its device, but no engine here runs two jobs on one"
            rows.append(JobSetting("together", False, text))
        return rows

    def environment(self, spec: JobSpec) -> dict[str, str]:
        """Return the variables with which a job learns its class and how to fetch its data."""
        if not self.follows(spec):
            return {}
        change = self.change(spec)
        chunks = {"FLYBALL_FETCH_CHUNKS": str(change.chunks)} if change.chunks else {}
        return {"FLYBALL_CLASS": self.verdict(spec).kind.label, **chunks}


@lru_cache(MAX_REQUESTS)
def _classified(model: str, gang: int, milli: int, estimate_s: float, priority: float) -> Verdict:
    estimate_us = estimate_s * US_PER_S if estimate_s else math.nan
    return classify_one(0, gang, milli, estimate_us, model or None, priority)
