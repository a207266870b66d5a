"""Least absolute deviations on the features of the trees: strong where history is short.

A linear model can extrapolate beyond the values seen, which trees cannot, and needs few rows.
There is one fit per series and lead, of the change from the last value; of a few ridge penalties
the one that does best on the last part of the history is used. The absolute error is minimised by
re-weighting (a row with a large residual counts less), so bursts have little influence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.predict.load.contract import Outlook, certain, neighbours, never_negative
from flyball.predict.load.features import FAST_S, Prepared, features
from flyball.predict.load.trees import scale_of
from flyball.predict.series import Series

PENALTIES = (0.003, 0.03, 0.3, 3.0)
"""Candidate ridge penalties per row; columns are standardised."""
PASSES = 6
TAIL = 0.25
LEAST_ROWS = 60
MOST_ROWS = 6_000
BLOCK = 128
"""Rows of one product of matrices in a fit."""
FURTHEST = 3.0
"""Standard deviations by which a forecast may leave the range of the values seen."""


class LinearModel(NamedTuple):
    """Holds the weights of standardised columns, and the range of forecasts."""

    centre: Floats
    spread: Floats
    weights: Floats
    shift: float
    low: float
    high: float


class Linear:
    """Holds one linear model per series and lead."""

    def __init__(self) -> None:
        self.scales: dict[str, float] = {}
        self.lines: dict[str, dict[int, LinearModel]] = {}
        self._prepared: Prepared | None = None  # of the last series, for its other leads

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        self.scales = {series.name: scale_of(series.values) for series in panel}
        self.lines, self._prepared = {}, None
        for series in panel:
            lines = {lead: self._line(series, lead) for lead in leads}
            self.lines[series.name] = {lead: line for lead, line in lines.items() if line}

    def _line(self, series: Series, lead: int) -> LinearModel | None:
        stride = max(1, -(-len(series) // MOST_ROWS))
        origins = np.arange(min(series.day, len(series) // 4), len(series) - lead, stride)
        origins = origins[np.isfinite(series.values[origins + lead])] if len(origins) else origins
        if len(origins) < LEAST_ROWS:
            return None
        scale = self.scales[series.name]
        rows = features(series, origins, lead, scale, anchored=True)
        labels = (series.values[origins + lead] - series.filled[origins]) / scale
        cut = int(len(rows) * (1 - TAIL))
        # The last labels of the first part would overlap the tail: leave a gap of one lead.
        early = slice(0, max(LEAST_ROWS // 2, cut - lead // stride))
        misses = []
        for penalty in PENALTIES:
            line = _deviations(rows[early], labels[early], penalty)
            misses.append(float(np.mean(np.abs(_value(line, rows[cut:]) - labels[cut:]))))
        values = series.values[np.isfinite(series.values)] / scale
        room = FURTHEST * float(values.std())
        best = _deviations(rows, labels, PENALTIES[int(np.argmin(misses))])
        return best._replace(low=float(values.min()) - room, high=float(values.max()) + room)

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        """Return forecasts; of an unknown series the last value."""
        lines = self.lines.get(series.name)
        now = series.filled[origins]
        if not lines or not len(origins):
            return certain(now)
        scale = self.scales[series.name]
        if self._prepared is None or self._prepared.series is not series:
            fast = series.step_s < FAST_S
            self._prepared = None if fast else Prepared(series, scale)
        rows = features(series, origins, lead, scale, True, self._prepared)
        points = np.zeros(len(origins))
        for near, weight in neighbours(lines, lead):
            line = lines[near]
            value = np.clip(now / scale + _value(line, rows), line.low, line.high)
            points = points + weight * scale * value
        if never_negative(series, origins):
            points = np.maximum(points, 0.0)
        return certain(points)

    def save(self) -> Mapping[str, Any]:
        return {
            "scales": self.scales,
            "lines": {
                name: {
                    str(lead): [
                        value.tolist() if isinstance(value, np.ndarray) else value for value in line
                    ]
                    for lead, line in lines.items()
                }
                for name, lines in self.lines.items()
            },
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        forecaster = cls()
        forecaster.scales = dict(saved["scales"])
        forecaster.lines = {
            name: {
                int(lead): LinearModel(
                    np.array(line[0]), np.array(line[1]), np.array(line[2]), *line[3:]
                )
                for lead, line in lines.items()
            }
            for name, lines in saved["lines"].items()
        }
        return forecaster


def _deviations(rows: Floats, labels: Floats, penalty: float) -> LinearModel:
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    table = np.column_stack([(rows - centre) / spread, np.ones(len(rows))])
    ridge = np.eye(table.shape[1]) * penalty * len(rows)
    ridge[-1, -1] = 1e-9
    least = 1e-3 * float(np.abs(labels).mean()) + 1e-12
    weights = np.ones(len(rows))
    answer: Floats = np.zeros(table.shape[1])
    for _ in range(PASSES):
        gram, right = _normal(table, weights, labels)
        answer = np.asarray(np.linalg.solve(gram + ridge, right), float)
        size = np.maximum(np.abs(labels - np.einsum("ij,j->i", table, answer)), least)
        weights = size.mean() / np.maximum(size, 0.1 * size.mean())
    return LinearModel(centre, spread, answer[:-1], float(answer[-1]), -np.inf, np.inf)


def _normal(table: Floats, weights: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """Return the weighted normal equations.

    They are summed over blocks too small for BLAS to use threads: those would make a fit many
    times slower while other processes are busy, and its last bits a matter of their number.
    """
    gram, right = np.zeros((table.shape[1], table.shape[1])), np.zeros(table.shape[1])
    for begin in range(0, len(table), BLOCK):
        part = table[begin : begin + BLOCK]
        heavy = part * weights[begin : begin + BLOCK, None]
        gram += heavy.T @ part
        right += heavy.T @ labels[begin : begin + BLOCK]
    return gram, right


def _value(line: LinearModel, rows: Floats) -> Floats:
    scaled = (rows - line.centre) / line.spread
    value: Floats = np.einsum("ij,j->i", scaled, line.weights) + line.shift
    return value
