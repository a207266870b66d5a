"""How much node energy power caps save on configurations they were not chosen on.

Zeus measured training at several power limits. For each type of device the configurations (data
set, network, batch size, optimiser) are split at random into halves: caps are chosen on one and
scored on the other, over many splits. Choosing and scoring on the same data would show 3 to 6 %
"saving" where the limit cannot even bind: noise.

* `by data set and network`: the type's curve with a steepness of its own for each of them, drawn
  towards the type's where it rests on few configurations; then the cap of least node energy at most
  6 % slower.
* `by type`: one curve for all (as `tune.power` does with the catalogue's curves).

A configuration's uncapped draw is what it draws at the highest limit, known before it is capped.
Between measured limits time and draw follow straight lines. The host draws 25 % of the node.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flyball.core.records import CAP_LEVELS
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.physics.caps import best_level, blend, host_of, node_energy, steepened

TYPES = ("v100", "a40", "rtx6000", "p100")
HALVES = 40
SLOWDOWN = 0.06
BAR = 7.0
DRAWN_TO_ALL = 3.0
"""How many configurations the type's mean counts for beside those of one network."""
FEWEST_LIMITS = 3
BINDS = 0.95
"""A limit above this part of the draw hardly binds."""
FRACTIONS = 1.0 - 0.05 * np.arange(CAP_LEVELS)


class Configuration(NamedTuple):
    """What was measured of one training.

    Attributes:
        kind: data set and network.
        time: factor at each level of `FRACTIONS`.
        power: of the node, as a part of that without a cap, likewise.
        binds: some measured limit is well below its draw.
    """

    kind: str
    time: Floats
    power: Floats
    binds: bool

    @property
    def energy(self) -> Floats:
        """Of the node for the same work, as a part of that without a cap."""
        return self.time * self.power


def rows(progress: Callable[[str], None] | None = None) -> list[dict[str, Any]]:
    """The rows of `flyball bench tune` about caps.

    Raises:
        DataAbsent: Zeus's measurements are not there.
    """
    measured = {name: read(name) for name in TYPES}
    made = []
    for way, by_kind in (("by data set and network", True), ("by type", False)):
        scores = {}
        for name in TYPES:
            scores[name] = _scores(measured[name], by_kind)
            made += _case(f"caps on {name}, {way}", scores[name], BAR)
            if progress is not None:
                progress(f"caps on {name}, {way}")
        weights = np.array([len(measured[name]) for name in TYPES], float)
        pooled = np.average([scores[name] for name in TYPES], axis=0, weights=weights)
        made += _case(f"caps on all types, {way}", pooled, BAR)
    for name in TYPES:
        able = [each for each in measured[name] if each.binds]
        case = f"caps on {name}, by data set and network, where a limit binds ({len(able)})"
        made += _case(case, _scores(able, True), None)
    return made


def read(device: str) -> list[Configuration]:
    """The configurations Zeus measured on a type of device."""
    points: dict[tuple[str, ...], list[tuple[float, float, float]]] = defaultdict(list)
    with gzip.open(shared_data("zeus", "power_vs_limit.csv.gz"), "rt") as file:
        for row in csv.DictReader(file):
            if row["gpu_type"] == device:
                key = tuple(row[name] for name in ("dataset", "network", "batch_size", "optimizer"))
                figures = ("power_limit_w", "time_per_epoch_s", "average_power_w")
                limit_w, time_s, power_w = (float(row[name]) for name in figures)
                points[key].append((limit_w, time_s, power_w))
    return [
        configuration("/".join(key[:2]), np.array(sorted(mine)))
        for key, mine in sorted(points.items())
        if len(mine) >= FEWEST_LIMITS
    ]


def configuration(kind: str, points: Floats) -> Configuration:
    """A configuration from rows of limit (W), time and drawn power (W), rising."""
    limit_w, time_s, power_w = points.T
    draw_w = power_w[-1]
    cap_w = np.clip(FRACTIONS * draw_w, limit_w[0], limit_w[-1])
    time = np.interp(cap_w, limit_w, time_s) / time_s[-1]
    power = np.interp(cap_w, limit_w, power_w) / draw_w
    time[0] = power[0] = 1.0  # no cap at all
    energy = node_energy(time, power, draw_w, np.asarray(host_of(draw_w)))
    return Configuration(kind, time, energy / time, bool(limit_w[0] < BINDS * draw_w))


def choose(known: Sequence[Configuration], kind: str, by_kind: bool) -> int:
    """The cap level for configurations of a kind, from others that were measured."""
    like = [each for each in known if each.kind == kind] if by_kind else []
    time = steepened(_table(like, "time"), _table(known, "time"), DRAWN_TO_ALL)
    power = blend(_table(like, "power"), _table(known, "power"), DRAWN_TO_ALL)
    return int(best_level(time[None], (time * power)[None], 1.0 + SLOWDOWN)[0])


def _table(configurations: Sequence[Configuration], name: str) -> Floats:
    """One of their curves, a row each."""
    return np.array([getattr(each, name) for each in configurations]).reshape(-1, CAP_LEVELS)


def _scores(configurations: Sequence[Configuration], by_kind: bool) -> Floats:
    """By half: the mean saving and the mean slowdown on the half that was kept back, in percent."""
    made = []
    for seed in range(HALVES):
        order = np.random.default_rng([seed, 61]).permutation(len(configurations))
        half = len(order) // 2
        known = [configurations[at] for at in order[:half]]
        kept = [configurations[at] for at in order[half:]]
        levels = {kind: choose(known, kind, by_kind) for kind in {each.kind for each in kept}}
        energy = np.mean([each.energy[levels[each.kind]] for each in kept])
        time = np.mean([each.time[levels[each.kind]] for each in kept])
        made.append((100 * (1 - energy), 100 * (time - 1)))
    return np.array(made)


def _case(case: str, scores: Floats, bar: float | None) -> list[dict[str, Any]]:
    """Means over halves, and the range that 95 % of the halves lie in."""
    out = []
    for column, (metric, least) in enumerate((("node energy saved", bar), ("slower", None))):
        low, high = np.quantile(scores[:, column], [0.025, 0.975])
        out.append(
            {
                "case": case,
                "load": None,
                "baseline": "no caps",
                "metric": metric,
                "value": float(scores[:, column].mean()),
                "low": float(low),
                "high": float(high),
                "bar": least,
            }
        )
    return out
