"""The explanation of why a job waits, and the parts that all reasons share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Preempt
from flyball.core.units import MILLI_PER_DEVICE, to_s
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.whatif import PlacementProbe, smaller_text
from flyball.schedule.explain.wording import gang, listed, sentence, span_text

NOTHING_TO_DO = "nothing to do"


@dataclass(frozen=True)
class Explanation:
    """Holds why a job waits.

    Attributes:
        job: its index.
        token: the reason as a token whose meaning never changes.
        sentence: the reason with its numbers.
        remedy: what would help, and when it starts if nothing is done.
        numbers: the numbers by name; times in seconds, `_s`.
    """

    job: int
    token: str
    sentence: str
    remedy: str
    numbers: dict[str, Any] = field(default_factory=dict)


def explanation(
    facts: QueueFacts, job_id: int, token: str, why: str, remedies: list[str], **numbers: Any
) -> Explanation:
    """Build an explanation, with the numbers that every reason has."""
    job = facts.state.jobs[job_id]
    common: dict[str, Any] = {"devices": int(job.devices)}
    if job.milli < MILLI_PER_DEVICE:
        common["share"] = int(job.milli) / MILLI_PER_DEVICE
    if facts.state.runs[job_id].status == Status.PENDING:
        common |= {"place": facts.place_of(job_id), "queue": len(facts.order)}
    if facts.state.runs[job_id].preemptions:
        common["preemptions"] = int(facts.state.runs[job_id].preemptions)
    text = "; or ".join(part for part in remedies if part) or "wait for running jobs to end"
    return Explanation(job_id, token, sentence(why), sentence(text), common | numbers)


def wait_text(
    facts: QueueFacts, job_id: int, numbers: dict[str, Any], pool_ids: list[int] | None = None
) -> str:
    """Return how long the wait is by the estimates of running jobs; also added to `numbers`.

    The head of a queue that is never overtaken starts then; other jobs may find the room taken.
    Where running jobs may be preempted there is no such bound.
    """
    when = facts.earliest_us(job_id, pool_ids)
    ordered = facts.knobs.backfill != Backfill.SKIP
    if ordered and job_id != facts.head and facts.head >= 0:
        before = facts.earliest_us(facts.head)
        if facts.knobs.backfill == Backfill.STRICT and before is not None:
            when = max(when or before, before)
    if when is None or when <= facts.now_us or facts.knobs.preempt == Preempt.ROUNDS:
        return ""
    in_us = when - facts.now_us
    numbers["expected_in_s"] = to_s(in_us)
    sure = ordered and job_id == facts.head
    how = "expected to start in about" if sure else "not before about"
    return f"wait: {how} {span_text(in_us)}, by the running jobs' estimates"


def smaller(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> str:
    """Return what a smaller request of the job would bring."""
    verb = "start" if facts.is_scanned(job_id) else "fit"
    return smaller_text(probe, facts.state, facts.names, job_id, verb)


def types_text(facts: QueueFacts, pool_ids: list[int]) -> str:
    """Return the device types of pools as a list of words."""
    return listed((facts.names.type(pool_id) for pool_id in pool_ids), "or")


def request_text(facts: QueueFacts, job_id: int) -> str:
    """Return the devices that a job asks for as words."""
    job = facts.state.jobs[job_id]
    return gang(int(job.devices), int(job.milli), facts.names.unit)


def key_of(facts: QueueFacts, job_id: int) -> float:
    """Return the key of a job, which need not be in the queue."""
    return facts.probe(job_id).figures(0).key_s
