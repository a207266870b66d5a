"""The run-time estimator: history, trees and calibration behind the `Estimator` contract.

`fit` learns from rows of the past. After that it is told what happens (`submitted`, `started`,
`ended`) and learns with every end; `refit` grows new trees from all it has seen. `predict` may
be asked at any time and changes nothing.
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
from flyball.predict.runtime.calibrate import Band, Blend, Calibrator, Guess
from flyball.predict.runtime.features import BASE, NAMES, RECENT, features
from flyball.predict.runtime.history import History, Seen, Step, in_order
from flyball.predict.runtime.rows import Asked, Run, asked_of, runs_of
from flyball.predict.runtime.trees import LEVELS, MIDDLE, Trees, TreeSettings

MOST_ROWS = 100_000
"""Latest jobs that trees are grown from."""
COLD_S = 3600.0
"""The point when nothing at all is known and no limit is stated."""
COLD_SPREAD = 2.1
"""Standard deviation of log run times in Philly as a whole: the band when nothing is known."""
NORMAL = tuple(NormalDist().inv_cdf(level) for level in LEVELS)
"""Quantiles of the normal distribution at `LEVELS`."""
CARD, VERSION = "runtime.json", 1


@dataclass(slots=True)
class _Live:
    """A job that has come and not ended."""

    asked: Asked
    seen: Seen
    row: Floats


class RunTimes:
    """Quantiles (`LEVELS`) of run times in seconds."""

    def __init__(self, settings: TreeSettings | None = None) -> None:
        self._settings = settings or TreeSettings()
        self._forget()

    def _forget(self) -> None:
        """As if nothing had ever happened."""
        self.trees = Trees(self._settings)
        self.calibrator = Calibrator()
        self._history = History()
        self._live: dict[Hashable, _Live] = {}
        self._rows: list[Floats] = []
        self._logs: list[float] = []
        self._came_s: list[float] = []

    # The contract ------------------------------------------------------------------

    def fit(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Start afresh from rows of the past (see `rows`); those without an end are running.

        Raises:
            BadInput: a row that cannot be.
        """
        runs = runs_of(rows)
        self._forget()
        now_s = 0.0
        for when_s, step, at, run in in_order(runs):
            self._take(("fit", at), when_s, step, run)
            now_s = when_s
        self.refit(now_s)

    def predict(self, rows: Sequence[Mapping[str, object]]) -> Floats:
        """One row of quantiles (seconds) for each job, as if it were submitted now.

        Raises:
            BadInput: a row without `submit_s`.
        """
        found = [asked_of(row, at) for at, row in enumerate(rows)]
        table = self._table(found)
        guesses = self._guesses(table)
        made = [self.calibrator.quantiles(guess) for guess in guesses]
        return np.array([_within(np.exp(q), each) for q, each in zip(made, found, strict=True)])

    # What happens ------------------------------------------------------------------

    def submitted(self, job: Hashable, row: Mapping[str, object]) -> Floats:
        """A job has come; its quantiles (seconds), from which will be learnt when it ends."""
        return self._submitted(job, asked_of(row))

    def came_with(self, other: Hashable, job: Hashable, submit_s: float) -> Floats:
        """One more of a job that has just come: tasks of an array need not be looked at singly."""
        found = self._live[other]
        asked = replace(found.asked, submit_s=submit_s)
        self._live[job] = _Live(asked, self._history.submitted(asked), found.row)
        guess = self._guesses(found.row[None])[0]
        return _within(np.exp(self.calibrator.expect(job, guess)), asked)

    def like(self, row: Mapping[str, object]) -> int:
        """Count the latest ended jobs of the same user and name (else user, else tenant)."""
        groups = self._history.groups(asked_of(row))
        nearest = groups["name"] or groups["user"] or groups["tenant"]
        return len(nearest.finished) if nearest is not None else 0

    def started(self, job: Hashable, start_s: float) -> None:
        """It runs."""
        if job in self._live:
            self._live[job].seen.start_s = start_s
            self.calibrator.started(job, start_s)

    def ended(self, job: Hashable, run_s: float, end_s: float) -> None:
        """It has ended by itself after `run_s`; jobs that are not known are ignored."""
        found = self._live.pop(job, None)
        if found is None:
            return
        run = Run(found.asked, end_s - run_s, end_s, run_s)
        self._history.ended(run, found.seen)
        self.calibrator.advance(end_s)
        self.calibrator.ended(job, run.log_s)
        self._keep(found.row, run.log_s, found.asked.submit_s)

    def cancelled(self, job: Hashable) -> None:
        """It was stopped by somebody: how long it would have run is not known."""
        if job in self._live:
            self._history.withdrawn(self._live.pop(job).asked)
            self.calibrator.forget(job)

    def refit(self, now_s: float) -> None:
        """Grow new trees from the latest jobs, here and now.

        It takes up to a minute: a process that must not wait hands `training` to a worker, lets
        `Trees.fit` run there, and sets `trees` when it is back.
        """
        self.trees.fit(*self.training(now_s))

    def training(self, now_s: float) -> tuple[Floats, Floats, Floats]:
        """What trees are grown from: features, logarithms of run times, ages in seconds.

        A job that has run for some time and not ended counts as running as long again: to leave
        the long ones out would teach that all are short.
        """
        live = [each for each in self._live.values() if each.seen.start_s < now_s]
        logs = [math.log(2.0 * max(1.0, now_s - each.seen.start_s)) for each in live]
        rows = [*self._rows, *(each.row for each in live)]
        came_s = np.array([*self._came_s, *(each.asked.submit_s for each in live)])
        order = np.argsort(came_s, kind="stable")  # the same trees, whoever ended first
        table, known = table_of(rows)[order], np.array([*self._logs, *logs])[order]
        return table, known, np.maximum(0.0, now_s - came_s[order])

    @property
    def learnt(self) -> int:
        """Ended jobs that it has seen, of those it keeps."""
        return len(self._logs)

    def basis(self, row: Mapping[str, object]) -> str:
        """In words, where a prediction for this row comes from."""
        values = self._table([asked_of(row)])[0]
        if math.isnan(values[BASE]):
            return "nothing has ended yet: an hour or half the limit, with a wide band"
        if not self.trees.models:
            return f"the latest like jobs ({len(self._logs)} ended in all, too few for trees)"
        share = self.calibrator.blend.share
        return f"trees ({share:.0%}) and the latest like jobs ({1 - share:.0%})"

    # Files -------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the trees (LightGBM's text) and a card (JSON). History is the journal's."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [f"runtime_q{round(100 * level):02d}.txt" for level in LEVELS]
        for name, model in zip(files, self.trees.models, strict=False):
            model.save_model(str(folder / name))
        card = {
            "what": "quantiles of log run time above the base of docs/concept/run-times.md",
            "version": VERSION,
            "levels": LEVELS,
            "features": NAMES,
            "settings": asdict(self.trees.settings),
            "jobs": len(self._logs),
            "files": files[: len(self.trees.models)],
            "band": asdict(self.calibrator.band),
            "blend": asdict(self.calibrator.blend),
        }
        (folder / CARD).write_text(json.dumps(card, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> RunTimes:
        """What `save` wrote; its history is empty until it is told what happened.

        Raises:
            BadInput: no such model, or one of another version.
        """
        card = _card(folder)
        made = cls(TreeSettings(**card["settings"]))
        import lightgbm

        made.trees.models = [lightgbm.Booster(model_file=str(folder / f)) for f in card["files"]]
        made.calibrator.band = Band(**card["band"])
        made.calibrator.blend = Blend(**card["blend"])
        return made

    # Inside ------------------------------------------------------------------------

    def _take(self, job: Hashable, when_s: float, step: Step, run: Run) -> None:
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
        guess = self._guesses(row)[0]
        return _within(np.exp(self.calibrator.expect(job, guess)), asked)

    def _table(self, found: Sequence[Asked]) -> Floats:
        return table_of([features(asked, self._history) for asked in found])

    def _guesses(self, table: Floats) -> list[Guess]:
        return guesses_of(table, self.trees)

    def _keep(self, row: Floats, log_s: float, came_s: float) -> None:
        self._rows.append(row.astype(np.float32))
        self._logs.append(log_s)
        self._came_s.append(came_s)
        if len(self._rows) >= 2 * MOST_ROWS:
            for kept in (self._rows, self._logs, self._came_s):
                del kept[:-MOST_ROWS]


def table_of(rows: Sequence[Sequence[float] | Floats]) -> Floats:
    """Rows of features as they are kept, in single precision: what was learnt is what is asked."""
    table = np.array(rows, np.float32).reshape(len(rows), len(NAMES))
    return table.astype(np.float64)


def guesses_of(table: Floats, trees: Trees) -> list[Guess]:
    """What trees, or without them the history alone, say of rows of features."""
    base = table[:, BASE]
    spread = _spread(table)
    plain = base[:, None] + spread[:, None] * np.array(NORMAL)
    made = trees.predict(table) if trees.models else plain
    made = np.where(np.isnan(made), plain, made)
    cold = math.log(COLD_S) + COLD_SPREAD * np.array(NORMAL)
    limit = table[:, NAMES.index("limit")]
    guesses = []
    for row, recent, own_limit in zip(made, table[:, RECENT], limit, strict=True):
        if np.isnan(row[MIDDLE]):
            middle = own_limit - math.log(2.0) if own_limit == own_limit else math.log(COLD_S)
            row = cold - math.log(COLD_S) + middle
        guesses.append(Guess(float(row[MIDDLE]), float(recent), tuple(row.tolist())))
    return guesses


def _spread(table: Floats) -> Floats:
    """Of like jobs, as far as is known; wide if it is not."""
    nearest = np.full(len(table), np.nan)
    for at, name in enumerate(NAMES):
        if name.endswith(".spread"):  # widest first, so that the nearest one stays
            nearest = np.where(np.isnan(table[:, at]), nearest, table[:, at])
    return np.where(np.isnan(nearest), COLD_SPREAD, np.maximum(nearest, 0.5))


def _within(seconds: Floats, asked: Asked) -> Floats:
    """No job outlives its limit."""
    return np.minimum(seconds, asked.limit_s) if asked.limit_s else seconds


def _card(folder: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text("utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{folder} has no run-time model", "fit one and save it there") from None
    if card.get("version") != VERSION or tuple(card["features"]) != NAMES:
        raise BadInput(f"the run-time model in {folder} is of another version", "fit it anew")
    return card
