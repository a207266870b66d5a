"""One training step of a measured application on a gang: compute, then exchange.

For each application and machine a sum of terms with coefficients not below 0: a part for every
step, one for each sample on a device, and the exchange of gradients inside a node or between
nodes, each with a part that grows with the gang. The coefficients are learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.demand.formulas import VALUE, Row, codes, number, shared_rows, values_of

LEAST_ROWS = 8
"""Measurements of an application on a machine below which it shares those of all machines."""
SHORTEST_S = 1e-6


class StepTimes:
    """Rows have `application`, `cluster`, `placement` (digits = devices a node), `local_bsz`."""

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
        """Coefficients, by least relative error."""
        self._applications = values_of(rows, "application")
        self._clusters = values_of(rows, "cluster")
        terms, groups = _terms(rows), _groups(rows)
        self._terms = {"": _fitted(terms, logs)}
        for key in {key for pair in groups for key in pair}:
            own = np.array([key in pair for pair in groups])
            if np.count_nonzero(own) >= LEAST_ROWS:
                self._terms[key] = _fitted(terms[own], logs[own])

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Logarithm of the seconds of a step."""
        found = []
        for term, pair in zip(_terms(rows), _groups(rows), strict=True):
            key = next((each for each in pair if each in self._terms), "")
            found.append(float(term @ np.array(self._terms[key])))
        return np.log(np.maximum(found, SHORTEST_S))

    def features(self, rows: Sequence[Row]) -> Floats:
        """One row of `names` each."""
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
        """Coefficients, for the card."""
        return {
            "terms": self._terms,
            "applications": self._applications,
            "clusters": self._clusters,
        }

    def set(self, values: Mapping[str, Any]) -> None:
        """What `as_dict` gave."""
        self._terms = dict(values["terms"])
        self._applications, self._clusters = values["applications"], values["clusters"]


def _gang(row: Row) -> list[int]:
    digits = str(row.get("placement"))
    if not digits.isdigit() or "0" in digits:
        raise BadInput(f"placement is {digits!r}", "write a digit above 0 for each node, as in 44")
    return [int(each) for each in digits]


def _groups(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The application on its machine, and on any."""
    return [
        (f"{row.get('application')} on {row.get('cluster')}", str(row.get("application")))
        for row in rows
    ]


def _terms(rows: Sequence[Row]) -> Floats:
    made = []
    for row in rows:
        gang = _gang(row)
        devices, nodes = sum(gang), len(gang)
        inside, between = devices > 1 and nodes == 1, nodes > 1
        exchange = [inside, inside * (devices - 2), between, between * (devices - 2), nodes - 1]
        made.append([1.0, number(row, "local_bsz"), *exchange])
    return np.array(made, np.float64)


def _fitted(terms: Floats, logs: Floats) -> list[float]:
    from scipy.optimize import nnls

    scaled = terms / np.exp(logs)[:, None]
    found: list[float] = nnls(scaled, np.ones(len(logs)))[0].tolist()
    return found


def table() -> list[Row]:
    """Pollux's and Sia's measured steps; `value` is in seconds."""
    rows = shared_rows("sia_pollux", "placements.csv.gz")
    return [{**row, VALUE: float(row["step_time_s"])} for row in rows]
