"""Explains waits under target shares: why it is not a job's turn, and when the next round is."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import Status
from flyball.core.knobs import Backfill
from flyball.core.units import duration_text, to_s
from flyball.schedule.explain.answer import NOTHING_TO_DO, Explanation, explanation
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.wording import counted, span_text


def waits_for_turn(facts: QueueFacts, job_id: int) -> Explanation:
    """Explain that others are further behind their shares, or that the job has none yet."""
    state = facts.state
    pools = len(state.pools)
    targets = state.shares.target[job_id * pools : (job_id + 1) * pools]
    in_us = facts.next_round_us - facts.now_us
    share = float(targets.sum())
    others = int(np.count_nonzero(state.runs.status == Status.RUNNING))
    numbers: dict[str, Any] = {
        "target_share": share,
        "next_round_s": to_s(in_us),
        "round_s": facts.knobs.round_s,
    }
    rounds = f"rounds come every {duration_text(facts.knobs.round_s)} (round_s)"
    if share > 0:
        why = (
            f"should run {share:.0%} of the time; in this round {counted(others, 'job')} "
            f"further behind their shares have the {facts.names.units} it could use"
        )
        remedies = [f"{NOTHING_TO_DO}: the next round is in {span_text(in_us)}; {rounds}"]
    elif facts.knobs.backfill == Backfill.STRICT:
        why = "has no share of any pool yet: jobs before it have all that would hold it"
        remedies = [f"wait for one of them to end; {rounds}"]
    else:
        why = "has no share of any pool, and nothing that would hold it is left over"
        remedies = [f"shares are recomputed in a round after a job arrives or ends; {rounds}"]
    return explanation(facts, job_id, "waits-for-turn", why, remedies, **numbers)
