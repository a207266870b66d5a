"""Why a job waits: the binding reason as a token, a sentence with numbers, and a remedy.

A reason is *binding* if the job would start without it. It is found by asking the placement
code itself, as are the what-ifs of a remedy: nothing here has an opinion of its own on whether
a job fits. Estimates are all it knows of run times. `docs/guide/why.md` lists the tokens.
"""

from __future__ import annotations

import math
from typing import Any

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.state import State
from flyball.core.units import to_s
from flyball.schedule.explain.answer import NOTHING_TO_DO, Explanation, key_of, made, wait
from flyball.schedule.explain.held import array_limit, does_not_wait, waits_for_jobs
from flyball.schedule.explain.power import power_budget
from flyball.schedule.explain.queue_facts import Inquiry
from flyball.schedule.explain.quota import after_others, beyond_limit, nothing_to_take_back
from flyball.schedule.explain.room import no_room
from flyball.schedule.explain.rounds import nobody_gives_way, waits_for_round
from flyball.schedule.explain.rules import forbidden
from flyball.schedule.explain.turns import waits_for_turn
from flyball.schedule.explain.whatif import Probe, Spot
from flyball.schedule.explain.wording import Names, at_most_text, counted, span_text


def explain(state: State, knobs: Knobs, job: int, names: Names | None = None) -> Explanation:
    """Why this job waits (or that it does not), in a state right after a decision."""
    return explain_by(Inquiry(state, knobs, names or Names()), job)


def explain_by(inquiry: Inquiry, job: int) -> Explanation:
    """The same by an inquiry that is at hand: several jobs of a state share what it found out."""
    return _explain(inquiry, job)


def explain_pending(state: State, knobs: Knobs, names: Names | None = None) -> list[Explanation]:
    """Why each waiting job waits: those in the queue in its order, then those that are held."""
    inquiry = Inquiry(state, knobs, names or Names())
    held = (state.runs.status == Status.HELD).nonzero()[0]
    return [_explain(inquiry, int(job_id)) for job_id in [*inquiry.order, *held]]


def _explain(ask: Inquiry, job_id: int) -> Explanation:
    status = ask.state.runs[job_id].status
    if status == Status.HELD:
        waits_on = ask.state.runs[job_id].waiting_on
        return waits_for_jobs(ask, job_id) if waits_on else array_limit(ask, job_id)
    if status != Status.PENDING:
        return does_not_wait(ask, job_id)
    spot = ask.starts_without_budget.get(job_id)
    if spot is not None and job_id not in ask.next_round:
        return power_budget(ask, job_id, ask.probe(job_id), spot)
    if ask.knobs.order == Order.SHARES:
        return waits_for_turn(ask, job_id)
    probe = ask.probe(job_id)
    # 1. In strict order only the first is looked at.
    if ask.knobs.backfill == Backfill.STRICT and job_id != ask.head:
        return _behind_head(ask, job_id, probe)
    if ask.knobs.order == Order.FAIR:
        limited = beyond_limit(ask, job_id, probe)
        if limited is not None:
            return limited
    # 2. It fits, so it was not looked at.
    spot = probe.place()
    if spot is not None and ask.reclaims and job_id not in ask.next_round:
        return after_others(ask, job_id, spot)
    if spot is not None and not ask.is_scanned(job_id):
        return _beyond_depth(ask, job_id, spot)
    if spot is not None:
        return _next_decision(ask, job_id, spot)
    # 3. The next round gives it room.
    if job_id in ask.next_round:
        return waits_for_round(ask, job_id)
    # 4. There is room, but a rule forbids it; or there is none, and nobody gives way.
    rule = forbidden(ask, job_id, probe)
    if rule is not None or ask.knobs.preempt != Preempt.ROUNDS:
        return rule or no_room(ask, job_id, probe)
    if ask.reclaims:
        return nothing_to_take_back(ask, job_id, probe, no_room(ask, job_id, probe))
    return nobody_gives_way(ask, job_id, probe) or no_room(ask, job_id, probe)


def _behind_head(ask: Inquiry, job_id: int, probe: Probe) -> Explanation:
    head, place = ask.head, ask.place_of(job_id)
    of_head = _explain(ask, head)
    why = (
        f"number {place:,} of {len(ask.order):,}, behind {ask.names.job(head)}, which "
        f"{_lower(of_head.sentence)}"
    )
    spot = probe.place()
    numbers: dict[str, Any] = {
        "head": ask.names.job(head),
        "head_token": of_head.token,
        "head_devices": int(ask.state.jobs[head].devices),
        "fits_now": spot is not None,
    }
    remedies = [wait(ask, job_id, numbers)]
    if spot is not None:
        where = spot.text(ask.state, ask.names)
        remedies += [_overtake(ask, job_id, probe, where, numbers)]
        remedies += ["let others pass (backfill=skip or easy)"]
    return made(ask, job_id, "behind-head", why, remedies, **numbers)


def _lower(text: str) -> str:
    """A sentence as part of another."""
    return text[0].lower() + text[1:].rstrip(".")


def _overtake(ask: Inquiry, job_id: int, probe: Probe, where: str, numbers: dict[str, Any]) -> str:
    """What would put the job first in the queue."""
    job, gap_s = ask.state.jobs[job_id], key_of(ask, job_id) - float(ask.keys[ask.head])
    if ask.knobs.order == Order.SHORTEST and ask.state.runs[job_id].done_us == 0:
        below_us = float(job.estimate_us) - gap_s * 1e6 - 1
        if below_us > 0 and probe.figures(0, estimate_us=below_us).key_s < ask.keys[ask.head]:
            numbers["estimate_at_most_s"] = to_s(below_us)
            return (
                f"an estimate of at most {at_most_text(below_us)} instead of "
                f"{span_text(job.estimate_us)} would put it first and start it now {where}"
            )
    if ask.knobs.priority_s > 0:
        levels = math.floor(gap_s / ask.knobs.priority_s) + 1
        priority = float(job.priority) + levels
        if probe.figures(0, priority=priority).key_s < ask.keys[ask.head]:
            numbers["priority_at_least"] = priority
            return f"give it priority {priority:g} or above: it would start now {where}"
    return ""


def _beyond_depth(ask: Inquiry, job_id: int, spot: Spot) -> Explanation:
    depth, needed = ask.knobs.depth, ask.depth_for(job_id)
    where = spot.text(ask.state, ask.names)
    why = (
        f"would fit now {where}, but is number {ask.place_of(job_id):,} in the queue and the "
        f"scan stops after {counted(depth, 'job')}"
    )
    remedies = ["wait for jobs before it to start", f"set depth={needed} to have it looked at"]
    return made(ask, job_id, "beyond-depth", why, remedies, depth=depth, depth_needed=needed)


def _next_decision(ask: Inquiry, job_id: int, spot: Spot) -> Explanation:
    where = spot.text(ask.state, ask.names)
    why = f"fits now {where}: room came free in or after the last decision"
    numbers = {}
    remedy = f"{NOTHING_TO_DO}: the next decision looks at it"
    if ask.knobs.preempt == Preempt.ROUNDS:
        in_us = ask.next_round_us - ask.now_us
        numbers["expected_in_s"] = to_s(in_us)
        remedy += f", in {span_text(in_us)} at the latest"
    return made(ask, job_id, "next-decision", why, [remedy], **numbers)
