"""Explains that the power budget keeps a job waiting: what is drawn, needed, and would help."""

from __future__ import annotations

from typing import Any

from flyball.core.records import CAP_LEVELS
from flyball.schedule.explain.answer import Explanation, explanation, smaller, types_text, wait_text
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.whatif import PlacementProbe, Spot
from flyball.schedule.explain.wording import power_text


def power_budget(facts: QueueFacts, job_id: int, probe: PlacementProbe, spot: Spot) -> Explanation:
    """Explain that without the power budget the job would start at `spot`."""
    clock, added_w = facts.state.clock[0], probe.figures(spot.pool).added_w
    drawn_w, budget_w = float(clock.power_w), float(clock.budget_w)
    numbers: dict[str, Any] = {"drawn_w": drawn_w, "added_w": added_w, "budget_w": budget_w}
    first = _first_beyond(facts, job_id) if drawn_w + added_w <= budget_w else None
    where = spot.text(facts.state, facts.names)
    budget = f"the {power_text(budget_w)} power budget"
    drawn = f"{power_text(drawn_w)} of {budget} is drawn"
    if drawn_w > budget_w:
        drawn = f"{power_text(drawn_w)} is drawn already, beyond {budget}"
    why = f"would draw {power_text(added_w)} more {where}; {drawn}"
    if first is not None:
        head, head_w = facts.names.job(first[0]), first[1]
        numbers |= {"head": head, "head_added_w": head_w}
        why = f"comes after {head}, which would draw {power_text(head_w)} more; {drawn}"
    remedies = [_until(facts, job_id, spot, numbers), _raised(facts, job_id, numbers)]
    if first is None:
        remedies += [_capped(facts, probe, numbers), smaller(facts, job_id, probe)]
    return explanation(facts, job_id, "power-budget", why, remedies, **numbers)


def _first_beyond(facts: QueueFacts, job_id: int) -> tuple[int, float] | None:
    """Return the first job before this one that exceeds the budget, and the watts it would add."""
    left_w = float(facts.state.clock[0].budget_w - facts.state.clock[0].power_w)
    for other, spot in facts.starts_without_budget.items():
        if other == job_id:
            break
        added_w = facts.probe(other).figures(spot.pool).added_w
        if added_w > left_w:
            return other, added_w
        left_w -= added_w
    return None


def _until(facts: QueueFacts, job_id: int, spot: Spot, numbers: dict[str, Any]) -> str:
    """Return what to wait for: power, or room on devices that the budget allows at all."""
    allowed = facts.pools_of(job_id)
    if spot.pool in allowed:
        return "wait for running jobs to end"
    numbers["types_within_budget"] = [facts.names.type(pool_id) for pool_id in allowed]
    never = f"{facts.names.type(spot.pool)} would exceed the budget even alone"
    return (
        wait_text(facts, job_id, numbers) or f"wait for {types_text(facts, allowed)}, since {never}"
    )


def _raised(facts: QueueFacts, job_id: int, numbers: dict[str, Any]) -> str:
    """Return the budget with which the job would start now, after those before it."""
    needed_w = float(facts.state.clock[0].power_w)
    for other, spot in facts.starts_without_budget.items():
        needed_w += facts.probe(other).figures(spot.pool).added_w
        if other == job_id:
            numbers["budget_at_least_w"] = needed_w
            return f"raise the budget to {power_text(needed_w, up=True)} to start it now"
    return ""


def _capped(facts: QueueFacts, probe: PlacementProbe, numbers: dict[str, Any]) -> str:
    """Return the weakest cap on new starts with which the job would start now."""
    for level in range(1, CAP_LEVELS):
        cap = round(1 - 0.05 * level, 2)
        spot = probe.place(knobs={"cap": cap}) if cap < facts.knobs.cap else None
        if spot is not None:
            less_w = probe.figures(spot.pool, cap=cap).added_w
            numbers |= {"cap_at_most": cap, "added_capped_w": less_w}
            return (
                f"cap new starts at {cap:.0%} (cap={cap:g}): it would start now and draw "
                f"{power_text(less_w)} more {spot.text(facts.state, facts.names)}"
            )
    return ""
