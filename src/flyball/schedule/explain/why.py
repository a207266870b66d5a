"""Explains why a job waits: the binding reason as a token, a sentence with numbers, a remedy.

A reason is *binding* if the job would start without it. It is found by running the placement
code itself, as are the what-ifs of a remedy: nothing here decides separately whether a job
fits. Of run times it knows only estimates. `docs/guide/why.md` lists the tokens.
"""

from __future__ import annotations

import math
from typing import Any

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.state import State
from flyball.core.units import to_s
from flyball.schedule.explain.answer import (
    NOTHING_TO_DO,
    Explanation,
    explanation,
    key_of,
    wait_text,
)
from flyball.schedule.explain.held import (
    array_limit,
    deferred,
    does_not_wait,
    waits_for_jobs,
)
from flyball.schedule.explain.power import power_budget
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.quota import after_others, beyond_limit, nothing_to_take_back
from flyball.schedule.explain.room import no_room
from flyball.schedule.explain.rounds import cannot_preempt, waits_for_round
from flyball.schedule.explain.rules import forbidden
from flyball.schedule.explain.turns import waits_for_turn
from flyball.schedule.explain.whatif import PlacementProbe, Spot
from flyball.schedule.explain.wording import Names, at_most_text, counted, span_text


def explain(state: State, knobs: Knobs, job: int, names: Names | None = None) -> Explanation:
    """Explain why this job waits (or that it does not), in a state right after a decision."""
    return explain_by(QueueFacts(state, knobs, names or Names()), job)


def explain_pending(state: State, knobs: Knobs, names: Names | None = None) -> list[Explanation]:
    """Explain why each waiting job waits: those in the queue, in its order, then held ones."""
    facts = QueueFacts(state, knobs, names or Names())
    held = (state.runs.status == Status.HELD).nonzero()[0]
    return [explain_by(facts, int(job_id)) for job_id in [*facts.order, *held]]


def explain_by(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain why this job waits, with facts that several jobs of a state share."""
    status = facts.state.runs[job_id].status
    if status == Status.HELD:
        waits_on = facts.state.runs[job_id].waiting_on
        if not waits_on and facts.state.runs[job_id].defer_us > facts.now_us:
            return deferred(facts, job_id)
        return waits_for_jobs(facts, job_id) if waits_on else array_limit(facts, job_id)
    if status != Status.PENDING:
        return does_not_wait(facts, job_id)
    spot = facts.starts_without_budget.get(job_id)
    if spot is not None and job_id not in facts.next_round:
        return power_budget(facts, job_id, facts.probe(job_id), spot)
    if facts.knobs.order == Order.SHARES:
        return waits_for_turn(facts, job_id)
    probe = facts.probe(job_id)
    # 1. In strict order only the first job is considered.
    if facts.knobs.backfill == Backfill.STRICT and job_id != facts.head:
        return _behind_head(facts, job_id, probe)
    if facts.knobs.order == Order.FAIR:
        limited = beyond_limit(facts, job_id, probe)
        if limited is not None:
            return limited
    # 2. It fits, so the last decision did not consider it.
    spot = probe.place()
    if spot is not None and facts.reclaims and job_id not in facts.next_round:
        return after_others(facts, job_id, spot)
    if spot is not None and not facts.is_scanned(job_id):
        return _beyond_depth(facts, job_id, spot)
    if spot is not None:
        return _next_decision(facts, job_id, spot)
    # 3. The next round gives it room.
    if job_id in facts.next_round:
        return waits_for_round(facts, job_id)
    # 4. There is room, but a rule forbids it; or there is none, and no job gives way.
    rule = forbidden(facts, job_id, probe)
    if rule is not None or facts.knobs.preempt != Preempt.ROUNDS:
        return rule or no_room(facts, job_id, probe)
    if facts.reclaims:
        return nothing_to_take_back(facts, job_id, probe, no_room(facts, job_id, probe))
    return cannot_preempt(facts, job_id, probe) or no_room(facts, job_id, probe)


def _behind_head(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> Explanation:
    head, place = facts.head, facts.place_of(job_id)
    of_head = explain_by(facts, head)
    why = (
        f"number {place:,} of {len(facts.order):,}, behind {facts.names.job(head)}, which "
        f"{_lower(of_head.sentence)}"
    )
    spot = probe.place()
    numbers: dict[str, Any] = {
        "head": facts.names.job(head),
        "head_token": of_head.token,
        "head_devices": int(facts.state.jobs[head].devices),
        "fits_now": spot is not None,
    }
    remedies = [wait_text(facts, job_id, numbers)]
    if spot is not None:
        where = spot.text(facts.state, facts.names)
        remedies += [_overtake(facts, job_id, probe, where, numbers)]
        remedies += ["let others pass (backfill=skip or easy)"]
    return explanation(facts, job_id, "behind-head", why, remedies, **numbers)


def _lower(text: str) -> str:
    """Return a sentence as a part of another."""
    return text[0].lower() + text[1:].rstrip(".")


def _overtake(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, where: str, numbers: dict[str, Any]
) -> str:
    """Return what would put the job first in the queue."""
    job, gap_s = facts.state.jobs[job_id], key_of(facts, job_id) - float(facts.keys[facts.head])
    if facts.knobs.order == Order.SHORTEST and facts.state.runs[job_id].done_us == 0:
        below_us = float(job.estimate_us) - gap_s * 1e6 / float(job.order_stretch) - 1
        if below_us > 0 and probe.figures(0, estimate_us=below_us).key_s < facts.keys[facts.head]:
            numbers["estimate_at_most_s"] = to_s(below_us)
            return (
                f"an estimate of at most {at_most_text(below_us)} instead of "
                f"{span_text(job.estimate_us)} would put it first and start it now {where}"
            )
    if facts.knobs.priority_s > 0:
        levels = math.floor(gap_s / facts.knobs.priority_s) + 1
        priority = float(job.priority) + levels
        if probe.figures(0, priority=priority).key_s < facts.keys[facts.head]:
            numbers["priority_at_least"] = priority
            return f"give it priority {priority:g} or above: it would start now {where}"
    return ""


def _beyond_depth(facts: QueueFacts, job_id: int, spot: Spot) -> Explanation:
    depth, needed = facts.knobs.depth, facts.depth_for(job_id)
    where = spot.text(facts.state, facts.names)
    why = (
        f"would fit now {where}, but is number {facts.place_of(job_id):,} in the queue and the "
        f"scan stops after {counted(depth, 'job')}"
    )
    remedies = ["wait for jobs before it to start", f"set depth={needed} to have it considered"]
    return explanation(
        facts, job_id, "beyond-depth", why, remedies, depth=depth, depth_needed=needed
    )


def _next_decision(facts: QueueFacts, job_id: int, spot: Spot) -> Explanation:
    where = spot.text(facts.state, facts.names)
    why = f"fits now {where}: room came free in or after the last decision"
    numbers = {}
    remedy = f"{NOTHING_TO_DO}: the next decision considers it"
    if facts.knobs.preempt == Preempt.ROUNDS:
        in_us = facts.next_round_us - facts.now_us
        numbers["expected_in_s"] = to_s(in_us)
        remedy += f", in {span_text(in_us)} at the latest"
    return explanation(facts, job_id, "next-decision", why, [remedy], **numbers)
