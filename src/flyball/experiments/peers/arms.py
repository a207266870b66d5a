"""What runs on a peer's ground: their policy by its rules, plain policies, and the tuners."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.app import PolicySetting, Twin, build_twin, policy_settings
from flyball.core.knobs import Order
from flyball.core.metrics import completions_s, finish_time_fairness, waits_s
from flyball.core.results import Floats
from flyball.experiments.peers.ground import Ground
from flyball.schedule.policies.preset import Preset
from flyball.tune.optimise import Weights
from flyball.tune.registry import get_tuner
from flyball.twin.tuning import Tuning

Measured = dict[str, Any]
COMPLETION = Weights(work=0.0, energy=0.0, completion=1.0)
UNDER_TUNERS = "easy"
"""Policy whose plan the tuners change."""
PLAIN = ("srtf", "las", "max-min-het", "tuned")
ELASTIC = "elastic"
ARMS = (*PLAIN, ELASTIC)
THEIR_RULES = {
    # Sia's gavel: max_sum_throughput_perf, solved in every round; starts in rounds only.
    "gavel": ("max-throughput@gavel", ("solve_s=0", "starts=rounds")),
    # Pollux's tiresias: two queues at 16 GPU-hours, each by submission; all that fits runs.
    "tiresias": ("las", ("attained_s=57600", "margin_s=0")),
}
"""Their policies that our knobs can follow: policy and settings."""


def run(ground: Ground, arm: str) -> Measured:
    """Run one arm: `gavel`, `tiresias`, a plain policy, or `elastic`.

    Raises:
        UnknownName: no such policy.
    """
    if arm == ELASTIC:
        return figures(elastic_twin(ground))
    name, settings = THEIR_RULES.get(arm, (arm, ()))
    (policy,) = policy_settings(name, list(settings))
    return figures(plain_twin(ground, policy))


def plain_twin(ground: Ground, policy: PolicySetting) -> Twin:
    """Return a run of a policy that decides in the peer's rounds only.

    Target shares keep rounds of their own, 360 s: a job of theirs gives way in every other round,
    and in rounds of 60 s would spend half of its time on set-ups.
    """
    if policy.knobs.order == Order.SHARES:
        knobs = policy.knobs.with_settings(["starts=rounds"])
        setting = PolicySetting(policy.name, knobs, policy.allocator)
        return build_twin(ground.cluster, ground.jobs, setting, ground.effects)
    tuning = _rounds(ground, policy)
    return Twin(ground.cluster, ground.jobs, policy.knobs, ground.effects, tuning=tuning)


def elastic_twin(ground: Ground) -> Twin:
    """Return a run of the tuner that chooses sizes and types, set for completion time."""
    tuner = COMPLETION.elastic(get_tuner(ELASTIC)())  # type: ignore[arg-type]
    (policy,) = policy_settings(UNDER_TUNERS, [])
    tuning = _rounds(ground, policy, tuner)
    return Twin(ground.cluster, ground.elastic, policy.knobs, ground.effects, tuning=tuning)


def _rounds(ground: Ground, policy: PolicySetting, *tuners: Any) -> Tuning:
    costs = ground.effects.costs
    assert costs is not None, "a ground has costs"
    decider = Preset(policy.name, "", policy.knobs)
    return Tuning(tuners, decider, costs.round_s, between=False, estimates=ground.estimates)


def figures(twin: Twin) -> Measured:
    """Run a twin to its end and return what is compared; completion times are by job."""
    results = twin.replay()
    completion_s: Floats = completions_s(results)
    return {
        "completion_s": [round(float(value), 3) for value in completion_s],
        "wait_s": float(waits_s(results).mean()),
        "fairness_p99": float(np.percentile(finish_time_fairness(results), 99)),
        "mean_restarts": float(results.preemptions.mean()),
        "most_restarts": int(results.preemptions.max()),
    }


def check_arms(names: tuple[str, ...]) -> None:
    """Refuse names of arms that are no policy."""
    for name in names:
        if name != ELASTIC and name not in THEIR_RULES:
            policy_settings(name, [])
