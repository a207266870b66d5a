"""An explanation, and what every reason is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Preempt
from flyball.core.units import MILLI_PER_DEVICE, to_s
from flyball.schedule.explain.queue_facts import Inquiry
from flyball.schedule.explain.whatif import Probe, smaller_text
from flyball.schedule.explain.wording import gang, listed, sentence, span_text

NOTHING_TO_DO = "nothing to do"


@dataclass(frozen=True)
class Explanation:
    """Why a job waits.

    Attributes:
        job: its index.
        token: the reason, one word that never changes its meaning.
        sentence: the reason with its numbers.
        remedy: what would help, and when it starts if nobody does anything.
        numbers: the numbers by name; times in seconds, `_s`.
    """

    job: int
    token: str
    sentence: str
    remedy: str
    numbers: dict[str, Any] = field(default_factory=dict)


def made(
    ask: Inquiry, job_id: int, token: str, why: str, remedies: list[str], **numbers: Any
) -> Explanation:
    job = ask.state.jobs[job_id]
    common: dict[str, Any] = {"devices": int(job.devices)}
    if job.milli < MILLI_PER_DEVICE:
        common["share"] = int(job.milli) / MILLI_PER_DEVICE
    if ask.state.runs[job_id].status == Status.PENDING:
        common |= {"place": ask.place_of(job_id), "queue": len(ask.order)}
    if ask.state.runs[job_id].preemptions:
        common["preemptions"] = int(ask.state.runs[job_id].preemptions)
    remedy = "; or ".join(each for each in remedies if each) or "wait for running jobs to end"
    return Explanation(job_id, token, sentence(why), sentence(remedy), common | numbers)


def wait(
    ask: Inquiry, job_id: int, numbers: dict[str, Any], pool_ids: list[int] | None = None
) -> str:
    """How long a wait by the estimates of running jobs, also put into `numbers`.

    The head of a queue that nobody jumps starts then; others may find it taken. Where running
    jobs may be set aside nothing can be said.
    """
    when = ask.earliest_us(job_id, pool_ids)
    ordered = ask.knobs.backfill != Backfill.SKIP
    if ordered and job_id != ask.head and ask.head >= 0:
        before = ask.earliest_us(ask.head)
        if ask.knobs.backfill == Backfill.STRICT and before is not None:
            when = max(when or before, before)
    if when is None or when <= ask.now_us or ask.knobs.preempt == Preempt.ROUNDS:
        return ""
    in_us = when - ask.now_us
    numbers["expected_in_s"] = to_s(in_us)
    sure = ordered and job_id == ask.head
    how = "expected to start in about" if sure else "not before about"
    return f"wait: {how} {span_text(in_us)}, by the running jobs' estimates"


def smaller(ask: Inquiry, job_id: int, probe: Probe) -> str:
    verb = "start" if ask.is_scanned(job_id) else "fit"
    return smaller_text(probe, ask.state, ask.names, job_id, verb)


def types_text(ask: Inquiry, pool_ids: list[int]) -> str:
    return listed((ask.names.type(each) for each in pool_ids), "or")


def request_text(ask: Inquiry, job_id: int) -> str:
    job = ask.state.jobs[job_id]
    return gang(int(job.devices), int(job.milli), ask.names.unit)


def key_of(ask: Inquiry, job_id: int) -> float:
    return ask.probe(job_id).figures(0).key_s
