"""Reads ServeGen: rates, burstiness and lengths of three production services over two weeks."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.core.units import S_PER_WEEK
from flyball.physics.serving import Lengths, lengths_from, scaled

STEP_S = 600.0


class ServiceCase(NamedTuple):
    """Describes a recorded service and what is assumed about it.

    Attributes:
        replica: model whose figures stand in for it; the real sizes are not published.
        clump: requests simulated as one, which sets the least burstiness of arrivals (the median
            dispersion recorded is 8, 54 and 11 for m-large, m-mid and m-small).
        bar: highest change of device-hours, in percent.
    """

    replica: str
    clump: int
    bar: float


CASES = {
    "m-large": ServiceCase("llama-70b", 8, -40.0),
    "m-mid": ServiceCase("qwen-32b", 64, -15.0),
    "m-small": ServiceCase("llama-8b", 32, -40.0),
}


class ServiceRecord(NamedTuple):
    """Holds the record of one service, in steps of ten minutes over two weeks."""

    rates_rps: Floats
    dispersion: Floats
    lengths: Lengths


def _rows(name: str) -> Iterator[dict[str, str]]:
    path = shared_data("servegen_2025", name)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@cache
def recorded() -> dict[str, ServiceRecord]:
    """Return the records of the three services.

    Raises:
        DataAbsent: the data is not on this machine.
    """
    steps = round(2 * S_PER_WEEK / STEP_S)
    rates = {name: np.zeros(steps) for name in CASES}
    spread = {name: np.zeros((2, steps)) for name in CASES}
    quantiles: dict[tuple[str, str], dict[float, float]] = {}
    means: dict[tuple[str, str], float] = {}
    for row in _rows("total_rate_10min.csv.gz"):
        if row["model"] in CASES:
            rates[row["model"]][int(float(row["t_s"]) / STEP_S)] = float(row["total_rate_rps"])
    for row in _rows("client_rate_10min.csv.gz"):
        if row["model"] in CASES:
            rate, step = float(row["rate_rps"]), int(float(row["t_s"]) / STEP_S)
            # Clients are independent, so their variances add up.
            spread[row["model"]][:, step] += rate, rate * float(row["iat_cv"] or 1.0) ** 2
    for row in _rows("token_length_quantiles.csv.gz"):
        key = row["model"], row["field"]
        if row["quantile"] == "mean":
            means[key] = float(row["value"])
        else:
            quantiles.setdefault(key, {})[float(row["quantile"])] = float(row["value"])
    services = {}
    for name, (total, varied) in spread.items():
        keys = (name, "input_tokens"), (name, "output_tokens")
        lengths = scaled(
            lengths_from(*(quantiles[key] for key in keys)), *(means[key] for key in keys)
        )
        dispersion = np.where(total > 0, varied / np.maximum(total, 1e-9), 1.0)
        services[name] = ServiceRecord(rates[name], dispersion, lengths)
    return services
