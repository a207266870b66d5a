"""Two conflicting aims: which settings of the tuners are best for one, the other, and in between.

Every point is a policy under other settings of its tuners. A point is *dominated* if another is at
least as good in both aims and better in one; the others make the front. The weighted objective
`w ln(first) + (1 - w) ln(second)`, both relative to the policy without tuners, tells which point of
the front is best for a user to whom the first aim is worth `w`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
    """A metric to minimise, or to maximise.

    Attributes:
        name: as users write it.
        label: for tables and axes, with the unit.
        value: returns it, given the summary of a run.
        larger: whether more is better.
    """

    name: str
    label: str
    value: Callable[[Summary], float]
    larger: bool = False

    def cost(self, value: float) -> float:
        """Return a value of which less is better, whatever the aim."""
        return -value if self.larger else value


AIMS = {
    aim.name: aim
    for aim in (
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
"""Settings that weigh one aim against another, with the range that is tried."""
PRIMES = (2, 3, 5, 7, 11)
ENERGY_PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of energy against completion in the first points."""
WEIGHTS = tuple(at / 20 for at in range(21))


@dataclass(frozen=True)
class Point:
    """A setting of the tuners and its results.

    Attributes:
        name: of the policy.
        settings: `elastic.eta` -> value; empty = the policy without tuners.
        values: of the two aims, means over the seeds.
        on_front: whether no other point dominates it.
        weights: range (least, most) of the first aim's weight at which no other point is better.
    """

    name: str
    settings: dict[str, float]
    values: tuple[float, float]
    on_front: bool = False
    weights: tuple[float, float] | None = None

    def as_dict(self, aims: Sequence[Aim]) -> dict[str, Any]:
        """Return a row of the JSON."""
        return {
            "policy": self.name,
            "settings": self.settings,
            **{aim.name: value for aim, value in zip(aims, self.values, strict=True)},
            "on_front": self.on_front,
            "weights": self.weights,
        }


def parse_aims(text: str) -> tuple[Aim, Aim]:
    """Parse two aims such as `energy,completion`.

    Raises:
        BadInput: not two, or not different, or unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in AIMS:
            raise UnknownName("aim", name, AIMS)
    if len(set(names)) != 2 or len(names) != 2:
        raise BadInput(f"--pareto {text!r} does not name two aims", "e.g. energy,completion")
    return AIMS[names[0]], AIMS[names[1]]


def sweep(policy: PolicySetting, tuning: TuningSetting, points: int) -> list[PolicySetting]:
    """Return the policy without tuners, with them as they are, and under `points - 1` settings.

    The settings of the optimiser's weights of energy and completion come first; then settings
    that fill their ranges evenly (a Halton sequence), so that more points only add to fewer.

    Raises:
        BadInput: the tuners have no setting that weighs aims.
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
    return [policy, *(_arm(policy, setting, at) for at, setting in enumerate(tried[:points]))]


def _weighted(tuning: TuningSetting, part: float) -> dict[str, dict[str, Any]]:
    """Return the tuners' settings if energy is worth `part` and completion the rest."""
    weights = Weights(work=0.0, energy=part, completion=1.0 - part)
    changed: dict[str, dict[str, Any]] = {}
    for tuner in tuning.tuners:
        if hasattr(weights, tuner.name):
            weighted: Any = getattr(weights, tuner.name)(make(tuner.name, dict(tuner.changed)))
            changed[tuner.name] = {key: getattr(weighted, key) for key in settings(tuner.name)}
    return changed


def swept_settings(arm: PolicySetting) -> dict[str, float]:
    """Return the swept settings of a point, `elastic.eta` -> value; none without tuners."""
    if arm.tuning is None:
        return {}
    swept = {}
    for tuner in arm.tuning.tuners:
        values = {**settings(tuner.name), **dict(tuner.changed)}
        for key in SWEPT.get(tuner.name, ()):
            swept[f"{tuner.name}.{key}"] = values[key]
    return swept


def judged(
    runs: Sequence[Run], arms: Sequence[PolicySetting], aims: tuple[Aim, Aim]
) -> list[Point]:
    """Return every point with its values; the first is the policy without tuners."""
    runs_of = by_policy(runs)
    values = [
        tuple(fmean(aim.value(run.summary) for run in runs_of[arm.name]) for aim in aims)
        for arm in arms
    ]
    costs = [(aims[0].cost(a), aims[1].cost(b)) for a, b in values]
    spans = _best_weights([_relative(pair, values[0], aims) for pair in values])
    return [
        Point(arm.name, swept_settings(arm), (pair[0], pair[1]), not dominated(cost, costs), span)
        for arm, pair, cost, span in zip(arms, values, costs, spans, strict=True)
    ]


def dominated(cost: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    """Return whether another is at least as good in both and better in one; NaN always loses."""
    if any(math.isnan(value) for value in cost):
        return True
    return any(a <= cost[0] and b <= cost[1] and (a, b) != cost for a, b in others)


def _relative(
    values: tuple[float, ...], base: tuple[float, ...], aims: tuple[Aim, Aim]
) -> tuple[float, ...]:
    """Return logarithms of the values over those without tuners; less is better."""
    logs = []
    for value, usual, aim in zip(values, base, aims, strict=True):
        comparable = value > 0 and usual > 0
        sign = -1 if aim.larger else 1
        logs.append(sign * math.log(value / usual) if comparable else math.inf)
    return tuple(logs)


def _best_weights(logs: Sequence[tuple[float, ...]]) -> list[tuple[float, float] | None]:
    """Return for each point the weights at which it is the best."""
    best: dict[int, list[float]] = {}
    for weight in WEIGHTS:
        score = [weight * a + (1 - weight) * b for a, b in logs]
        finite = [at for at, value in enumerate(score) if math.isfinite(value)]
        if finite:
            best.setdefault(min(finite, key=lambda at: score[at]), []).append(weight)
    return [(min(best[at]), max(best[at])) if at in best else None for at in range(len(logs))]


def _axes(tuning: TuningSetting) -> list[tuple[str, str, Bounds]]:
    return [
        (name, key, bounds) for name in tuning.names for key, bounds in SWEPT.get(name, {}).items()
    ]


def _arm(policy: PolicySetting, tuning: TuningSetting, number: int) -> PolicySetting:
    return replace(tuned(policy, tuning), name=f"{policy.name} #{number}")


def _halton(at: int, base: int) -> float:
    """Return the `at`-th number of van der Corput's sequence: its digits mirrored at the point."""
    value, part = 0.0, 1.0
    while at:
        part /= base
        at, digit = divmod(at, base)
        value += digit * part
    return value


def _scaled(part: float, bounds: Bounds) -> float:
    """Return a part of a range, rounded to three decimals; an integer where the ends are."""
    low, high = bounds
    if isinstance(low, int):
        return min(int(high), int(low) + int(part * (high - low + 1)))
    return round(low + part * (high - low), 3)
