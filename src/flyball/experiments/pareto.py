"""Two aims at odds: which settings of the tuners are best for one, for the other, and in between.

Every point is a policy under other settings of its tuners. A point is *dominated* if another is at
least as good in both aims and better in one; those that are not make the front. The weighted
objective `w ln(first) + (1 - w) ln(second)`, both relative to the policy without tuners, says which
point of the front is best for somebody to whom the first aim is worth `w`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from flyball.app import PolicySetting, TuningSetting, tuned
from flyball.core.errors import BadInput, UnknownName
from flyball.core.metrics import Summary
from flyball.core.units import S_PER_HOUR
from flyball.experiments.replay import Run, by_policy
from flyball.tune.optimise import Weights
from flyball.tune.registry import make, settings


@dataclass(frozen=True)
class Aim:
    """What is to be made small, or large.

    Attributes:
        name: as users write it.
        label: for tables and axes, with the unit.
        value: of a run.
        larger: whether more is better.
    """

    name: str
    label: str
    value: Callable[[Summary], float]
    larger: bool = False

    def cost(self, value: float) -> float:
        """Less is better, whatever the aim."""
        return -value if self.larger else value


AIMS = {
    each.name: each
    for each in (
        Aim("energy", "energy per work, kWh / reference device-hour", lambda s: s.energy_per_work),
        Aim(
            "completion", "mean completion time, h", lambda s: s.completion_s.mean / S_PER_HOUR
        ),
        Aim("wait", "mean wait, h", lambda s: s.wait_s.mean / S_PER_HOUR),
        Aim("work", "work in the window, device-hours", lambda s: s.work_per_window, True),
        Aim("slowdown", "slowdown, p95", lambda s: s.slowdown_p95),
        Aim("fairness", "finish-time fairness, p95", lambda s: s.finish_fairness_p95),
        Aim("cost", "idle + delay, device-hours", lambda s: s.cost),
    )
}  # fmt: skip

Bounds = tuple[float, float]
SWEPT: dict[str, dict[str, Bounds]] = {
    "elastic": {"eta": (0.3, 1.0), "energy": (0.0, 0.8)},
    "power": {"slowdown": (0.0, 0.15), "spare": (0, 4)},
    "share": {"limit": (0.05, 0.3)},
}
"""Settings that weigh one aim against another, and between what they are tried."""
PRIMES = (2, 3, 5, 7, 11)
ENERGY_PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What energy is worth against completion in the first points."""
WEIGHTS = tuple(at / 20 for at in range(21))


@dataclass(frozen=True)
class Point:
    """A setting of the tuners and what it came to.

    Attributes:
        name: of the policy it is.
        settings: `elastic.eta` -> value; empty = the policy without tuners.
        values: of the two aims, means over the seeds.
        on_front: nobody dominates it.
        weights: of the first aim, for which no other point is better: (least, most) or None.
    """

    name: str
    settings: dict[str, float]
    values: tuple[float, float]
    on_front: bool = False
    weights: tuple[float, float] | None = None

    def as_dict(self, aims: Sequence[Aim]) -> dict[str, Any]:
        """A row of the JSON."""
        return {
            "policy": self.name,
            "settings": self.settings,
            **{aim.name: value for aim, value in zip(aims, self.values, strict=True)},
            "on_front": self.on_front,
            "weights": self.weights,
        }


def parse_aims(text: str) -> tuple[Aim, Aim]:
    """The two aims of `energy,completion`.

    Raises:
        BadInput: not two, or not different, or not known.
    """
    wanted = [each.strip() for each in text.split(",") if each.strip()]
    for name in wanted:
        if name not in AIMS:
            raise UnknownName("aim", name, AIMS)
    if len(set(wanted)) != 2 or len(wanted) != 2:
        raise BadInput(f"--pareto {text!r} does not name two aims", "e.g. energy,completion")
    return AIMS[wanted[0]], AIMS[wanted[1]]


def sweep(policy: PolicySetting, tuning: TuningSetting, points: int) -> list[PolicySetting]:
    """The policy without tuners, with them as they are, and under `points - 1` other settings.

    First those that the optimiser's weights of energy and completion stand for; then settings
    that fill their ranges evenly (a Halton sequence), so more points only add to fewer.

    Raises:
        BadInput: tuners that have nothing to weigh.
    """
    axes = _axes(tuning)
    if not axes:
        raise BadInput(
            f"{','.join(tuning.names)} has no setting to weigh aims with",
            f"tune with some of {', '.join(SWEPT)}",
        )
    tried = [tuning]
    tried += [tuning.with_changed(_weighted(tuning, part)) for part in ENERGY_PARTS]
    for at in range(1, points):
        changed: dict[str, dict[str, Any]] = {}
        for (tuner, key, bounds), prime in zip(axes, PRIMES, strict=False):
            changed.setdefault(tuner, {})[key] = _scaled(_halton(at, prime), bounds)
        tried.append(tuning.with_changed(changed))
    return [policy, *(_arm(policy, each, at) for at, each in enumerate(tried[:points]))]


def _weighted(tuning: TuningSetting, part: float) -> dict[str, dict[str, Any]]:
    """The tuners' settings if energy is worth `part` and completion the rest."""
    weights = Weights(work=0.0, energy=part, completion=1.0 - part)
    changed: dict[str, dict[str, Any]] = {}
    for each in tuning.tuners:
        if hasattr(weights, each.name):
            made: Any = getattr(weights, each.name)(make(each.name, dict(each.changed)))
            changed[each.name] = {key: getattr(made, key) for key in settings(each.name)}
    return changed


def swept_settings(arm: PolicySetting) -> dict[str, float]:
    """The settings of a point that are swept, `elastic.eta` -> value; none if nobody tunes it."""
    if arm.tuning is None:
        return {}
    found = {}
    for each in arm.tuning.tuners:
        known = {**settings(each.name), **dict(each.changed)}
        for key in SWEPT.get(each.name, ()):
            found[f"{each.name}.{key}"] = known[key]
    return found


def judged(
    runs: Sequence[Run], arms: Sequence[PolicySetting], aims: tuple[Aim, Aim]
) -> list[Point]:
    """Every point with its values; the first is the policy without tuners."""
    own = by_policy(runs)
    values = [
        tuple(fmean(aim.value(run.summary) for run in own[arm.name]) for aim in aims)
        for arm in arms
    ]
    costs = [(aims[0].cost(a), aims[1].cost(b)) for a, b in values]
    spans = _best_weights([_relative(each, values[0], aims) for each in values])
    return [
        Point(arm.name, swept_settings(arm), (each[0], each[1]), not dominated(cost, costs), span)
        for arm, each, cost, span in zip(arms, values, costs, spans, strict=True)
    ]


def dominated(cost: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    """Whether another is at least as good in both and better in one; NaN is no good."""
    if any(math.isnan(each) for each in cost):
        return True
    return any(a <= cost[0] and b <= cost[1] and (a, b) != cost for a, b in others)


def _relative(
    values: tuple[float, ...], base: tuple[float, ...], aims: tuple[Aim, Aim]
) -> tuple[float, ...]:
    """Logarithms of the values over those without tuners; less is better."""
    logs = []
    for value, usual, aim in zip(values, base, aims, strict=True):
        known = value > 0 and usual > 0
        logs.append((-1 if aim.larger else 1) * math.log(value / usual) if known else math.inf)
    return tuple(logs)


def _best_weights(logs: Sequence[tuple[float, ...]]) -> list[tuple[float, float] | None]:
    """For each point, the weights at which it is the best."""
    best: dict[int, list[float]] = {}
    for weight in WEIGHTS:
        score = [weight * a + (1 - weight) * b for a, b in logs]
        known = [at for at, each in enumerate(score) if math.isfinite(each)]
        if known:
            best.setdefault(min(known, key=lambda at: score[at]), []).append(weight)
    return [(min(best[at]), max(best[at])) if at in best else None for at in range(len(logs))]


def _axes(tuning: TuningSetting) -> list[tuple[str, str, Bounds]]:
    return [
        (name, key, bounds) for name in tuning.names for key, bounds in SWEPT.get(name, {}).items()
    ]


def _arm(policy: PolicySetting, tuning: TuningSetting, number: int) -> PolicySetting:
    made = tuned(policy, tuning)
    return PolicySetting(f"{policy.name} #{number}", made.knobs, made.allocator, made.tuning)


def _halton(at: int, base: int) -> float:
    """The `at`-th number of van der Corput's sequence: its digits mirrored at the point."""
    value, part = 0.0, 1.0
    while at:
        part /= base
        at, digit = divmod(at, base)
        value += digit * part
    return value


def _scaled(part: float, bounds: Bounds) -> float:
    """A part of a range, in two figures after the point; whole where the ends are."""
    low, high = bounds
    if isinstance(low, int):
        return min(int(high), int(low) + int(part * (high - low + 1)))
    return round(low + part * (high - low), 3)
