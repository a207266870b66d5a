"""Device memory of a training job above the context that every job of the framework has.

It counts weights, gradients and two moments of the optimiser for each parameter, and activations
of a batch with their gradients; two factors are learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.predict.demand.formulas import VALUE, Row, codes, number, shared_rows, values_of

BYTES = 4.0
MIB = 2.0**20
GRANULE_MIB = 2.0
"""Unit in which the allocator takes memory from the device, and so the measuring resolution."""


class Memory:
    """Estimates memory.

    Rows have `total_parameters`, `total_activations` (of a sample), `batch_size`, `depth`.
    """

    names: tuple[str, ...] = (
        *("log_formula", "log_parameters", "log_activations", "log_batch", "depth", "arch"),
        *("log_batch_activations", "log_width", "log_parameters_over_batch", "parameters_mib"),
    )
    coded: tuple[int, ...] = (5,)

    def __init__(self) -> None:
        self._terms = [4.0, 2.0, GRANULE_MIB]
        self._shapes: list[str] = []

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Fit the copies of each parameter and of each activation, and a constant."""
        from scipy.optimize import nnls

        self._shapes = values_of(rows, "arch")
        scaled = _terms(rows) / np.exp(logs)[:, None]
        self._terms = nnls(scaled, np.ones(len(logs)))[0].tolist()

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Return the logarithm of the MiB above the context."""
        mib = np.maximum(_terms(rows) @ np.array(self._terms), 0.5 * GRANULE_MIB)
        return np.asarray(np.log(mib), np.float64)

    def features(self, rows: Sequence[Row]) -> Floats:
        """Return the features, named by `names`, of each row."""
        parameters = np.array([number(row, "total_parameters") for row in rows])
        activations = np.array([number(row, "total_activations") for row in rows])
        batch = np.array([number(row, "batch_size") for row in rows])
        depth = np.array([number(row, "depth") for row in rows])
        return np.column_stack(
            [
                self.logs(rows),
                np.log(parameters),
                np.log(activations),
                np.log(batch),
                depth,
                codes(rows, "arch", self._shapes),
                np.log(activations * batch),
                np.log(activations / depth),
                np.log(parameters / (activations * batch)),
                parameters * BYTES / MIB,
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the factors, for the card."""
        return {"terms": self._terms, "shapes": self._shapes}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `as_dict` returned."""
        self._terms, self._shapes = values["terms"], values["shapes"]


def _terms(rows: Sequence[Row]) -> Floats:
    """Return the MiB of parameters, of a batch's activations, and of one unit."""
    terms = []
    for row in rows:
        batch_mib = number(row, "total_activations") * number(row, "batch_size") * BYTES / MIB
        terms.append([number(row, "total_parameters") * BYTES / MIB, batch_mib, 1.0])
    return np.array(terms)


def table() -> list[Row]:
    """Return GPUMemNet's random MLPs; `value` is in MiB above the context.

    A few rows (15 of 3,000) were read before the first step, while there was only the context:
    they are the lowest, six MiB and more below the rest, and among them is a net whose parameters
    alone take more. They give the size of the context and are left out otherwise.
    """
    rows = list(shared_rows("dnn_perf", "gpumemnet_mlp_memory.csv.gz"))
    taken = [float(row["max_gpu_memory_mib"]) for row in rows]
    context = min(taken)
    return [
        {**row, VALUE: mib - context}
        for row, mib in zip(rows, taken, strict=True)
        if mib > context + 2 * GRANULE_MIB
    ]
