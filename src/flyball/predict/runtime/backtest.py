"""How good are the predictions? A trace is gone through in time, as it would have been live.

Features of a job are those at its submission. Trees are grown anew every few days from what had
ended by then; blend and band learn from every end. Nothing is chosen on the test slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.runtime import baselines
from flyball.predict.runtime.calibrate import Calibrator
from flyball.predict.runtime.estimator import guesses_of, table_of
from flyball.predict.runtime.features import NAMES, features
from flyball.predict.runtime.history import History, Seen, Step, in_order
from flyball.predict.runtime.rows import Run
from flyball.predict.runtime.trees import LEVELS, MIDDLE, Trees, TreeSettings

S_PER_DAY = 86_400.0
PAIRS = 200_000
LEAST_TEST = 100
Note = Callable[[str], None]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """What is tested.

    Attributes:
        test_s: the first submission of the test slice.
        refit_s: between two fits.
        warm_s: before the test slice, over which blend and band settle.
    """

    test_s: float
    refit_s: float = 5 * S_PER_DAY
    warm_s: float = 5 * S_PER_DAY


@dataclass(frozen=True)
class Outcome:
    """Predictions and truth of the test slice, in order of submission; logarithms of seconds.

    Attributes:
        quantiles: one column for each of `LEVELS`.
        plain: the baselines, one column for each of `baselines.NAMES`.
    """

    logs: Floats
    quantiles: Floats
    plain: Floats
    fits: int
    share: float


def backtest(
    runs: Sequence[Run], plan: Plan, settings: TreeSettings | None = None, note: Note | None = None
) -> Outcome:
    """Go through ended jobs in order of submission.

    Raises:
        BadInput: too few jobs before or in the test slice.
    """
    say = note or (lambda _text: None)
    came_s = np.array([run.asked.submit_s for run in runs])
    tested = came_s >= plan.test_s
    if np.count_nonzero(tested) < LEAST_TEST or np.count_nonzero(~tested) < LEAST_TEST:
        counts = f"{np.count_nonzero(~tested):,} jobs before and {np.count_nonzero(tested):,} in"
        remedy = f"{LEAST_TEST} of each are needed; choose another start of the test"
        raise BadInput(f"{counts} the test slice", remedy)
    say(f"features of {len(runs):,} jobs")
    table, plain = _look_back(runs)
    raw, fits = _grow(runs, table, plan, settings or TreeSettings(), say)
    made, share = _calibrate(runs, raw, plan)
    logs = np.array([run.log_s for run in runs])
    fallback = float(np.median(logs[~tested]))
    plain = baselines.filled(plain, fallback)
    return Outcome(logs[tested], made[tested], plain[tested], fits, share)


def _look_back(runs: Sequence[Run]) -> tuple[Floats, Floats]:
    """Features and baselines of every job at its submission."""
    table = np.empty((len(runs), len(NAMES)), np.float32)
    plain = np.empty((len(runs), len(baselines.NAMES)))
    history, seen = History(), dict[int, Seen]()
    for when_s, step, at, run in in_order(runs):
        if step is Step.SUBMIT:
            table[at] = features(run.asked, history)
            plain[at] = baselines.guesses(run.asked, history)
            seen[at] = history.submitted(run.asked)
        elif step is Step.START:
            seen[at].start_s = when_s
        else:
            history.ended(run, seen.pop(at))
    return table_of(list(table)), plain


def _grow(
    runs: Sequence[Run], table: Floats, plan: Plan, settings: TreeSettings, say: Note
) -> tuple[list[Any], int]:
    """Guesses of all jobs from the start of the warm-up on, each by the last trees before it."""
    came_s = np.array([run.asked.submit_s for run in runs])
    start_s = np.array([run.start_s for run in runs])
    end_s = np.array([run.end_s for run in runs])
    logs = np.array([run.log_s for run in runs])
    guesses: list[Any] = [None] * len(runs)
    fits = 0
    now_s = plan.test_s - plan.warm_s
    while now_s <= came_s[-1]:
        ended, running = end_s < now_s, (start_s < now_s) & (end_s >= now_s)
        known = np.where(ended, logs, np.log(2.0 * np.maximum(1.0, now_s - start_s)))
        trees = Trees(settings)
        used = ended | running
        say(f"trees from {np.count_nonzero(used):,} jobs, day {now_s / S_PER_DAY:.0f}")
        trees.fit(table[used], known[used], now_s - came_s[used])
        fits += bool(trees.models)
        block = np.flatnonzero((came_s >= now_s) & (came_s < now_s + plan.refit_s))
        if len(block):
            for at, guess in zip(block.tolist(), guesses_of(table[block], trees), strict=True):
                guesses[at] = guess
        now_s += plan.refit_s
    return guesses, fits


def _calibrate(runs: Sequence[Run], guesses: list[Any], plan: Plan) -> tuple[Floats, float]:
    """Quantiles as they would have been given, learning from each end."""
    calibrator = Calibrator()
    made = np.full((len(runs), len(LEVELS)), np.nan)
    for when_s, step, at, run in in_order(runs):
        if guesses[at] is None:
            continue
        calibrator.advance(when_s)
        if step is Step.SUBMIT:
            made[at] = calibrator.expect(at, guesses[at])
        elif step is Step.START:
            calibrator.started(at, when_s)
        else:
            calibrator.ended(at, run.log_s)
    return made, calibrator.blend.share


# Figures ---------------------------------------------------------------------------


def scores(point: Floats, logs: Floats, seed: int = 0) -> dict[str, float]:
    """Of one point per job: median absolute log error, part within twofold, and order."""
    error = np.abs(point - logs)
    draw = np.random.default_rng(seed)
    one, other = draw.integers(0, len(logs), (2, PAIRS))
    differ = logs[one] != logs[other]
    same = (point[one] > point[other]) == (logs[one] > logs[other])
    return {
        "median_abs_log_error": float(np.median(error)),
        "within_2x": float(np.mean(error <= np.log(2.0))),
        "spearman": _spearman(point, logs),
        "pair_order": float(np.mean(same[differ])),
        "mean_abs_log_error": float(np.mean(error)),
    }


def band_scores(quantiles: Floats, logs: Floats) -> dict[str, float]:
    """Of the 90 % band: coverage, misses on each side, and the median factor between its edges."""
    low, high = quantiles[:, 0], quantiles[:, -1]
    return {
        "band_coverage": float(np.mean((logs >= low) & (logs <= high))),
        "below": float(np.mean(logs < low)),
        "above": float(np.mean(logs > high)),
        "band_factor": float(np.exp(np.median(high - low))),
    }


def figures(outcome: Outcome) -> dict[str, dict[str, float]]:
    """All scores, by who made the prediction: ours first."""
    ours = scores(outcome.quantiles[:, MIDDLE], outcome.logs)
    found = {"flyball": {**ours, **band_scores(outcome.quantiles, outcome.logs)}}
    for at, name in enumerate(baselines.NAMES):
        found[name] = scores(outcome.plain[:, at], outcome.logs)
    return found


def _spearman(one: Floats, other: Floats) -> float:
    """Correlation of ranks, ties sharing the mean of theirs."""
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
