"""There is room, but a rule forbids it: the reservation, the power budget, the hold rule."""

from __future__ import annotations

import math
from typing import Any

from flyball.core.knobs import Place
from flyball.core.units import duration_text, to_s
from flyball.schedule.explain.answer import Explanation, made, smaller, wait
from flyball.schedule.explain.power import power_budget
from flyball.schedule.explain.queue_facts import Inquiry
from flyball.schedule.explain.whatif import Probe, Spot
from flyball.schedule.explain.wording import are, at_most_text, listed, span_text


def forbidden(ask: Inquiry, job_id: int, probe: Probe) -> Explanation | None:
    """The rule that forbids a job for which there is room; None if there is none.

    Each is lifted by itself, then all of them.
    """
    lifted: dict[str, dict[str, Any]] = {
        "head": {"respect_head": False},
        "power": {"within_budget": False},
        "hold": {"knobs": {"place": Place.FASTEST}} if ask.knobs.place == Place.HOLD else {},
    }
    tell = {"head": _would_delay_head, "power": power_budget, "hold": _held_for_faster}
    for rule, change in lifted.items():
        spot = probe.place(**change)
        if spot is not None:
            return tell[rule](ask, job_id, probe, spot)
    everything = {name: value for change in lifted.values() for name, value in change.items()}
    spot = probe.place(**everything)
    if spot is None:
        return None
    # More than one rule forbids it: name the first that does by itself.
    for rule in lifted:
        others = [change for name, change in lifted.items() if name != rule]
        if probe.place(**{k: v for change in others for k, v in change.items()}) is None:
            return tell[rule](ask, job_id, probe, spot)
    raise AssertionError("no single rule and no two of them forbid it")


def _would_delay_head(ask: Inquiry, job_id: int, probe: Probe, spot: Spot) -> Explanation:
    clock, job, run = ask.state.clock[0], ask.state.jobs[job_id], ask.state.runs[job_id]
    figures = probe.figures(spot.pool)
    restart_us = int(job.restart_us) if run.attempt else 0
    run_us, in_us = figures.run_us + restart_us, int(clock.reserved_us) - ask.now_us
    kept = ask.state.nodes.reserved_stamp == clock.reserved_stamp
    nodes = [ask.names.node(ask.state, int(each)) for each in kept.nonzero()[0]]
    head = ask.names.job(int(clock.reserved_job))
    starts = f"is expected to start in about {span_text(in_us)}"
    if in_us <= 0:  # the reservation knows devices only
        rule = "the power budget" if clock.budget_w > 0 else "the hold rule"
        starts = f"has its {ask.names.units} and waits for {rule}"
    why = (
        f"would fit now {spot.text(ask.state, ask.names)} and take about {span_text(run_us)}, but "
        f"{listed(nodes)} {are(len(nodes))} kept for {head}, which {starts}"
    )
    numbers: dict[str, Any] = {
        "head": head,
        "head_expected_in_s": to_s(in_us),
        "run_s": to_s(run_us),
        "reserved_nodes": nodes,
    }
    remedies = [_wait_for_head(in_us)]
    most_us = float(run.done_us) + math.floor((in_us - restart_us) * figures.rate)
    if most_us > max(1.0, run.done_us) and probe.place(estimate_us=most_us) is not None:
        numbers["estimate_at_most_s"] = to_s(most_us)
        remedies.append(
            f"if it takes at most {at_most_text(most_us)}, say so: with that estimate instead of "
            f"{span_text(job.estimate_us)} it would start now"
        )
    remedies.append(smaller(ask, job_id, probe))
    return made(ask, job_id, "would-delay-head", why, remedies, **numbers)


def _wait_for_head(in_us: int) -> str:
    when = f", in about {span_text(in_us)}" if in_us > 0 else ""
    return f"wait until the first has started{when}"


def _held_for_faster(ask: Inquiry, job_id: int, probe: Probe, spot: Spot) -> Explanation:
    run_us = {each: probe.figures(each).run_us for each in ask.pools_of(job_id)}
    best = min(run_us, key=lambda each: (run_us[each], each))
    hold_s, longer_us = ask.knobs.hold_s, run_us[spot.pool] - run_us[best]
    why = (
        f"would take {span_text(run_us[spot.pool])} {spot.text(ask.state, ask.names)} "
        f"({ask.names.type(spot.pool)}), which is free, and {span_text(run_us[best])} on "
        f"{ask.names.type(best)}: it holds out, because that is {span_text(longer_us)} longer and "
        f"the limit is {duration_text(hold_s)}"
    )
    numbers: dict[str, Any] = {
        "run_free_s": to_s(run_us[spot.pool]),
        "run_best_s": to_s(run_us[best]),
        "hold_s": hold_s,
    }
    worth = [each for each in run_us if run_us[each] <= run_us[best] + hold_s * 1e6]
    remedies = [wait(ask, job_id, numbers, worth)]
    enough_s = float(math.ceil(to_s(longer_us)))
    taken = probe.place(knobs={"hold_s": enough_s})
    if taken is not None:
        numbers["hold_at_least_s"] = enough_s
        where = taken.text(ask.state, ask.names)
        remedies.append(f"set hold_s={enough_s:g}: it would start now {where}")
    return made(ask, job_id, "held-for-faster", why, remedies, **numbers)
