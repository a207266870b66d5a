"""Explains why a job may not preempt others in rounds, or not yet."""

from __future__ import annotations

import math
from typing import Any

from flyball.core.knobs import Order
from flyball.core.units import MILLI_PER_DEVICE, duration_text, to_s, to_us
from flyball.schedule.explain.answer import (
    NOTHING_TO_DO,
    Explanation,
    explanation,
    smaller,
    wait_text,
)
from flyball.schedule.explain.queue_facts import Ints, QueueFacts
from flyball.schedule.explain.room import no_free
from flyball.schedule.explain.whatif import PlacementProbe
from flyball.schedule.explain.wording import ANOTHER_LEVEL_S, counted, listed, span_text

MEASURE = {
    Order.SUBMIT: "of submission",
    Order.SHORTEST: "of estimated run time",
    Order.AREA: "of estimated {unit} time",
    Order.REMAINING: "of estimated work left",
    Order.ATTAINED: "of submission",
    Order.HISTORY: "of predicted {unit} time",
    Order.INDEX: "of weighted work left",
}
"""Meaning of a second of key, by order; `{unit}` is `core` or `GPU`."""


def cannot_preempt(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> Explanation | None:
    """Explain why no room is made for a job ahead of running ones; None if it is not ahead."""
    room = facts.room(job_id)
    if room.down and not room.could_hold:
        return None
    running = facts.running_on(facts.pools_of(job_id))
    behind = running[facts.keys_then[running] > facts.keys[job_id]]
    if len(behind):
        return _not_far_enough(facts, job_id, probe, behind, len(running))
    if room.free < facts.state.jobs[job_id].devices and len(running):
        before = f"each of the {counted(len(running), 'job')} running there comes before it"
        return no_free(facts, job_id, probe, room, before)
    return None


def waits_for_round(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain that the next round will start the job."""
    preempted = [facts.names.job(victim) for victim in facts.next_round[job_id]]
    in_us, units = facts.next_round_us - facts.now_us, facts.names.units
    room = f"the {units} of {listed(preempted)}" if preempted else f"{units} that come free then"
    why = f"may not start now, but may take {room} in the next round, in {span_text(in_us)}"
    remedy = f"{NOTHING_TO_DO}: rounds come every {duration_text(facts.knobs.round_s)} (round_s)"
    numbers = {"expected_in_s": to_s(in_us), "set_aside": preempted, "round_s": facts.knobs.round_s}
    return explanation(facts, job_id, "waits-for-round", why, [remedy], **numbers)


def _not_far_enough(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, behind: Ints, running: int
) -> Explanation:
    knobs, gaps_s = facts.knobs, facts.keys_then[behind] - facts.keys[job_id]
    far = behind[gaps_s > knobs.margin_s]
    there = f"of the {counted(running, 'job')} running there"
    numbers: dict[str, Any] = {
        "running": running,
        "behind": len(behind),
        "behind_by_margin": len(far),
        "furthest_s": float(gaps_s.max()),
        "margin_s": knobs.margin_s,
    }
    if len(far):
        too_little = _too_little(facts, job_id, far, numbers)
        why = f"finds no room; {there} {len(far)} may give way to it, {too_little}"
    elif knobs.order == Order.ATTAINED and knobs.margin_s >= ANOTHER_LEVEL_S:
        takes = f"{duration_text(knobs.attained_s)} of {facts.names.unit} time (attained_s)"
        if knobs.attained2_s:
            takes += f" or {duration_text(knobs.attained2_s)} (attained2_s)"
        why = f"finds no room, and {there} none is demoted below it; that takes {takes}"
    else:
        why = (
            f"finds no room; {there} {_come(len(behind))} after it, the furthest by "
            f"{_gap(facts, numbers['furthest_s'])}, and gives way only for more than "
            f"{duration_text(knobs.margin_s)} (margin_s)"
        )
    remedies = [wait_text(facts, job_id, numbers), _promotion(facts, job_id, numbers)]
    remedies.append(smaller(facts, job_id, probe))
    return explanation(facts, job_id, "not-far-enough-ahead", why, remedies, **numbers)


def _promotion(facts: QueueFacts, job_id: int, numbers: dict[str, Any]) -> str:
    """Return when a job in a lower queue goes back to the first queue, if it still waits."""
    knobs, run, job = facts.knobs, facts.state.runs[job_id], facts.state.jobs[job_id]
    if knobs.order != Order.ATTAINED or not knobs.promote:
        return ""
    memo = facts.state.memos[job_id if len(facts.state.memos) > 1 else 0]
    service_us = float(run.service_us - memo.promoted_us)
    if service_us < knobs.attained_s * 1e6:
        return ""
    ran_us = service_us / (int(job.devices) * int(job.milli) / MILLI_PER_DEVICE)
    rounds = math.ceil((int(memo.queued_us) + knobs.promote * ran_us) / to_us(knobs.round_s))
    in_us = max(facts.next_round_us, rounds * to_us(knobs.round_s)) - facts.now_us
    numbers["promoted_in_s"] = to_s(in_us)
    return f"wait: in about {span_text(in_us)} it goes back to the first queue (promote)"


def _too_little(facts: QueueFacts, job_id: int, far: Ints, numbers: dict[str, Any]) -> str:
    """Return why the jobs that would give way do not make enough room."""
    began_us = facts.state.runs.since_us[far]
    young = far[facts.next_round_us - began_us < to_us(facts.knobs.round_s)]
    numbers["too_young"] = len(young)
    if len(young) == len(far):
        return f"but not before they have run for {duration_text(facts.knobs.round_s)} (round_s)"
    most = facts.most_on_node_without(set(far.tolist()) - set(young.tolist()))
    numbers["most_on_node_then"] = most
    if most < facts.state.jobs[job_id].devices:
        return f"but that leaves at most {counted(most, facts.names.unit)} free on one node"
    full = "hosts are too full, " if facts.state.clock[0].hosts else ""
    return f"but jobs before it take that room, {full}or the power budget forbids it"


def _come(count: int) -> str:
    return f"{count} comes" if count == 1 else f"{count} come"


def _gap(facts: QueueFacts, seconds: float) -> str:
    if seconds >= ANOTHER_LEVEL_S:
        return "a level of the queue"
    measure = MEASURE[facts.knobs.order].format(unit=facts.names.unit)
    return f"{duration_text(seconds)} {measure}"
