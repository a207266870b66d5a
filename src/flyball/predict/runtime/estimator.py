"""The run-time estimator: history, trees and calibration behind the `Estimator` contract.

`fit` learns from past rows. After that it receives events (`submitted`, `started`, `ended`) and
learns from every end; `refit` grows new trees from all jobs it keeps. `predict` may be called at
any time and changes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.runtime.calibrate import Calibrator, EdgeOffsets
from flyball.predict.runtime.choose import PointChoice, RunTimeGuess, owners_of
from flyball.predict.runtime.features import BASE, NAMES, RECENT, features
from flyball.predict.runtime.history import History, Seen, Step, in_order
from flyball.predict.runtime.rows import Asked, Run, asked_of, runs_of
from flyball.predict.runtime.trees import LEVELS, MIDDLE, Trees, TreeSettings

MOST_ROWS = 100_000
"""Maximum number of latest jobs that trees are fitted on."""
COLD_S = 3600.0
"""Point estimate when nothing is known and no limit is stated."""
COLD_SPREAD = 2.1
"""Standard deviation of log run times over all of Philly: the band when nothing is known."""
NORMAL = tuple(NormalDist().inv_cdf(level) for level in LEVELS)
"""Quantiles of the normal distribution at `LEVELS`."""
CARD, VERSION = "runtime.json", 2
FILES = (*(f"runtime_q{round(100 * level):02d}.txt" for level in LEVELS), "runtime_recent.txt")
"""Files of a model's trees, in their order."""


@dataclass(slots=True)
class _Live:
    """Holds a job that was submitted and has not ended."""

    asked: Asked
    seen: Seen
    row: Floats


class RunTimes:
    """Predicts quantiles (`LEVELS`) of run times in seconds."""

    def __init__(self, settings: TreeSettings | None = None) -> None:
        self._settings = settings or TreeSettings()
        self._reset()

    def _reset(self) -> None:
        """Drop everything that was learnt."""
        self.trees = Trees(self._settings)
        self.calibrator = Calibrator()
        self._history = History()
        self._live: dict[Hashable, _Live] = {}
        self._rows: list[Floats] = []
        self._logs: list[float] = []
        self._submit_s: list[float] = []

    # The contract ------------------------------------------------------------------

    def fit(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Learn from past rows only (see `rows`); jobs without an end are running.

        Raises:
            BadInput: a row is not possible.
        """
        runs = runs_of(rows)
        self._reset()
        now_s = 0.0
        for when_s, step, index, run in in_order(runs):
            self._apply(("fit", index), when_s, step, run)
            now_s = when_s
        self.refit(now_s)

    def predict(self, rows: Sequence[Mapping[str, object]]) -> Floats:
        """Return a row of quantiles (seconds) for each job, as if it were submitted now.

        Raises:
            BadInput: a row has no `submit_s`.
        """
        jobs = [asked_of(row, index) for index, row in enumerate(rows)]
        guesses = guesses_of(self._table(jobs), self.trees)
        return np.array(
            [
                _within(np.exp(self.calibrator.quantiles(guess, job)), job)
                for guess, job in zip(guesses, jobs, strict=True)
            ]
        )

    # What happens ------------------------------------------------------------------

    def submitted(self, job: Hashable, row: Mapping[str, object]) -> Floats:
        """Record a submission; return the job's quantiles (seconds), to learn from at its end."""
        return self._submitted(job, asked_of(row))

    def came_with(self, other: Hashable, job: Hashable, submit_s: float) -> Floats:
        """Record one more task of an array just submitted; it shares the features of `other`."""
        like = self._live[other]
        asked = replace(like.asked, submit_s=submit_s)
        self._live[job] = _Live(asked, self._history.submitted(asked), like.row)
        guess = guesses_of(like.row[None], self.trees)[0]
        return _within(np.exp(self.calibrator.expect(job, guess, asked)), asked)

    def like(self, row: Mapping[str, object]) -> int:
        """Count the latest ended jobs of the same user and name (else user, else tenant)."""
        groups = self._history.groups(asked_of(row))
        nearest = groups["name"] or groups["user"] or groups["tenant"]
        return len(nearest.finished) if nearest is not None else 0

    def started(self, job: Hashable, start_s: float) -> None:
        """Record a start."""
        if job in self._live:
            self._live[job].seen.start_s = start_s
            self.calibrator.started(job, start_s)

    def ended(self, job: Hashable, run_s: float, end_s: float) -> None:
        """Record that a job ended by itself after `run_s`; unknown jobs are ignored."""
        live = self._live.pop(job, None)
        if live is None:
            return
        run = Run(live.asked, end_s - run_s, end_s, run_s)
        self._history.ended(run, live.seen)
        self.calibrator.advance(end_s)
        self.calibrator.ended(job, run.log_s)
        self._keep(live.row, run.log_s, live.asked.submit_s)

    def cancelled(self, job: Hashable) -> None:
        """Record that a job was stopped: its full run time will not be known."""
        if job in self._live:
            self._history.withdrawn(self._live.pop(job).asked)
            self.calibrator.forget(job)

    def refit(self, now_s: float) -> None:
        """Fit new trees on the latest jobs in this process.

        It takes up to a minute: a process that must not wait passes `training` to a worker, runs
        `Trees.fit` there, and sets `trees` afterwards.
        """
        self.trees.fit(*self.training(now_s))

    def training(self, now_s: float) -> tuple[Floats, Floats, Floats]:
        """Return what trees are fitted on: features, logarithms of run times, ages in seconds.

        A running job counts as if it ran as long again: leaving out long jobs would bias the
        trees towards short ones.
        """
        live = [job for job in self._live.values() if job.seen.start_s < now_s]
        logs = [math.log(2.0 * max(1.0, now_s - job.seen.start_s)) for job in live]
        rows = [*self._rows, *(job.row for job in live)]
        submit_s = np.array([*self._submit_s, *(job.asked.submit_s for job in live)])
        order = np.argsort(submit_s, kind="stable")  # the same trees, in whatever order jobs ended
        table, targets = table_of(rows)[order], np.array([*self._logs, *logs])[order]
        return table, targets, np.maximum(0.0, now_s - submit_s[order])

    @property
    def learnt(self) -> int:
        """Number of ended jobs that it keeps."""
        return len(self._logs)

    def basis(self, row: Mapping[str, object]) -> str:
        """Return a sentence on where a prediction for this row comes from."""
        asked = asked_of(row)
        values = self._table([asked])
        if math.isnan(values[0, BASE]):
            return "nothing has ended yet: an hour or half the limit, with a wide band"
        if not self.trees.models:
            return f"the latest like jobs ({len(self._logs)} ended in all, too few for trees)"
        guess = guesses_of(values, self.trees)[0]
        share = self.calibrator.choice.share(guess, owners_of(asked))
        return f"trees ({share:.0%}) and the latest like jobs ({1 - share:.0%})"

    # Files -------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the trees (LightGBM's text) and a card (JSON). The history is in the journal."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, model in zip(FILES, self.trees.models, strict=False):
            model.save_model(str(folder / name))
        card = {
            "what": "quantiles of log run time above the base of docs/concept/run-times.md",
            "version": VERSION,
            "levels": LEVELS,
            "features": NAMES,
            "settings": asdict(self.trees.settings),
            "jobs": len(self._logs),
            "files": FILES[: len(self.trees.models)],
            "band": asdict(self.calibrator.band),
            "choice": self.calibrator.choice.as_list(),
        }
        (folder / CARD).write_text(json.dumps(card, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> RunTimes:
        """Read what `save` wrote; its history is empty until events arrive.

        Raises:
            BadInput: there is no such model, or it has another version.
        """
        card = _card(folder)
        estimator = cls(TreeSettings(**card["settings"]))
        import lightgbm

        estimator.trees.models = [
            lightgbm.Booster(model_file=str(folder / f)) for f in card["files"]
        ]
        estimator.calibrator.band = EdgeOffsets(**card["band"])
        estimator.calibrator.choice = PointChoice.from_list(card["choice"])
        return estimator

    # Inside ------------------------------------------------------------------------

    def _apply(self, job: Hashable, when_s: float, step: Step, run: Run) -> None:
        if step is Step.SUBMIT:
            self._submitted(job, run.asked)
        elif step is Step.START:
            self.started(job, when_s)
        else:
            self.ended(job, run.run_s, run.end_s)

    def _submitted(self, job: Hashable, asked: Asked) -> Floats:
        row = self._table([asked])
        self.calibrator.advance(asked.submit_s)
        self._live[job] = _Live(asked, self._history.submitted(asked), row[0])
        guess = guesses_of(row, self.trees)[0]
        return _within(np.exp(self.calibrator.expect(job, guess, asked)), asked)

    def _table(self, jobs: Sequence[Asked]) -> Floats:
        return table_of([features(asked, self._history) for asked in jobs])

    def _keep(self, row: Floats, log_s: float, submit_s: float) -> None:
        self._rows.append(row.astype(np.float32))
        self._logs.append(log_s)
        self._submit_s.append(submit_s)
        if len(self._rows) >= 2 * MOST_ROWS:
            for kept in (self._rows, self._logs, self._submit_s):
                del kept[:-MOST_ROWS]


def table_of(rows: Sequence[Sequence[float] | Floats]) -> Floats:
    """Return rows of features in single precision, the same for training and prediction."""
    table = np.array(rows, np.float32).reshape(len(rows), len(NAMES))
    return table.astype(np.float64)


def guesses_of(table: Floats, trees: Trees) -> list[RunTimeGuess]:
    """Return the guesses for rows of features by the trees, or by the history if there are none."""
    base = table[:, BASE]
    spread = _spread(table)
    plain = base[:, None] + spread[:, None] * np.array(NORMAL)
    quantiles = trees.predict(table) if trees.models else plain
    quantiles = np.where(np.isnan(quantiles), plain, quantiles)
    cold = math.log(COLD_S) + COLD_SPREAD * np.array(NORMAL)
    limits = table[:, NAMES.index("limit")]
    guesses = []
    for row, recent, limit in zip(quantiles, table[:, RECENT], limits, strict=True):
        if np.isnan(row[MIDDLE]):
            middle = limit - math.log(2.0) if limit == limit else math.log(COLD_S)
            row = cold - math.log(COLD_S) + middle
        logs = tuple(row.tolist())
        guesses.append(RunTimeGuess(logs[MIDDLE], float(recent), logs, bool(trees.models)))
    return guesses


def _spread(table: Floats) -> Floats:
    """Return the spread of like jobs, or a wide default."""
    nearest = np.full(len(table), np.nan)
    for index, name in enumerate(NAMES):
        if name.endswith(".spread"):  # from wide to narrow groups: the narrowest known one stays
            nearest = np.where(np.isnan(table[:, index]), nearest, table[:, index])
    return np.where(np.isnan(nearest), COLD_SPREAD, np.maximum(nearest, 0.5))


def _within(seconds: Floats, asked: Asked) -> Floats:
    """Cap quantiles at the job's limit."""
    return np.minimum(seconds, asked.limit_s) if asked.limit_s else seconds


def _card(folder: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text("utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{folder} has no run-time model", "fit one and save it there") from None
    if card.get("version") != VERSION or tuple(card["features"]) != NAMES:
        raise BadInput(f"the run-time model in {folder} is of another version", "fit it again")
    return card
