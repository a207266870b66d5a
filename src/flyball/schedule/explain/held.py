"""Jobs that are not in the queue: held back, not submitted, running or over."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.core.knobs import Backfill
from flyball.core.state import State
from flyball.core.units import FOREVER_US, to_s
from flyball.schedule.explain.answer import NOTHING_TO_DO, Explanation, key_of, made
from flyball.schedule.explain.queue_facts import Inquiry
from flyball.schedule.explain.whatif import Probe
from flyball.schedule.explain.wording import counted, listed, span_text


def waits_for_jobs(ask: Inquiry, job_id: int) -> Explanation:
    waited = ask.predecessors(job_id)
    said = []
    for each in waited:
        status = Status(int(ask.state.runs[each].status))
        word = status.name.lower()
        if status == Status.RUNNING:
            word += f", expected to end in about {span_text(int(ask.ends[each]) - ask.now_us)}"
        elif status == Status.FUTURE:
            word = "not submitted yet"
        said.append(f"{ask.names.job(each)} ({word})")
    numbers: dict[str, Any] = {
        "waits_for": [ask.names.job(each) for each in waited],
        "waits_for_count": len(waited),
    }
    ends = [int(ask.ends[each]) for each in waited]
    if max(ends, default=FOREVER_US) < FOREVER_US:
        numbers["expected_in_s"] = to_s(max(ends) - ask.now_us)
    why = f"waits for the end of {counted(len(waited), 'job')}: {listed(said)}"
    return made(ask, job_id, "waits-for-jobs", why, _if_queued(ask, job_id), **numbers)


def _if_queued(ask: Inquiry, job_id: int) -> list[str]:
    """Whether a job that waits for others would start if it did not."""
    first = ask.head < 0 or key_of(ask, job_id) < ask.keys[ask.head]
    spot = Probe(ask.state, ask.knobs, job_id, ask.knobs.backfill == Backfill.EASY).place()
    if spot is None or (ask.knobs.backfill == Backfill.STRICT and not first):
        return ["wait for them; without `after` it would wait in the queue instead"]
    where = spot.text(ask.state, ask.names)
    return ["wait for them", f"drop its `after`: it would start now {where}"]


def array_limit(ask: Inquiry, job_id: int) -> Explanation:
    group = ask.state.groups[ask.state.jobs[job_id].group]
    ahead, at = 0, int(group.head)
    while at != job_id:
        ahead, at = ahead + 1, int(ask.state.runs[at].link)
    limit, admitted = int(group.limit), int(group.admitted)
    tasks = (ask.state.jobs.group == ask.state.jobs[job_id].group).nonzero()[0]
    running = int((ask.state.runs.status[tasks] == Status.RUNNING).sum())
    why = (
        f"its array lets {counted(limit, 'task')} pend or run at a time: {running} running, "
        f"{admitted - running} pending, {ahead} held before it"
    )
    needed = limit + ahead + 1
    return made(
        ask, job_id, "array-limit", why,
        ["wait for tasks of the array to end", f"give the array a limit of {needed}: "
         "it would be in the queue now"],
        limit=limit, running=running, pending=admitted - running, held_before=ahead,
        limit_needed=needed,
    )  # fmt: skip


def does_not_wait(ask: Inquiry, job_id: int) -> Explanation:
    run = ask.state.runs[job_id]
    if run.status == Status.FUTURE:
        in_us = int(ask.state.jobs[job_id].submit_us) - ask.now_us
        why = f"is not submitted yet; that is in {span_text(in_us)}"
        return made(ask, job_id, "not-submitted", why, [NOTHING_TO_DO], submit_in_s=to_s(in_us))
    if run.status == Status.RUNNING:
        since, left = ask.now_us - int(run.since_us), int(ask.ends[job_id]) - ask.now_us
        where = listed(ask.names.node(ask.state, each) for each in _nodes_of(ask.state, job_id))
        why = (
            f"does not wait: runs on {where} for {span_text(since)}, expected to end in about "
            f"{span_text(left)} by its estimate"
        )
        return made(ask, job_id, "running", why, [NOTHING_TO_DO], since_s=to_s(since),
                     expected_end_in_s=to_s(left))  # fmt: skip
    ago = ask.now_us - int(run.end_us)
    why = f"does not wait: ended {span_text(ago)} ago"
    return made(ask, job_id, "ended", why, [NOTHING_TO_DO], ended_ago_s=to_s(ago))


def _nodes_of(state: State, job_id: int) -> list[int]:
    nodes, at = [], int(state.runs[job_id].first_row)
    while at >= 0:
        nodes.append(int(state.rows[at].node))
        at = int(state.rows[at].next)
    return nodes
