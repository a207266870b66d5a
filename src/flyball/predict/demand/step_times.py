"""Time of a training step of a measured application on a gang: compute, then exchange.

For each application and machine it is a sum of terms with non-negative coefficients: a constant, a
term per sample on a device, and the exchange of gradients inside a node or between nodes, each with
a term that grows with the gang. The coefficients are learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.demand.formulas import VALUE, Row, codes, number, shared_rows, values_of

LEAST_ROWS = 8
"""Least number of measurements of an application on a machine for coefficients of its own."""
SHORTEST_S = 1e-6


class StepTimes:
    """Estimates step times.

    Rows have `application`, `cluster`, `placement` (a digit per node: its devices), `local_bsz`.
    """

    names: tuple[str, ...] = (
        *("application", "cluster", "devices", "nodes", "most", "least"),
        *("log_local_batch", "log_batch", "log_formula", "mean_on_node"),
    )
    coded: tuple[int, ...] = (0, 1)

    def __init__(self) -> None:
        self._terms: dict[str, list[float]] = {}
        self._applications: list[str] = []
        self._clusters: list[str] = []

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Fit the coefficients by least relative error."""
        self._applications = values_of(rows, "application")
        self._clusters = values_of(rows, "cluster")
        terms, groups = _terms(rows), _groups(rows)
        self._terms = {"": _fitted(terms, logs)}
        for key in {key for pair in groups for key in pair}:
            of_group = np.array([key in pair for pair in groups])
            if np.count_nonzero(of_group) >= LEAST_ROWS:
                self._terms[key] = _fitted(terms[of_group], logs[of_group])

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Return the logarithm of the seconds of a step."""
        seconds = []
        for term, pair in zip(_terms(rows), _groups(rows), strict=True):
            key = next((name for name in pair if name in self._terms), "")
            seconds.append(float(term @ np.array(self._terms[key])))
        return np.log(np.maximum(seconds, SHORTEST_S))

    def features(self, rows: Sequence[Row]) -> Floats:
        """Return the features, named by `names`, of each row."""
        gangs = [_gang(row) for row in rows]
        devices = np.array([sum(gang) for gang in gangs], np.float64)
        nodes = np.array([len(gang) for gang in gangs], np.float64)
        local = np.array([number(row, "local_bsz") for row in rows])
        return np.column_stack(
            [
                codes(rows, "application", self._applications),
                codes(rows, "cluster", self._clusters),
                devices,
                nodes,
                [max(gang) for gang in gangs],
                [min(gang) for gang in gangs],
                np.log(local),
                np.log(local * devices),
                self.logs(rows),
                devices / nodes,
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the coefficients, for the card."""
        return {
            "terms": self._terms,
            "applications": self._applications,
            "clusters": self._clusters,
        }

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `as_dict` returned."""
        self._terms = dict(values["terms"])
        self._applications, self._clusters = values["applications"], values["clusters"]


def _gang(row: Row) -> list[int]:
    digits = str(row.get("placement"))
    if not digits.isdigit() or "0" in digits:
        raise BadInput(f"placement is {digits!r}", "write a digit above 0 for each node, as in 44")
    return [int(digit) for digit in digits]


def _groups(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the group of the application on its machine, and on any machine."""
    return [
        (f"{row.get('application')} on {row.get('cluster')}", str(row.get("application")))
        for row in rows
    ]


def _terms(rows: Sequence[Row]) -> Floats:
    terms = []
    for row in rows:
        gang = _gang(row)
        devices, nodes = sum(gang), len(gang)
        inside, between = devices > 1 and nodes == 1, nodes > 1
        exchange = [inside, inside * (devices - 2), between, between * (devices - 2), nodes - 1]
        terms.append([1.0, number(row, "local_bsz"), *exchange])
    return np.array(terms, np.float64)


def _fitted(terms: Floats, logs: Floats) -> list[float]:
    from scipy.optimize import nnls

    scaled = terms / np.exp(logs)[:, None]
    coefficients: list[float] = nnls(scaled, np.ones(len(logs)))[0].tolist()
    return coefficients


def table() -> list[Row]:
    """Return Pollux's and Sia's measured steps; `value` is in seconds."""
    rows = shared_rows("sia_pollux", "placements.csv.gz")
    return [{**row, VALUE: float(row["step_time_s"])} for row in rows]
