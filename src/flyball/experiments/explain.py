"""Stops a replay at an instant and explains why jobs wait there."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from flyball.app import PolicySetting, Twin, build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, FlyballError
from flyball.core.units import duration_text, to_s, to_us
from flyball.core.workload import Workload
from flyball.experiments.own_policy.failure import PolicyFailed
from flyball.schedule import diagnose
from flyball.schedule.explain import Explanation, Names, explain_by
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.wording import gang

MAX_COMPARED = 2000
"""In larger workloads, no similar name is suggested for an unknown job."""
NOT_CHOSEN = "not-chosen"
"""Token of a job that a policy in plain Python left waiting though it fits."""
WHOLE_QUEUE = 100_000
"""Depth of the scan that a policy in plain Python is compared with."""


def job_index(workload: Workload, job: str) -> int:
    """Return the index of a job by its name.

    Raises:
        BadInput: there is none; the remedy has a similar name.
    """
    matches = (workload.ids == job).nonzero()[0]
    if len(matches):
        return int(matches[0])
    ids = workload.ids.tolist()
    if len(ids) <= MAX_COMPARED:
        near = difflib.get_close_matches(job, ids, n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"its jobs are {ids[0]} to {ids[-1]}"
    else:
        remedy = f"its {len(ids):,} jobs are {ids[0]} to {ids[-1]}"
    raise BadInput(f"{workload.name} has no job {job!r}", remedy)


@dataclass(frozen=True)
class Stopped:
    """A replay that is stopped at an instant.

    Attributes:
        twin: in its state then.
        at_s: the instant, since the first submission.
    """

    twin: Twin
    cluster: Cluster
    workload: Workload
    policy: PolicySetting
    at_s: float

    @property
    def names(self) -> Names:
        """Return the names of jobs, nodes and tenants for sentences."""
        return Names.of(self.workload.ids.tolist(), self.cluster.groups, self.workload.tenants)

    @property
    def decided_s(self) -> float:
        """Return when the last decision was, since the first submission."""
        return to_s(self.twin.now_us - int(self.twin.state.clock[0].start_us))

    def explain(self, job: int | None = None) -> list[Explanation]:
        """Explain why this job waits; without one, why every waiting job does, in queue order."""
        state, knobs = self.twin.state, self.twin.knobs
        if self.policy.decider is not None:
            knobs = replace(knobs, depth=WHOLE_QUEUE)
        facts = QueueFacts(state, knobs, self.names)
        held = (state.runs.status == Status.HELD).nonzero()[0]
        jobs = [*facts.order, *held] if job is None else [job]
        return [self._explain(facts, int(index)) for index in jobs]

    def _explain(self, facts: QueueFacts, job: int) -> Explanation:
        """Explain one job. Of a policy in plain Python only this is known: does the job fit?"""
        by_knobs = explain_by(facts, job)
        waits = facts.state.runs[job].status == Status.PENDING
        if self.policy.decider is None or not waits:
            return by_knobs
        numbers = {k: v for k, v in by_knobs.numbers.items() if k not in ("place", "queue")}
        spot = facts.probe(job).place()
        if spot is None:
            return replace(by_knobs, numbers=numbers)
        where = spot.text(facts.state, facts.names)
        return Explanation(
            job,
            NOT_CHOSEN,
            f"Fits now {where}, but the policy {self.policy.name} did not start it.",
            "Look into its code: it decides again at the next event.",
            numbers,
        )

    def request_text(self, job: int) -> str:
        """Return what a job asks for: `8 GPUs`, `0.25 of a GPU`."""
        row = self.twin.state.jobs[job]
        return gang(int(row.devices), int(row.milli), self.names.unit)

    def submitted_text(self, job: int) -> str:
        """Return when a job was submitted, from here: `3.0 min ago`, `not yet`."""
        waited_s = to_s(self.twin.now_us - int(self.twin.state.jobs[job].submit_us))
        return f"{duration_text(waited_s)} ago" if waited_s >= 0 else "not yet"

    def as_dict(self, explanations: list[Explanation]) -> dict[str, Any]:
        """Return the explanations for JSON."""
        clock = self.twin.state.clock[0]
        tokens = Counter(explanation.token for explanation in explanations)
        return {
            "at_s": self.at_s,
            "decided_s": self.decided_s,
            "running": int(clock.running),
            "tokens": dict(tokens.most_common()),
            "jobs": [self._row(explanation) for explanation in explanations],
        }

    def _row(self, explanation: Explanation) -> dict[str, Any]:
        state, clock = self.twin.state, self.twin.state.clock[0]
        job = state.jobs[explanation.job]
        return {
            "job": str(self.workload.ids[explanation.job]),
            "devices": int(job.devices),
            "gpu_milli": int(job.milli),
            "status": Status(int(state.runs[explanation.job].status)).name.lower(),
            "submit_s": to_s(int(job.submit_us - clock.start_us)),
            "waits_s": to_s(int(clock.now_us - job.submit_us)),
            "token": explanation.token,
            "sentence": explanation.sentence,
            "remedy": explanation.remedy,
            "numbers": explanation.numbers,
        }


def stop(
    twin: Twin, cluster: Cluster, workload: Workload, policy: PolicySetting, at_s: float
) -> Stopped:
    """Run a twin up to an instant after the first submission.

    Args:
        twin: before that instant.
        cluster, workload, policy: what it was built from.
        at_s: the instant, since the first submission.

    Raises:
        FlyballError: the policy's code failed, or its plan cannot be carried out.
    """
    until_us = int(twin.state.clock[0].start_us) + to_us(at_s)
    try:
        twin.run(until_us, policy.decider)
    except PolicyFailed:
        raise
    except FlyballError as error:
        where = getattr(policy.decider, "place", policy.name)
        raise FlyballError(f"{where}: {error.args[0]}", error.remedy) from None
    return Stopped(twin, cluster, workload, policy, at_s)


def warm_explain() -> None:
    """Compile every query that explanations put to the decision code, by putting each once."""
    cluster = Cluster("tiny", (NodeGroup("a", 1, "V100", 2),))
    workload = Workload.of("tiny", [0.0, 0.0], [9.0, 9.0], 2)
    policy = policy_settings("easy", [])[0]
    stopped = stop(build_twin(cluster, workload, policy, Effects()), cluster, workload, policy, 1.0)
    stopped.explain()
    waiting = 1
    facts = QueueFacts(stopped.twin.state, policy.knobs, stopped.names)
    facts.account(waiting)
    facts.earliest_us(waiting)
    _ = facts.starts_if_repaired
    probe = facts.probe(waiting)
    probe.figures(0)
    probe.most_devices()
    diagnose.prediction(stopped.twin.state, waiting)
