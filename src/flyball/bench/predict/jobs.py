"""The back-tests of run time and demand: every figure beside its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.errors import BadInput, Unavailable
from flyball.core.units import US_PER_S
from flyball.core.workload import CLASS_LABELS, Workload
from flyball.experiments.demand import own_compare as own
from flyball.experiments.demand.tasks import METHODS, SPLITS, TASKS, Score, evaluate, task_of
from flyball.predict.demand.formulas import VALUE, Row
from flyball.predict.demand.learner import Learner
from flyball.predict.demand.own_steps import TARGETS, learner, own_rows
from flyball.predict.runtime.backtest import Plan, backtest, figures
from flyball.predict.runtime.rows import Run, runs_of
from flyball.twin.inputs.traces import read_trace

Note = Callable[[str], None]
S_PER_DAY = 86_400.0
TEST_DAYS = 20
RUNTIME_BARS: dict[str, tuple[float, float]] = {
    "median_abs_log_error": (0.0, 0.50),
    "within_2x": (0.60, 1.0),
    "spearman": (0.79, 1.0),
    "pair_order": (0.80, 1.0),
    "band_coverage": (0.88, 0.92),
}
"""Lowest and highest value that will do."""
BEST_PLAIN = {"median_abs_log_error": min, "within_2x": max, "spearman": max, "pair_order": max}


OWN_BAR = 0.95
"""Least R2 of logarithms on the measured set of our own."""
OWN = "own-"
"""Begins the names of its tasks."""
OWN_TARGETS = {"step": "step time", "memory": "peak memory"}
PARTS = ("mse", "rmse", "mae", "mape", "r2")
STUDENT_95 = (0.0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""For an interval of 95 % of a mean of so many plus one."""


def rows_of(workload: Workload) -> list[dict[str, object]]:
    """A workload's jobs as the run-time estimator wants them.

    A trace does not say when jobs ended but how long they ran; they are taken to start at once.
    """
    return [
        {
            "submit_s": int(workload.submit_us[at]) / US_PER_S,
            "run_s": float(workload.duration_us[at]) / US_PER_S,
            "devices": int(workload.devices[at]),
            "tenant": _name(workload.tenants, int(workload.tenant[at])),
            "user": _name(workload.users, int(workload.user[at])),
            "name": _name(workload.models, int(workload.model[at])),
            "kind": _name(CLASS_LABELS, int(workload.kind[at])),
            "limit_s": int(workload.limit_us[at]) / US_PER_S,
        }
        for at in range(len(workload))
    ]


def _name(names: Sequence[str], code: int) -> str:
    return names[code] if code >= 0 else ""


def runtime(trace: Path, test_days: int = TEST_DAYS, note: Note | None = None) -> dict[str, Any]:
    """Back-test run times on the last whole days of a trace.

    Raises:
        BadInput: it cannot be read, or holds too few jobs.
    """
    workload = read_trace(trace, None, [])
    if not len(workload):
        raise BadInput(f"{trace} holds no jobs", "check the file")
    runs = runs_of(rows_of(workload))
    plan = Plan(slice_start_s(runs, test_days))
    outcome = backtest(runs, plan, note=note)
    found = figures(outcome)
    return {
        "trace": workload.name,
        "test_from_s": plan.test_s,
        "jobs": len(outcome.logs),
        "fits": outcome.fits,
        "share_of_trees": outcome.share,
        "figures": found,
        "rows": runtime_rows(found, len(outcome.logs)),
    }


def slice_start_s(runs: Sequence[Run], test_days: int) -> float:
    """Midnight (of the trace's clock) so many days before the end of the last one's day."""
    last_day = runs[-1].asked.submit_s // S_PER_DAY + 1.0
    return float((last_day - test_days) * S_PER_DAY)


def runtime_rows(found: dict[str, dict[str, float]], jobs: int) -> list[dict[str, Any]]:
    """The figures that have bars."""
    rows = []
    for metric, (low, high) in RUNTIME_BARS.items():
        value = found["flyball"][metric]
        best = BEST_PLAIN.get(metric)
        plain = [each[metric] for name, each in found.items() if name != "flyball" and best]
        bar: Any = [low, high] if metric == "band_coverage" else high if low == 0.0 else low
        rows.append(
            {
                "target": "run time",
                "horizon": "whole run",
                "metric": metric,
                "value": round(value, 4),
                "bar": bar,
                "holds": bool(low <= value <= high),
                "baseline": round(best(plain), 4) if best else None,
                "n": jobs,
            }
        )
    return rows


def demand_rows(note: Note | None = None, seeds: Sequence[int] = SPLITS) -> list[dict[str, Any]]:
    """Every demand task: the mean over splits, with the formula alone as the baseline.

    The measured set of our own comes first: it ships.

    Raises:
        DataAbsent: the measurements are not on this machine.
    """
    made = own_rows_of_table(note)
    for name in TASKS:
        scores, plain = compared(name, "flyball", seeds, note), compared(name, "formula", seeds)
        value = float(np.mean([each.mape for each in scores]))
        made.append(
            {
                "target": f"demand: {TASKS[name].target}",
                "horizon": "",
                "metric": "mape",
                "value": round(value, 4),
                "bar": TASKS[name].bar,
                "holds": value <= TASKS[name].bar,
                "baseline": round(float(np.mean([each.mape for each in plain])), 4),
                "n": scores[0].rows,
                "band_coverage": round(float(np.mean([each.coverage for each in scores])), 4),
                "how": scores[0].how,
            }
        )
    return made


def own_rows_of_table(
    note: Note | None = None, seeds: Sequence[int] = own.SEEDS
) -> list[dict[str, Any]]:
    """Ours on the measured set: R2 with its bar; types left out without one.

    The baseline is LightGBM on the same columns, tuned.
    """
    made = []
    ours, plain = own.OURS + own.FLOPS, "lightgbm" + own.TUNED + own.FLOPS
    for target, words in OWN_TARGETS.items():
        found = [own_score(target, each, seeds, note) for each in (ours, plain)]
        types = [own_types(target, each, note) for each in (ours, plain)]
        for where, bar, pair in (("random 70/30", OWN_BAR, found), ("unseen type", None, types)):
            value = pair[0]["r2"]
            made.append(
                {
                    "target": f"demand: {words}, own set, {where}",
                    "horizon": "",
                    "metric": "r2 of logarithms",
                    "value": value,
                    "bar": bar,
                    "holds": None if bar is None else value >= bar,
                    "baseline": pair[1]["r2"],
                    "n": pair[0]["n"],
                    "band_coverage": pair[0]["coverage"],
                    "how": f"{ours}; baseline {plain}",
                }
            )
    return made


def own_score(
    target: str, method: str, seeds: Sequence[int], note: Note | None = None
) -> dict[str, Any]:
    """One method on random splits of the measured set: means and the half width of 95 %.

    Raises:
        Unavailable: a package is missing.
    """
    rows, found = own_rows(), []
    for seed in seeds:
        if note is not None:
            note(f"{OWN}{target}: {method}, split {seed}")
        found.append(own.figures(own.estimate(rows, own.at_random(rows, seed), method, target)))
    return {**_means(found), **_identity(target, method), "splits": len(found)}


def own_types(target: str, method: str, note: Note | None = None) -> dict[str, Any]:
    """One method on types of model that it has not seen, all errors together and type by type.

    Raises:
        Unavailable: a package is missing.
    """
    if note is not None:
        note(f"{OWN}{target}: {method}, one type left out at a time")
    parts = own.without_each_type(own_rows(), method, target)
    by_type = {name: round(own.figures(part).mape, 4) for name, part in parts.items()}
    whole = own.figures(own.joined(list(parts.values())))
    return {**_means([whole]), **_identity(target, method), "mape_by_type": by_type}


def _identity(target: str, method: str) -> dict[str, Any]:
    has_band = method.startswith(own.OURS)
    made: dict[str, Any] = {"task": f"{OWN}{target}", "method": method}
    return made if has_band else {**made, "coverage": None}


def _means(found: Sequence[own.Figures]) -> dict[str, Any]:
    """Means over splits; `_interval` is the half width of 95 % of the mean."""
    made: dict[str, Any] = {}
    for name in (*PARTS, "coverage"):
        values = np.array([getattr(each, name) for each in found])
        made[name] = round(float(np.mean(values)), 4)
        if 1 < len(values) <= len(STUDENT_95) and name != "coverage":
            factor = STUDENT_95[len(values) - 1] / np.sqrt(len(values))
            made[f"{name}_interval"] = round(float(np.std(values, ddof=1) * factor), 4)
    return {**made, "n": found[0].rows}


def own_compare(
    targets: Sequence[str],
    seeds: Sequence[int],
    methods: Sequence[str] = own.METHODS,
    note: Note | None = None,
) -> dict[str, Any]:
    """All methods on the measured set, on the same splits.

    Returns:
        `random`, `unseen_type` (rows of figures; one with `absent` for a missing package),
        `published` (the mission's figures, on another set), `best` (of each task).
    """
    made: dict[str, list[dict[str, Any]]] = {"random": [], "unseen_type": []}
    for target in targets:
        for method in methods:
            try:
                made["random"].append(own_score(target, method, seeds, note))
                made["unseen_type"].append(own_types(target, method, note))
            except Unavailable as error:
                made["random"].append({**_identity(target, method), "absent": str(error)})
    return {**made, "published": own.PUBLISHED, "best": _best(made["random"])}


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """For each task the method with the highest R2, with and without counted operations."""
    found: dict[str, dict[str, str]] = {}
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        mine = [row for row in rows if row["task"] == task and "absent" not in row]
        kinds = {
            "stated columns": [row for row in mine if not row["method"].endswith(own.FLOPS)],
            "with counted flops": [row for row in mine if row["method"].endswith(own.FLOPS)],
        }
        found[task] = {
            name: max(some, key=lambda row: float(row["r2"]))["method"]
            for name, some in kinds.items()
            if some
        }
    return found


def compared(name: str, method: str, seeds: Sequence[int], note: Note | None = None) -> list[Score]:
    """One method on one task, one score for each split; a fixed split is done once."""
    task = task_of(name)
    rows = task.rows()
    used = seeds[:1] if task.unseen is not None else seeds
    found = []
    for seed in used:
        if note is not None:
            note(f"{name}: {method}, split {seed}")
        found.append(evaluate(task, rows, method, seed))
    return found


def compare(
    names: Sequence[str], seeds: Sequence[int], note: Note | None = None
) -> list[dict[str, Any]]:
    """All methods on some tasks; a method that is not installed has no figure."""
    made: list[dict[str, Any]] = []
    for name in names:
        for method in METHODS:
            try:
                scores = compared(name, method, seeds, note)
            except Unavailable as error:
                made.append({"task": name, "method": method, "absent": str(error)})
                continue
            mapes = [each.mape for each in scores]
            made.append(
                {
                    "task": name,
                    "method": method,
                    "mape": round(float(np.mean(mapes)), 4),
                    "mape_spread": round(float(np.std(mapes)), 4),
                    "median": round(float(np.mean([each.median for each in scores])), 4),
                    "bar": TASKS[name].bar,
                    "splits": len(scores),
                    "n": scores[0].rows,
                }
            )
    return made


def fit(folder: Path, names: Sequence[str], note: Note | None = None) -> dict[str, Any]:
    """Fit models on all measurements and save each with its card.

    Raises:
        DataAbsent: the measurements are not on this machine.
    """
    made: dict[str, Any] = {}
    for name in names:
        if note is not None:
            note(f"fitting {name}")
        model, rows = _to_fit(name)
        model.fit(rows)
        model.save(folder / name)
        made[name] = {"rows": len(rows), "chosen": model.chosen, "errors": model.tried}
    return made


def _to_fit(name: str) -> tuple[Learner, Sequence[Row]]:
    """A learner and its rows; a name of our own set's is known without looking at tasks."""
    target = name.removeprefix(OWN)
    if name.startswith(OWN) and target in TARGETS:
        return learner(target), [{**row, VALUE: row[TARGETS[target]]} for row in own_rows()]
    task = task_of(name)
    return task.learner(), task.rows()
