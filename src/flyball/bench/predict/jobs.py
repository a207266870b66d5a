"""Back-tests of run time and demand, every figure with its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flyball.bench.figure import Bar
from flyball.core.errors import BadInput, Unavailable
from flyball.core.intervals import student_95
from flyball.experiments.demand import own_compare as own
from flyball.experiments.demand.tasks import METHODS, SPLITS, TASKS, Score, evaluate, task_of
from flyball.predict.demand.formulas import VALUE, Row
from flyball.predict.demand.learner import Learner
from flyball.predict.demand.own_steps import TARGETS, learner, own_rows
from flyball.predict.runtime.backtest import Plan, backtest, figures, pinball
from flyball.predict.runtime.rows import Run, rows_of, runs_of
from flyball.predict.runtime.trees import LEVELS
from flyball.twin.inputs.traces import read_trace

Note = Callable[[str], None]
S_PER_DAY = 86_400.0
TEST_DAYS = 20
RUNTIME_BARS = {
    "median_abs_log_error": Bar.at_most(0.50),
    "within_2x": Bar.at_least(0.60),
    "spearman": Bar.at_least(0.79),
    "pair_order": Bar.at_least(0.80),
    "band_coverage": Bar(0.88, 0.92),
}
RECENT_MEDIAN = "recent median"
NO_WORSE = "median_abs_log_error, against the recent median"
"""Metric whose bar is what the median of the latest like jobs reaches: it costs nothing."""
BEST_PLAIN = {"median_abs_log_error": min, "within_2x": max, "spearman": max, "pair_order": max}


OWN_BAR = 0.95
"""Least R2 of logarithms on our own measured set."""
OWN = "own-"
"""Prefix of the names of its tasks."""
OWN_TARGETS = {"step": "step time", "memory": "peak memory"}
PARTS = ("mse", "rmse", "mae", "mape", "r2")


def runtime(trace: Path, test_days: int = TEST_DAYS, note: Note | None = None) -> dict[str, Any]:
    """Back-test run times on the last whole days of a trace.

    Raises:
        BadInput: the trace cannot be read, or holds too few jobs.
    """
    workload = read_trace(trace, None, [])
    if not len(workload):
        raise BadInput(f"{trace} holds no jobs", "check the file")
    runs = runs_of(rows_of(workload))
    plan = Plan(slice_start_s(runs, test_days))
    outcome = backtest(runs, plan, note=note)
    by_method = figures(outcome)
    losses = pinball(outcome.quantiles, outcome.logs)
    return {
        "trace": workload.name,
        "test_from_s": plan.test_s,
        "jobs": len(outcome.logs),
        "fits": outcome.fits,
        "share_of_trees": outcome.share,
        "figures": by_method,
        "pinball": {f"{level:g}": loss for level, loss in zip(LEVELS, losses, strict=True)},
        "rows": runtime_rows(by_method, len(outcome.logs)),
    }


def slice_start_s(runs: Sequence[Run], test_days: int) -> float:
    """Return midnight (of the trace's clock) `test_days` before the end of the last job's day."""
    last_day = runs[-1].asked.submit_s // S_PER_DAY + 1.0
    return float((last_day - test_days) * S_PER_DAY)


def runtime_rows(by_method: dict[str, dict[str, float]], jobs: int) -> list[dict[str, Any]]:
    """Return rows of the figures that have bars."""
    rows = []
    for metric, bar in RUNTIME_BARS.items():
        value = by_method["flyball"][metric]
        best = BEST_PLAIN.get(metric)
        plain = [m[metric] for name, m in by_method.items() if name != "flyball" and best]
        rows.append(
            {
                "target": "run time",
                "horizon": "whole run",
                "metric": metric,
                "value": round(value, 4),
                "bar": bar.as_json(),
                "holds": bar.holds(value),
                "baseline": round(best(plain), 4) if best else None,
                "n": jobs,
            }
        )
    metric = "median_abs_log_error"
    free = round(by_method[RECENT_MEDIAN][metric], 4)
    bar, holds = Bar.at_most(free), by_method["flyball"][metric] <= by_method[RECENT_MEDIAN][metric]
    against = {"bar": bar.as_json(), "holds": holds, "baseline": free}
    return [*rows, {**rows[0], "metric": NO_WORSE, **against}]


def demand_rows(note: Note | None = None, seeds: Sequence[int] = SPLITS) -> list[dict[str, Any]]:
    """Measure every demand task: the mean over splits, with the formula alone as the baseline.

    Our own measured set comes first, as it ships with the package.

    Raises:
        DataAbsent: the measurements are not on this machine.
    """
    rows = own_rows_of_table(note)
    for name in TASKS:
        scores, plain = compared(name, "flyball", seeds, note), compared(name, "formula", seeds)
        value = float(np.mean([score.mape for score in scores]))
        rows.append(
            {
                "target": f"demand: {TASKS[name].target}",
                "horizon": "",
                "metric": "mape",
                "value": round(value, 4),
                "bar": TASKS[name].bar,
                "holds": Bar.at_most(TASKS[name].bar).holds(value),
                "baseline": round(float(np.mean([score.mape for score in plain])), 4),
                "n": scores[0].rows,
                "band_coverage": round(float(np.mean([score.coverage for score in scores])), 4),
                "how": scores[0].how,
            }
        )
    return rows


def own_rows_of_table(
    note: Note | None = None, seeds: Sequence[int] = own.SEEDS
) -> list[dict[str, Any]]:
    """Measure ours on the own set: R2 with its bar, and on types left out without one.

    The baseline is LightGBM on the same columns, tuned.
    """
    rows = []
    ours, plain = own.OURS + own.FLOPS, "lightgbm" + own.TUNED + own.FLOPS
    for target, words in OWN_TARGETS.items():
        random = [own_score(target, method, seeds, note) for method in (ours, plain)]
        types = [own_types(target, method, note) for method in (ours, plain)]
        for where, bar, pair in (("random 70/30", OWN_BAR, random), ("unseen type", None, types)):
            value = pair[0]["r2"]
            rows.append(
                {
                    "target": f"demand: {words}, own set, {where}",
                    "horizon": "",
                    "metric": "r2 of logarithms",
                    "value": value,
                    "bar": bar,
                    "holds": Bar.at_least(bar).holds(value),
                    "baseline": pair[1]["r2"],
                    "n": pair[0]["n"],
                    "band_coverage": pair[0]["coverage"],
                    "how": f"{ours}; baseline {plain}",
                }
            )
    return rows


def own_score(
    target: str, method: str, seeds: Sequence[int], note: Note | None = None
) -> dict[str, Any]:
    """Measure one method on random splits of the own set: means and half widths of 95 %.

    Raises:
        Unavailable: a package is missing.
    """
    rows, scores = own_rows(), []
    for seed in seeds:
        if note is not None:
            note(f"{OWN}{target}: {method}, split {seed}")
        scores.append(own.figures(own.estimate(rows, own.at_random(rows, seed), method, target)))
    return {**_means(scores), **_identity(target, method), "splits": len(scores)}


def own_types(target: str, method: str, note: Note | None = None) -> dict[str, Any]:
    """Measure one method on unseen types of model, all errors together and type by type.

    Raises:
        Unavailable: a package is missing.
    """
    if note is not None:
        note(f"{OWN}{target}: {method}, one type left out at a time")
    parts = own.without_each_type(own_rows(), method, target)
    by_type = {name: round(own.figures(part).mape, 4) for name, part in parts.items()}
    overall = own.figures(own.joined(list(parts.values())))
    return {**_means([overall]), **_identity(target, method), "mape_by_type": by_type}


def _identity(target: str, method: str) -> dict[str, Any]:
    has_band = method.startswith(own.OURS)
    identity: dict[str, Any] = {"task": f"{OWN}{target}", "method": method}
    return identity if has_band else {**identity, "coverage": None}


def _means(scores: Sequence[own.Figures]) -> dict[str, Any]:
    """Return means over splits; `_interval` is the half width of the mean's 95 % interval."""
    means: dict[str, Any] = {}
    for name in (*PARTS, "coverage"):
        values = np.array([getattr(score, name) for score in scores])
        means[name] = round(float(np.mean(values)), 4)
        if len(values) > 1 and name != "coverage":
            factor = student_95(len(values) - 1) / np.sqrt(len(values))
            means[f"{name}_interval"] = round(float(np.std(values, ddof=1) * factor), 4)
    return {**means, "n": scores[0].rows}


def own_compare(
    targets: Sequence[str],
    seeds: Sequence[int],
    methods: Sequence[str] = own.METHODS,
    note: Note | None = None,
) -> dict[str, Any]:
    """Compare all methods on the own set, on the same splits.

    Returns:
        `random`, `unseen_type` (rows of figures; one with `absent` for a missing package),
        `published` (figures of others, on another set), `best` (of each task).
    """
    rows: dict[str, list[dict[str, Any]]] = {"random": [], "unseen_type": []}
    for target in targets:
        for method in methods:
            try:
                rows["random"].append(own_score(target, method, seeds, note))
                rows["unseen_type"].append(own_types(target, method, note))
            except Unavailable as error:
                rows["random"].append({**_identity(target, method), "absent": str(error)})
    return {**rows, "published": own.PUBLISHED, "best": _best(rows["random"])}


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return for each task the method with the highest R2, with and without counted operations."""
    best: dict[str, dict[str, str]] = {}
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        mine = [row for row in rows if row["task"] == task and "absent" not in row]
        kinds = {
            "stated columns": [row for row in mine if not row["method"].endswith(own.FLOPS)],
            "with counted flops": [row for row in mine if row["method"].endswith(own.FLOPS)],
        }
        best[task] = {
            kind: max(entries, key=lambda row: float(row["r2"]))["method"]
            for kind, entries in kinds.items()
            if entries
        }
    return best


def compared(name: str, method: str, seeds: Sequence[int], note: Note | None = None) -> list[Score]:
    """Evaluate one method on one task, a score for each split; a fixed split is done once."""
    task = task_of(name)
    rows = task.rows()
    used = seeds[:1] if task.unseen is not None else seeds
    scores = []
    for seed in used:
        if note is not None:
            note(f"{name}: {method}, split {seed}")
        scores.append(evaluate(task, rows, method, seed))
    return scores


def compare(
    names: Sequence[str], seeds: Sequence[int], note: Note | None = None
) -> list[dict[str, Any]]:
    """Compare all methods on some tasks; a method that is not installed has no figure."""
    rows: list[dict[str, Any]] = []
    for name in names:
        for method in METHODS:
            try:
                scores = compared(name, method, seeds, note)
            except Unavailable as error:
                rows.append({"task": name, "method": method, "absent": str(error)})
                continue
            mapes = [score.mape for score in scores]
            rows.append(
                {
                    "task": name,
                    "method": method,
                    "mape": round(float(np.mean(mapes)), 4),
                    "mape_spread": round(float(np.std(mapes)), 4),
                    "median": round(float(np.mean([score.median for score in scores])), 4),
                    "bar": TASKS[name].bar,
                    "splits": len(scores),
                    "n": scores[0].rows,
                }
            )
    return rows


def fit(folder: Path, names: Sequence[str], note: Note | None = None) -> dict[str, Any]:
    """Fit models on all measurements and save each with its card.

    Raises:
        DataAbsent: the measurements are not on this machine.
    """
    fitted: dict[str, Any] = {}
    for name in names:
        if note is not None:
            note(f"fitting {name}")
        model, rows = _to_fit(name)
        model.fit(rows)
        model.save(folder / name)
        fitted[name] = {"rows": len(rows), "chosen": model.chosen, "errors": model.tried}
    return fitted


def _to_fit(name: str) -> tuple[Learner, Sequence[Row]]:
    """Return a learner and its rows, for a task of our own set or of the shared data."""
    target = name.removeprefix(OWN)
    if name.startswith(OWN) and target in TARGETS:
        return learner(target), [{**row, VALUE: row[TARGETS[target]]} for row in own_rows()]
    task = task_of(name)
    return task.learner(), task.rows()
