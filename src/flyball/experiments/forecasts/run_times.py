"""What quantiles of predicted run times are worth in backfill and in the order of the queue.

Each scenario is run with poor estimates (log-normal errors of sigma 1) and with run times predicted
from the jobs that ended before, by every policy at every level of its knob. A row is the change
against the same policy at level 0.5, which is how decisions are made without quantiles, over the
same seeds. The level is chosen on seeds of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.app import PolicySetting, policy_settings
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.knobs import MEDIAN, Backfill
from flyball.core.metrics import summarise
from flyball.core.state import State
from flyball.core.units import FOREVER_US
from flyball.core.workload import Workload
from flyball.experiments.forecasts.predicted import with_predictions
from flyball.experiments.forecasts.rows import Note, Row, verdict
from flyball.experiments.held_out import held_out, refuse
from flyball.experiments.scenarios import Scenario, find_scenarios
from flyball.experiments.tuning.rows import mean_95
from flyball.twin.twin import Twin

SCENARIOS = ("uniform", "bursts", "wide-gangs", "short-noisy")
JOBS = 500
"""Jobs of a run: the last two fifths of them are predicted by trees, the first by like jobs."""
SIGMA = 1.0
"""Spread of the log-normal error of poor estimates."""
BACKFILLING = ("easy", "sjf:backfill=easy", "saf:backfill=easy")
ORDERING = ("sjf", "saf", "srtf")
"""Policies whose keys read estimates. With errors of one spread for all jobs the level scales all
keys alike, so they are run with predictions only."""
LEVELS = (0.25, 0.5, 0.75, 0.9)
METRICS = ("completion_mean_s", "wait_mean_s", "completion_p95_s", "late_heads")
SHOWN = {
    "completion_mean_s": "mean completion s",
    "wait_mean_s": "mean wait s",
    "completion_p95_s": "completion p95 s",
}
"""Metrics in the rows of `flyball bench forecasts`, and their names there."""
SEEDS, CHOOSING_SEEDS = 12, 4

Cell = tuple[str, str, str, float]
"""Scenario, source of estimates, policy, level."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Arm:
    """One policy at one level of the knob that it reads."""

    policy: str
    level: float
    setting: PolicySetting

    @classmethod
    def of(cls, policy: str, level: float) -> Arm:
        """Return the arm of a policy written as `name` or `name:knob=value`."""
        name, _, change = policy.partition(":")
        knob = "backfill_quantile" if policy in BACKFILLING else "order_quantile"
        settings = [*([change] if change else []), f"{knob}={level}"]
        return cls(policy, level, policy_settings(name, settings)[0])


def steps(seeds: int, scenarios: Sequence[str] = SCENARIOS) -> int:
    """Return how often `run` reports progress."""
    return (seeds + CHOOSING_SEEDS) * len(scenarios)


def run(
    seeds: int = SEEDS,
    scenarios: Sequence[str] = SCENARIOS,
    jobs: int = JOBS,
    advance: Note | None = None,
) -> dict[str, Any]:
    """Run everything, and return the rows of the tables with their settings."""
    chosen = [replace(listed, jobs=jobs) for listed in find_scenarios(",".join(scenarios))]
    first = held_out().first_training_seed
    choosing = range(first, first + CHOOSING_SEEDS)
    refuse(chosen, choosing)
    figures: dict[Cell, dict[int, Figures]] = {}
    for scenario in chosen:
        for seed in (*choosing, *range(seeds)):
            for cell, measured in measure(scenario, seed):
                figures.setdefault(cell, {})[seed] = measured
            if advance is not None:
                advance(f"{scenario.name}, seed {seed}")
    picks = choose(figures, list(choosing))
    return {
        "sigma": SIGMA,
        "jobs": jobs,
        "seeds": seeds,
        "choosing_seeds": list(choosing),
        "levels": list(LEVELS),
        "rows": rows_of_table(figures, picks, list(range(seeds))),
    }


def measure(scenario: Scenario, seed: int) -> list[tuple[Cell, Figures]]:
    """Run one seed of a scenario in every arm."""
    cluster, workload = scenario.make_cluster(), scenario.make_workload(seed)
    effects = replace(scenario.make_effects(seed), estimate_sigma=SIGMA)
    predicted = with_predictions(cluster, workload, effects)
    out = []
    for source, jobs in (("stated", workload), ("predicted", predicted)):
        policies = BACKFILLING + (ORDERING if source == "predicted" else ())
        for policy in policies:
            for level in LEVELS:
                arm = Arm.of(policy, level)
                cell = (scenario.name, source, policy, level)
                out.append((cell, figures_of(cluster, jobs, effects, arm)))
    return out


def figures_of(cluster: Cluster, workload: Workload, effects: Effects, arm: Arm) -> Figures:
    """Run one arm; `late_heads` is the part of reservations that were not kept."""
    knobs = arm.setting.knobs
    twin = Twin(cluster, workload, knobs, effects)
    late = run_watched(twin) if knobs.backfill == Backfill.EASY else 0.0
    summary = summarise(twin.replay())
    return {
        "completion_mean_s": summary.completion_s.mean,
        "wait_mean_s": summary.wait_s.mean,
        "completion_p95_s": summary.completion_s.p95,
        "late_heads": late,
    }


def run_watched(twin: Twin) -> float:
    """Run to the end; return the part of heads that started later than first promised."""
    promised: dict[int, int] = {}
    while (now_us := twin.next_us) < FOREVER_US:
        twin.run(now_us)
        _note_promise(twin.state, promised)
    starts = twin.state.runs.first_start_us
    late = [int(starts[job]) > instant for job, instant in promised.items()]
    return float(np.mean(late)) if late else 0.0


def _note_promise(state: State, promised: dict[int, int]) -> None:
    """Note the instant that a head is promised when it becomes the head."""
    clock = state.clock[0]
    job = int(clock.reserved_job)
    if job >= 0 and clock.reserved_us < FOREVER_US:
        promised.setdefault(job, int(clock.reserved_us))


# Tables --------------------------------------------------------------------------------


def rows(note: Note, seeds: int | None = None) -> list[Row]:
    """Return the changes against level 0.5: every level over all scenarios, the chosen one in each.

    As the other parts of `flyball bench forecasts`; `flyball bench run-times` prints all levels.
    """
    note(f"run times: {', '.join(SCENARIOS)}; level chosen on {CHOOSING_SEEDS} other seeds")
    table = run(seeds or SEEDS)["rows"]
    places = ("policy", "estimates", "scenario")
    bases = {tuple(row[name] for name in places): row for row in table if row["level"] == MEDIAN}
    out: list[Row] = []
    for row in table:
        place = tuple(row[name] for name in places)
        if row["level"] == MEDIAN or not (row["chosen"] or row["scenario"] == "all"):
            continue
        for metric, name in SHOWN.items():
            low, high = row[metric]["low"], row[metric]["high"]
            out.append(
                {
                    "case": f"{row['policy']}, {row['estimates']} run times, {row['scenario']}",
                    "arm": f"level {row['level']:g}{' (chosen)' if row['chosen'] else ''}",
                    "against": f"level {MEDIAN:g}",
                    "metric": name,
                    "unit": "%",
                    "value": 100.0 * row[metric]["change"],
                    "low": 100.0 * low,
                    "high": 100.0 * high,
                    "n": seeds or SEEDS,
                    "base": bases[place][metric]["value"],
                    "verdict": verdict(low, high, seeds or SEEDS),
                }
            )
    return out


def choose(figures: dict[Cell, dict[int, Figures]], seeds: list[int]) -> dict[Cell, bool]:
    """Return the level of each policy with the least mean completion on these seeds.

    It is chosen for each policy and source over all scenarios: who runs a cluster does not know
    which of them it is.
    """
    scenarios = list(dict.fromkeys(cell[0] for cell in figures))
    best: dict[Cell, bool] = {}
    for source, policy in dict.fromkeys((cell[1], cell[2]) for cell in figures):
        cells = {level: [(name, source, policy, level) for name in scenarios] for level in LEVELS}
        totals = {
            level: _figure(figures, cells[level], seeds, METRICS[0])["change"] for level in LEVELS
        }
        winner = min(totals, key=lambda level: (totals[level], abs(level - MEDIAN)))
        best |= {("all", source, policy, level): level == winner for level in LEVELS}
    return best


def rows_of_table(
    figures: dict[Cell, dict[int, Figures]], picks: dict[Cell, bool], seeds: list[int]
) -> list[dict[str, Any]]:
    """Return a row for each policy, source and level, by scenario and over all of them."""
    rows = []
    scenarios = list(dict.fromkeys(cell[0] for cell in figures))
    for source, policy in dict.fromkeys((cell[1], cell[2]) for cell in figures):
        for level in LEVELS:
            for where in (*scenarios, "all"):
                row: dict[str, Any] = {
                    "scenario": where,
                    "estimates": source,
                    "policy": policy,
                    "level": level,
                    "chosen": picks["all", source, policy, level],
                }
                names = scenarios if where == "all" else [where]
                for metric in METRICS:
                    cells = [(name, source, policy, level) for name in names]
                    row[metric] = _figure(figures, cells, seeds, metric)
                rows.append(row)
    return rows


def _figure(
    figures: dict[Cell, dict[int, Figures]], cells: list[Cell], seeds: list[int], metric: str
) -> dict[str, float]:
    """Return the mean of a metric and its change against level 0.5, with a 95 % interval.

    Changes are relative, but for the part of late heads, whose change is a difference. Over several
    scenarios, a seed counts once, with the mean over them.
    """
    values = [figures[cell][seed][metric] for cell in cells for seed in seeds]
    by_seed = np.mean([_changes(figures, cell, seeds, metric) for cell in cells], axis=0)
    change, low, high = mean_95(by_seed.tolist())
    return {"value": float(np.mean(values)), "change": change, "low": low, "high": high}


def _changes(
    figures: dict[Cell, dict[int, Figures]], cell: Cell, seeds: list[int], metric: str
) -> list[float]:
    without = figures[(*cell[:3], MEDIAN)]
    pairs = [(figures[cell][seed][metric], without[seed][metric]) for seed in seeds]
    if metric == "late_heads":
        return [with_it - plain for with_it, plain in pairs]
    return [with_it / plain - 1.0 if plain else 0.0 for with_it, plain in pairs]
