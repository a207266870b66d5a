"""Explains that there is room but a rule forbids it: reservation, power budget or hold rule."""

from __future__ import annotations

import math
from typing import Any

from flyball.core.knobs import Place
from flyball.core.units import duration_text, to_s
from flyball.schedule.explain.answer import Explanation, explanation, smaller, wait_text
from flyball.schedule.explain.power import power_budget
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.whatif import PlacementProbe, Spot
from flyball.schedule.explain.wording import (
    are,
    at_most_text,
    listed,
    quantile_text,
    span_text,
)


def forbidden(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> Explanation | None:
    """Explain which rule forbids a job for which there is room; None if there is none.

    Each rule is lifted alone, then all of them together.
    """
    lifted: dict[str, dict[str, Any]] = {
        "head": {"respect_head": False},
        "power": {"within_budget": False},
        "hold": {"knobs": {"place": Place.FASTEST}} if facts.knobs.place == Place.HOLD else {},
    }
    explain = {"head": _would_delay_head, "power": power_budget, "hold": _held_for_faster}
    for rule, change in lifted.items():
        spot = probe.place(**change)
        if spot is not None:
            return explain[rule](facts, job_id, probe, spot)
    everything = {name: value for change in lifted.values() for name, value in change.items()}
    spot = probe.place(**everything)
    if spot is None:
        return None
    # More than one rule forbids it: name the first that does so alone.
    for rule in lifted:
        others = [change for name, change in lifted.items() if name != rule]
        if probe.place(**{k: v for change in others for k, v in change.items()}) is None:
            return explain[rule](facts, job_id, probe, spot)
    raise AssertionError("no single rule and no two of them forbid it")


def _would_delay_head(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, spot: Spot
) -> Explanation:
    clock, job, run = facts.state.clock[0], facts.state.jobs[job_id], facts.state.runs[job_id]
    figures = probe.figures(spot.pool)
    restart_us = int(job.restart_us * (1.0 if run.attempt else clock.first_part))
    run_us, in_us = figures.run_us + restart_us, int(clock.reserved_us) - facts.now_us
    kept = facts.state.nodes.reserved_stamp == clock.reserved_stamp
    nodes = [facts.names.node(facts.state, int(node_id)) for node_id in kept.nonzero()[0]]
    head = facts.names.job(int(clock.reserved_job))
    starts = f"is expected to start in about {span_text(in_us)}"
    if in_us <= 0:  # the reservation counts devices only
        rule = "the power budget" if clock.budget_w > 0 else "the hold rule"
        starts = f"has its {facts.names.units} and waits for {rule}"
    why = (
        f"would fit now {spot.text(facts.state, facts.names)} and take about {span_text(run_us)}"
        f"{quantile_text(facts.knobs.backfill_quantile)}, "
        f"but {listed(nodes)} {are(len(nodes))} kept for {head}, which {starts}"
    )
    numbers: dict[str, Any] = {
        "head": head,
        "head_expected_in_s": to_s(in_us),
        "run_s": to_s(run_us),
        "reserved_nodes": nodes,
    }
    remedies = [_wait_for_head(in_us)]
    most_us = float(run.done_us) + math.floor((in_us - restart_us) * figures.rate)
    if job.backfill_stretch != 1.0:  # the estimate of which that is the quantile
        most_us = float(math.floor(most_us / job.backfill_stretch))
    if most_us > max(1.0, run.done_us) and probe.place(estimate_us=most_us) is not None:
        numbers["estimate_at_most_s"] = to_s(most_us)
        remedies.append(
            f"if it takes at most {at_most_text(most_us)}, say so: with that estimate instead of "
            f"{span_text(job.estimate_us)} it would start now"
        )
    remedies.append(smaller(facts, job_id, probe))
    return explanation(facts, job_id, "would-delay-head", why, remedies, **numbers)


def _wait_for_head(in_us: int) -> str:
    when = f", in about {span_text(in_us)}" if in_us > 0 else ""
    return f"wait until the first has started{when}"


def _held_for_faster(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, spot: Spot
) -> Explanation:
    run_us = {pool_id: probe.figures(pool_id).run_us for pool_id in facts.pools_of(job_id)}
    best = min(run_us, key=lambda pool_id: (run_us[pool_id], pool_id))
    hold_s, longer_us = facts.knobs.hold_s, run_us[spot.pool] - run_us[best]
    why = (
        f"would take {span_text(run_us[spot.pool])}"
        f"{quantile_text(facts.knobs.backfill_quantile)} {spot.text(facts.state, facts.names)} "
        f"({facts.names.type(spot.pool)}), which is free, and {span_text(run_us[best])} on "
        f"{facts.names.type(best)}: it waits, because that is {span_text(longer_us)} longer and "
        f"the limit is {duration_text(hold_s)}"
    )
    numbers: dict[str, Any] = {
        "run_free_s": to_s(run_us[spot.pool]),
        "run_best_s": to_s(run_us[best]),
        "hold_s": hold_s,
    }
    worth = [pool_id for pool_id in run_us if run_us[pool_id] <= run_us[best] + hold_s * 1e6]
    remedies = [wait_text(facts, job_id, numbers, worth)]
    enough_s = float(math.ceil(to_s(longer_us)))
    taken = probe.place(knobs={"hold_s": enough_s})
    if taken is not None:
        numbers["hold_at_least_s"] = enough_s
        where = taken.text(facts.state, facts.names)
        remedies.append(f"set hold_s={enough_s:g}: it would start now {where}")
    return explanation(facts, job_id, "held-for-faster", why, remedies, **numbers)
