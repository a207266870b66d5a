"""Back-tests run-time predictions: replays a trace in order of time, as it would happen live.

Features of a job are those at its submission. Trees are fitted again every few days on the jobs
ended by then; point and band learn from every end. Nothing is chosen on the test slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.core.units import S_PER_DAY
from flyball.predict.runtime import baselines
from flyball.predict.runtime.calibrate import Calibrator
from flyball.predict.runtime.choose import owners_of
from flyball.predict.runtime.estimator import guesses_of, table_of
from flyball.predict.runtime.features import NAMES, features
from flyball.predict.runtime.history import History, Seen, Step, in_order
from flyball.predict.runtime.rows import Run
from flyball.predict.runtime.trees import LEVELS, MIDDLE, Trees, TreeSettings

PAIRS = 200_000
LEAST_TEST = 100
Note = Callable[[str], None]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """Holds the time slices of a back-test.

    Attributes:
        test_s: the first submission of the test slice.
        refit_s: time between two fits.
        warm_s: time before the test slice in which point and band settle.
    """

    test_s: float
    refit_s: float = 5 * S_PER_DAY
    warm_s: float = 5 * S_PER_DAY


@dataclass(frozen=True)
class BacktestResult:
    """Holds predictions and run times of the test slice by submission; logarithms of seconds.

    Attributes:
        quantiles: one column for each of `LEVELS`.
        plain: the baselines, one column for each of `baselines.NAMES`.
        share: mean weight of the trees in the points; the rest is the median of the latest jobs.
    """

    logs: Floats
    quantiles: Floats
    plain: Floats
    fits: int
    share: float


def backtest(
    runs: Sequence[Run], plan: Plan, settings: TreeSettings | None = None, note: Note | None = None
) -> BacktestResult:
    """Predict ended jobs in order of submission.

    Raises:
        BadInput: too few jobs before or in the test slice.
    """
    report = note or (lambda _text: None)
    submit_s = np.array([run.asked.submit_s for run in runs])
    tested = submit_s >= plan.test_s
    if np.count_nonzero(tested) < LEAST_TEST or np.count_nonzero(~tested) < LEAST_TEST:
        counts = f"{np.count_nonzero(~tested):,} jobs before and {np.count_nonzero(tested):,} in"
        remedy = f"{LEAST_TEST} of each are needed; choose another start of the test"
        raise BadInput(f"{counts} the test slice", remedy)
    report(f"features of {len(runs):,} jobs")
    table, plain = _at_submission(runs)
    raw, fits = _grow(runs, table, plan, settings or TreeSettings(), report)
    quantiles, share = _calibrate(runs, raw, plan)
    logs = np.array([run.log_s for run in runs])
    fallback = float(np.median(logs[~tested]))
    plain = baselines.filled(plain, fallback)
    return BacktestResult(logs[tested], quantiles[tested], plain[tested], fits, share)


def _at_submission(runs: Sequence[Run]) -> tuple[Floats, Floats]:
    """Return features and baselines of every job at its submission."""
    table = np.empty((len(runs), len(NAMES)), np.float32)
    plain = np.empty((len(runs), len(baselines.NAMES)))
    history, seen = History(), dict[int, Seen]()
    for when_s, step, index, run in in_order(runs):
        if step is Step.SUBMIT:
            table[index] = features(run.asked, history)
            plain[index] = baselines.guesses(run.asked, history)
            seen[index] = history.submitted(run.asked)
        elif step is Step.START:
            seen[index].start_s = when_s
        else:
            history.ended(run, seen.pop(index))
    return table_of(list(table)), plain


def _grow(
    runs: Sequence[Run], table: Floats, plan: Plan, settings: TreeSettings, report: Note
) -> tuple[list[Any], int]:
    """Return guesses of all jobs from the warm-up on, each by the last trees before it."""
    submit_s = np.array([run.asked.submit_s for run in runs])
    start_s = np.array([run.start_s for run in runs])
    end_s = np.array([run.end_s for run in runs])
    logs = np.array([run.log_s for run in runs])
    guesses: list[Any] = [None] * len(runs)
    fits = 0
    now_s = plan.test_s - plan.warm_s
    while now_s <= submit_s[-1]:
        ended, running = end_s < now_s, (start_s < now_s) & (end_s >= now_s)
        targets = np.where(ended, logs, np.log(2.0 * np.maximum(1.0, now_s - start_s)))
        trees = Trees(settings)
        used = ended | running
        report(f"trees from {np.count_nonzero(used):,} jobs, day {now_s / S_PER_DAY:.0f}")
        trees.fit(table[used], targets[used], now_s - submit_s[used])
        fits += bool(trees.models)
        block = np.flatnonzero((submit_s >= now_s) & (submit_s < now_s + plan.refit_s))
        if len(block):
            for index, guess in zip(block.tolist(), guesses_of(table[block], trees), strict=True):
                guesses[index] = guess
        now_s += plan.refit_s
    return guesses, fits


def _calibrate(runs: Sequence[Run], guesses: list[Any], plan: Plan) -> tuple[Floats, float]:
    """Return quantiles as predicted at submission, learning from each end."""
    calibrator, shares = Calibrator(), list[float]()
    quantiles = np.full((len(runs), len(LEVELS)), np.nan)
    for when_s, step, index, run in in_order(runs):
        if guesses[index] is None:
            continue
        calibrator.advance(when_s)
        if step is Step.SUBMIT:
            share = calibrator.choice.share(guesses[index], owners_of(run.asked))
            shares += [share] if when_s >= plan.test_s else []
            quantiles[index] = calibrator.expect(index, guesses[index], run.asked)
        elif step is Step.START:
            calibrator.started(index, when_s)
        else:
            calibrator.ended(index, run.log_s)
    return quantiles, float(np.mean(shares))


# Figures ---------------------------------------------------------------------------


def scores(point: Floats, logs: Floats, seed: int = 0) -> dict[str, float]:
    """Return the scores of one point per job: log errors, part within twofold, and order."""
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
    """Return coverage, misses on each side and median width (as a factor) of the 90 % band."""
    low, high = quantiles[:, 0], quantiles[:, -1]
    return {
        "band_coverage": float(np.mean((logs >= low) & (logs <= high))),
        "below": float(np.mean(logs < low)),
        "above": float(np.mean(logs > high)),
        "band_factor": float(np.exp(np.median(high - low))),
    }


def pinball(quantiles: Floats, logs: Floats) -> list[float]:
    """Return the mean pinball loss of each of `LEVELS`, in log units."""
    above, levels = logs[:, None] - quantiles, np.array(LEVELS)
    losses = np.maximum(levels * above, (levels - 1.0) * above)
    return [float(loss) for loss in np.mean(losses, axis=0)]


def figures(test: BacktestResult) -> dict[str, dict[str, float]]:
    """Return all scores by method, ours first."""
    ours = scores(test.quantiles[:, MIDDLE], test.logs)
    by_method = {"flyball": {**ours, **band_scores(test.quantiles, test.logs)}}
    for index, name in enumerate(baselines.NAMES):
        by_method[name] = scores(test.plain[:, index], test.logs)
    return by_method


def _spearman(one: Floats, other: Floats) -> float:
    """Return the correlation of ranks; ties share their mean rank."""
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
