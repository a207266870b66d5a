"""How much node energy power caps save on configurations they were not chosen on.

Zeus measured training at several power limits. For each type of device the configurations (data
set, network, batch size, optimiser) are split at random into halves: caps are chosen on one and
scored on the other, over many splits. Choosing and scoring on the same data would show 3 to 6 %
"saving" where the limit cannot even bind: noise.

* `by data set and network`: the type's curve with a separate steepness for each of them, shrunk
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
from typing import NamedTuple

import numpy as np

from flyball.core.records import CAP_LEVELS
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.physics.caps import best_level, blend, host_of, node_energy, steepened

TYPES = ("v100", "a40", "rtx6000", "p100")
HALVES = 40
SLOWDOWN = 0.06
BAR = 7.0
DRAWN_TO_ALL = 3.0
"""Number of configurations that the type's mean counts for, next to those of one network."""
FEWEST_LIMITS = 3
BINDS = 0.95
"""Part of the draw above which a limit hardly binds."""
FRACTIONS = 1.0 - 0.05 * np.arange(CAP_LEVELS)


class Configuration(NamedTuple):
    """Holds the measurements of one training.

    Attributes:
        kind: data set and network.
        time: factor at each level of `FRACTIONS`.
        power: of the node, as a part of that without a cap, likewise.
        binds: whether a measured limit is well below its draw.
    """

    kind: str
    time: Floats
    power: Floats
    binds: bool

    @property
    def energy(self) -> Floats:
        """Return the energy of the node for the same work, as a part of that without a cap."""
        return self.time * self.power


def rows(progress: Callable[[str], None] | None = None) -> list[Row]:
    """Measure the rows of `flyball bench tune` about caps.

    Raises:
        DataAbsent: Zeus's measurements are not on this machine.
    """
    measured = {name: read(name) for name in TYPES}
    table = []
    for way, by_kind in (("by data set and network", True), ("by type", False)):
        scores = {}
        for name in TYPES:
            scores[name] = _scores(measured[name], by_kind)
            table += _case(f"caps on {name}, {way}", scores[name], BAR)
            if progress is not None:
                progress(f"caps on {name}, {way}")
        weights = np.array([len(measured[name]) for name in TYPES], float)
        pooled = np.average([scores[name] for name in TYPES], axis=0, weights=weights)
        table += _case(f"caps on all types, {way}", pooled, BAR)
    for name in TYPES:
        able = [item for item in measured[name] if item.binds]
        case = f"caps on {name}, by data set and network, where a limit binds ({len(able)})"
        table += _case(case, _scores(able, True), None)
    return table


def read(device: str) -> list[Configuration]:
    """Return the configurations that Zeus measured on a type of device."""
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
    """Return a configuration from rows of limit (W), time and drawn power (W), rising."""
    limit_w, time_s, power_w = points.T
    draw_w = power_w[-1]
    cap_w = np.clip(FRACTIONS * draw_w, limit_w[0], limit_w[-1])
    time = np.interp(cap_w, limit_w, time_s) / time_s[-1]
    power = np.interp(cap_w, limit_w, power_w) / draw_w
    time[0] = power[0] = 1.0  # no cap at all
    energy = node_energy(time, power, draw_w, np.asarray(host_of(draw_w)))
    return Configuration(kind, time, energy / time, bool(limit_w[0] < BINDS * draw_w))


def choose(training: Sequence[Configuration], kind: str, by_kind: bool) -> int:
    """Return the cap level for configurations of a kind, chosen on others that were measured."""
    like = [item for item in training if item.kind == kind] if by_kind else []
    time = steepened(_table(like, "time"), _table(training, "time"), DRAWN_TO_ALL)
    power = blend(_table(like, "power"), _table(training, "power"), DRAWN_TO_ALL)
    return int(best_level(time[None], (time * power)[None], 1.0 + SLOWDOWN)[0])


def _table(configurations: Sequence[Configuration], name: str) -> Floats:
    """Return one of their curves, a row each."""
    return np.array([getattr(item, name) for item in configurations]).reshape(-1, CAP_LEVELS)


def _scores(configurations: Sequence[Configuration], by_kind: bool) -> Floats:
    """Return for each split the mean saving and slowdown on the half kept back, in percent."""
    scores = []
    for seed in range(HALVES):
        order = np.random.default_rng([seed, 61]).permutation(len(configurations))
        half = len(order) // 2
        training = [configurations[at] for at in order[:half]]
        kept = [configurations[at] for at in order[half:]]
        levels = {kind: choose(training, kind, by_kind) for kind in {item.kind for item in kept}}
        energy = np.mean([item.energy[levels[item.kind]] for item in kept])
        time = np.mean([item.time[levels[item.kind]] for item in kept])
        scores.append((100 * (1 - energy), 100 * (time - 1)))
    return np.array(scores)


def _case(case: str, scores: Floats, bar: float | None) -> list[Row]:
    """Return rows of the means over splits, and the range that 95 % of the splits lie in."""
    out = []
    for column, (metric, least) in enumerate((("node energy saved", bar), ("slower", None))):
        low, high = np.quantile(scores[:, column], [0.025, 0.975])
        estimate = (float(scores[:, column].mean()), float(low), float(high))
        out.append(tuning_row(case, None, "no caps", metric, estimate, least))
    return out
