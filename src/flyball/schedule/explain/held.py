"""Explains jobs that are not in the queue: held back, not submitted, running or ended."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.core.knobs import Backfill
from flyball.core.state import State
from flyball.core.units import FOREVER_US, to_s
from flyball.schedule.explain.answer import NOTHING_TO_DO, Explanation, explanation, key_of
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.whatif import PlacementProbe
from flyball.schedule.explain.wording import counted, listed, span_text


def waits_for_jobs(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain that the job waits for the end of others."""
    predecessors = facts.predecessors(job_id)
    parts = []
    for other in predecessors:
        status = Status(int(facts.state.runs[other].status))
        text = status.name.lower()
        if status == Status.RUNNING:
            text += f", expected to end in about {span_text(int(facts.ends[other]) - facts.now_us)}"
        elif status == Status.FUTURE:
            text = "not submitted yet"
        parts.append(f"{facts.names.job(other)} ({text})")
    numbers: dict[str, Any] = {
        "waits_for": [facts.names.job(other) for other in predecessors],
        "waits_for_count": len(predecessors),
    }
    ends = [int(facts.ends[other]) for other in predecessors]
    if max(ends, default=FOREVER_US) < FOREVER_US:
        numbers["expected_in_s"] = to_s(max(ends) - facts.now_us)
    why = f"waits for the end of {counted(len(predecessors), 'job')}: {listed(parts)}"
    return explanation(facts, job_id, "waits-for-jobs", why, _if_queued(facts, job_id), **numbers)


def _if_queued(facts: QueueFacts, job_id: int) -> list[str]:
    """Return the remedies for a job that waits for others: would it start if it did not?"""
    first = facts.head < 0 or key_of(facts, job_id) < facts.keys[facts.head]
    spot = PlacementProbe(
        facts.state, facts.knobs, job_id, facts.knobs.backfill == Backfill.EASY
    ).place()
    if spot is None or (facts.knobs.backfill == Backfill.STRICT and not first):
        return ["wait for them; without `after` it would wait in the queue instead"]
    where = spot.text(facts.state, facts.names)
    return ["wait for them", f"drop its `after`: it would start now {where}"]


def deferred(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain that the job waits for cheaper or cleaner electricity."""
    clock, run = facts.state.clock[0], facts.state.runs[job_id]
    left_us = int(run.defer_us) - facts.now_us
    numbers: dict[str, Any] = {"latest_in_s": to_s(left_us)}
    now_text = []
    if clock.price.given:
        numbers["price_per_kwh"] = float(clock.price.value)
        now_text.append(f"a price of {numbers['price_per_kwh']:.4g} per kWh")
    if clock.carbon.given:
        numbers["carbon_g_per_kwh"] = float(clock.carbon.value)
        now_text.append(f"{numbers['carbon_g_per_kwh']:.0f} g CO2 per kWh")
    why = (
        f"is deferred: at {listed(now_text)} waiting is expected to save; it joins the queue in "
        f"{span_text(left_us)} at the latest"
    )
    remedies = ["wait for it", "give it no slack: it would be in the queue now"]
    return explanation(facts, job_id, "deferred", why, remedies, **numbers)


def array_limit(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain that the limit of its array holds the job back."""
    group = facts.state.groups[facts.state.jobs[job_id].group]
    ahead, at = 0, int(group.head)
    while at != job_id:
        ahead, at = ahead + 1, int(facts.state.runs[at].link)
    limit, admitted = int(group.limit), int(group.admitted)
    tasks = (facts.state.jobs.group == facts.state.jobs[job_id].group).nonzero()[0]
    running = int((facts.state.runs.status[tasks] == Status.RUNNING).sum())
    why = (
        f"its array lets {counted(limit, 'task')} pend or run at a time: {running} running, "
        f"{admitted - running} pending, {ahead} held before it"
    )
    needed = limit + ahead + 1
    return explanation(
        facts, job_id, "array-limit", why,
        ["wait for tasks of the array to end", f"give the array a limit of {needed}: "
         "it would be in the queue now"],
        limit=limit, running=running, pending=admitted - running, held_before=ahead,
        limit_needed=needed,
    )  # fmt: skip


def does_not_wait(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain that the job is not submitted yet, runs, or has ended."""
    run = facts.state.runs[job_id]
    if run.status == Status.FUTURE:
        in_us = int(facts.state.jobs[job_id].submit_us) - facts.now_us
        why = f"is not submitted yet; submission is in {span_text(in_us)}"
        return explanation(
            facts, job_id, "not-submitted", why, [NOTHING_TO_DO], submit_in_s=to_s(in_us)
        )
    if run.status == Status.RUNNING:
        since, left = facts.now_us - int(run.since_us), int(facts.ends[job_id]) - facts.now_us
        where = listed(
            facts.names.node(facts.state, node_id) for node_id in _nodes_of(facts.state, job_id)
        )
        why = (
            f"does not wait: has run on {where} for {span_text(since)}, expected to end in about "
            f"{span_text(left)} by its estimate"
        )
        return explanation(facts, job_id, "running", why, [NOTHING_TO_DO], since_s=to_s(since),
                     expected_end_in_s=to_s(left))  # fmt: skip
    ago = facts.now_us - int(run.end_us)
    why = f"does not wait: ended {span_text(ago)} ago"
    return explanation(facts, job_id, "ended", why, [NOTHING_TO_DO], ended_ago_s=to_s(ago))


def _nodes_of(state: State, job_id: int) -> list[int]:
    nodes, at = [], int(state.runs[job_id].first_row)
    while at >= 0:
        nodes.append(int(state.rows[at].node))
        at = int(state.rows[at].next)
    return nodes
