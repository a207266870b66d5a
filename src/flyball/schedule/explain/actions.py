"""Explains why a plan's actions were taken."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Reason
from flyball.core.units import duration_text
from flyball.schedule.explain.tuned import is_tuned, tuned_text
from flyball.schedule.explain.wording import ANOTHER_LEVEL_S, Names, sentence, span_text


def reason_token(action: Any) -> str:
    """Return the reason of a plan's action as a token: `in-order`, `backfilled`, ..."""
    return Reason(int(action.reason)).name.lower().replace("_", "-")


def reason_text(action: Any, names: Names | None = None, now_us: int | None = None) -> str:
    """Return why a plan's action was taken, as a sentence.

    Args:
        action: a row of `state.plan`.
        names: the names that users see.
        now_us: when it was taken, to state how long from then.
    """
    reason, gain = Reason(int(action.reason)), float(action.gain)
    names = names or Names()
    job, units = names.job(int(action.job)) if action.job >= 0 else "", names.units
    if is_tuned(action):
        return sentence(tuned_text(action, job, names.unit))
    by = duration_text(gain) if 0 < gain < ANOTHER_LEVEL_S else "a level of the queue"
    if reason == Reason.IN_ORDER:
        why = f"{job} is next in the queue's order and fits"
    elif reason == Reason.SKIPPED_AHEAD:
        why = f"{job} fits, and a job before it does not"
    elif reason == Reason.BACKFILLED:
        why = f"{job} fits and is not expected to delay the first job that waits"
    elif reason == Reason.MADE_ROOM and gain == 0:
        why = f"{job} fits in what is left of the room made for another"
    elif reason == Reason.MADE_ROOM:
        why = f"{job} comes before jobs that ran there, by at least {by}, and took their {units}"
    elif reason == Reason.ITS_TURN:
        why = f"{job} is furthest behind its share of those that fit"
    elif reason == Reason.GAVE_WAY and gain == 0:
        why = f"{job} has had its turn: others are further behind their shares"
    elif reason == Reason.GAVE_WAY:
        why = f"{job} comes after a job that waited, by {by}, and gave its {units} to it"
    elif reason == Reason.MOVED_UP:
        earlier = f"it is expected to end {duration_text(gain)} earlier, its restart counted"
        why = f"{job} continues on faster {units}: {earlier}"
    elif reason == Reason.BORROWED:
        why = f"{job} is beyond its tenant's quota, and fits on {units} that no job before it uses"
    elif reason == Reason.RECLAIMED and gain == 0:
        why = f"{job} is within its tenant's quota and fits in what is left of {units} taken back"
    elif reason == Reason.RECLAIMED:
        why = f"{job} is within its tenant's quota and took back {units} that others borrowed"
    elif reason == Reason.GAVE_BACK:
        why = f"{job} ran on borrowed {units}: its tenant used {gain:g} more than its quota"
    else:
        when = f" in about {span_text(gain - now_us)}" if now_us is not None else ""
        why = f"kept for {job}, the first that does not fit, which is expected to start{when}"
    return sentence(why)
