"""The targets of load forecasts: recorded series, their test slices and their bars.

Test slices: Venus August; Earth 22-31 May; ServeGen days 10-14; carbon July-December 2021;
utilisation the last 30 % of the recording. Carbon is forecast at each hour for every third hour of
the next 24.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.bench.figure import Bar, Figure
from flyball.core.shared_data import shared_data
from flyball.predict.backtest import Slice
from flyball.predict.load.record import shipped
from flyball.predict.load.registry import NAIVE, NETS
from flyball.predict.load.table import read_series
from flyball.predict.series import Series

Row = dict[str, Any]
Note = Callable[[str], None]
VENUS_JOBS = ("submit_job_all", "end_gpu_job", "submit_gpu_num")
VENUS_GPUS = ("submit_gpu_num", "start_gpu_num", "end_gpu_num", "end_gpu_job")
EARTH = (
    *("total_gpu_num", "running_gpu_num", "pending_gpu_num", "running_gpujob_num"),
    *("pending_gpujob_num", "running_gpu_num_noless_8", "pending_gpu_num_noless_8"),
)
AHEAD_S = (600.0, 3_600.0, 21_600.0, 86_400.0)
HOURS_S = tuple(10_800.0 * step for step in range(1, 9))
FAST_S = (0.05, 0.2, 1.0)
NONE = math.nan
PINBALL = "pinball / last value's"
MAE = "MAE"
VENUS = (("helios", "venus_throughput_10min.csv.gz"),)
EARTH_FILE = (("helios", "earth_vc_5min_2020-05.csv.gz"),)
SERVEGEN = tuple(("servegen_2025", f"{kind}_rate_10min.csv.gz") for kind in ("total", "client"))
CARBON = (("carbon_intensity", "carboncast_2020_2021.csv.gz"),)
TREES = (*NAIVE, "smoothing", "linear", "trees", "tree-changes")


@dataclass(frozen=True)
class Target:
    """One target of the table.

    Attributes:
        panel: reads the series.
        horizons_s: of the forecasts.
        where: returns the slices of a series; see `days` and `parts`.
        bars: metric -> the most (for accuracy the least) at each horizon; NaN = no bar.
        each: rMAE is the mean over the series, not that of all errors together.
        chosen: names of forecasters to choose from; None = all.
        overlap: also show what overlapping rolling means would seem to reach.
        path: the bar of rMAE over all horizons together; None = not measured.
        data: files of the shared data that `panel` reads.
    """

    panel: Callable[[], list[Series]]
    horizons_s: tuple[float, ...]
    where: Callable[[Series], Slice]
    bars: Mapping[str, tuple[float, ...]]
    each: bool = False
    chosen: tuple[str, ...] | None = None
    path: float | None = None
    overlap: bool = False
    data: tuple[tuple[str, ...], ...] = ()

    @property
    def modules(self) -> tuple[str, ...]:
        """Python modules that the chosen forecasters need."""
        return ("torch", "safetensors") if set(self.chosen or ()) & set(NETS) else ()


def days(test: int, warm: int, refits: tuple[int, ...] = ()) -> Callable[[Series], Slice]:
    """Return slices: warm-up from day `warm`, test from day `test`, fitted again at `refits`."""
    return lambda series: Slice(
        warm * series.day, test * series.day, tuple(day * series.day for day in refits)
    )


def parts(test: float) -> Callable[[Series], Slice]:
    """Return slices: the last part is the test, and as much before it the warm-up."""
    return lambda series: Slice(
        int((1.0 - 2.0 * test) * len(series)), int((1.0 - test) * len(series))
    )


# The series --------------------------------------------------------------------


def venus_jobs() -> list[Series]:
    """Read the GPU jobs submitted in ten minutes."""
    path = shared_data(*VENUS[0])
    return [read_series(path, "submit_gpu_job", also=VENUS_JOBS)]


def venus_running() -> list[Series]:
    """Return the GPUs in use: those that started less those that ended, plus what ran before.

    How many ran before the record began is unknown; the least that keeps the sum from falling
    below zero is taken. It affects accuracy, which divides by the level, and no other metric.
    """
    path = shared_data(*VENUS[0])
    flow = read_series(path, "start_gpu_num", also=VENUS_GPUS)
    running = np.cumsum(flow.values - flow.also["end_gpu_num"])
    name = "running_gpu_num"
    return [Series(name, flow.start_s, flow.step_s, running - running.min(), flow.also)]


def earth(column: str) -> list[Series]:
    """Read one series per tenant."""
    path = shared_data(*EARTH_FILE[0])
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        tenants = list(dict.fromkeys(row["vc"] for row in csv.DictReader(text)))
    others = tuple(name for name in EARTH if name != column)
    return [read_series(path, column, where={"vc": tenant}, also=others) for tenant in tenants]


def servegen() -> list[Series]:
    """Read requests a second of the three models with 14 days, and of each of their clients."""
    path = shared_data(*SERVEGEN[0])
    rates = {
        model: read_series(path, "total_rate_rps", where={"model": model}, also=("active_clients",))
        for model in ("m-large", "m-mid", "m-small")
    }
    parts: dict[str, dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    path = shared_data(*SERVEGEN[1])
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            total = rates.get(row["model"])
            if total is not None:
                at = round((float(row["t_s"]) - total.start_s) / total.step_s)
                clients = parts.setdefault(row["model"], {})
                clients.setdefault(row["client"], np.zeros(len(total)))[at] = row["rate_rps"]
    return [replace(total, parts=parts[model]) for model, total in rates.items()]


def utilisation(workload: str) -> list[Series]:
    """Read percent of a core every 50 ms, from the recording that ships with the package.

    A value is the average of the 50 ms before its time stamp, so that the next one has no overlap
    with the past.
    """
    return [read_series(shipped(), "use_percent", where={"workload": workload}, step_s=FAST_S[0])]


CARBON_REGIONS = (
    *("AUS_QLD", "BPAT", "CISO", "DE", "ERCO", "ES", "FPL", "ISNE", "NL", "NYISO"),
    *("PJM", "PL", "SE"),
)


def carbon() -> list[Series]:
    """Read hourly grams of CO2 per kWh of 13 regions."""
    path = shared_data(*CARBON[0])
    return [
        read_series(path, "carbon_gco2_per_kwh", where={"region": region})
        for region in CARBON_REGIONS
    ]


TARGETS = {
    "venus submitted jobs": Target(
        venus_jobs,
        AHEAD_S,
        days(122, 94, (108, 129, 136, 143)),
        {"rMAE": (0.88, 0.80, 0.76, 0.77)},
        data=VENUS,
    ),
    "venus running GPUs": Target(
        *(venus_running, AHEAD_S, days(122, 94, (108, 129, 136, 143))),
        {"accuracy %": (99.0, 97.8, 95.7, 94.5), "rMAE": (1.00, 0.98, 0.82, 0.95)},
        chosen=TREES,
        data=VENUS,
    ),
    "earth running GPUs": Target(
        *(lambda: earth("running_gpu_num"), AHEAD_S, days(21, 12, (17, 26))),
        {"rMAE": (1.02, 1.02, 1.0, 1.0)},
        chosen=TREES,
        data=EARTH_FILE,
    ),
    "earth pending GPUs": Target(
        *(lambda: earth("pending_gpu_num"), AHEAD_S, days(21, 12, (17, 26))),
        {"rMAE": (1.02, 1.02, NONE, NONE), PINBALL: (NONE, NONE, 0.85, 0.75)},
        chosen=TREES,
        data=EARTH_FILE,
    ),
    "servegen request rate": Target(
        *(servegen, AHEAD_S, days(9, 3, (4, 5, 6, 7, 8, 10, 11, 12, 13))),
        {"rMAE": (0.98, 0.95, 0.80, 0.90)},
        each=True,
        chosen=(*TREES, "parts", "same-time"),
        data=SERVEGEN,
    ),
    "carbon day ahead": Target(
        *(carbon, HOURS_S, days(547, 487, (608, 670))),
        {"rMAE": (*(NONE,) * 7, 0.82)},
        each=True,
        chosen=(*NAIVE, "smoothing", "linear"),
        path=0.82,
        data=CARBON,
    ),
    "utilisation, bursty": Target(
        *(lambda: utilisation("bursty"), FAST_S, parts(0.3), {MAE: (12.5, NONE, NONE)}),
        chosen=(*TREES, "lstm"),
        overlap=True,
    ),
    "utilisation, iterative": Target(
        *(lambda: utilisation("iterative"), FAST_S, parts(0.3), {MAE: (9.0, NONE, NONE)}),
        chosen=(*TREES, "lstm"),
        overlap=True,
    ),
}


def row_of(
    metric: str,
    value: float,
    bar: float | tuple[float, float] | None,
    baseline: str,
    count: int,
    most: bool = True,
) -> Row:
    """Return the row of a figure.

    Args:
        metric: name of the figure.
        value: measured.
        bar: a limit, or the range (least, most); None = no bar.
        baseline: what it is compared with, for people.
        count: values that it rests on.
        most: whether a single limit is the most it may be; else the least.
    """
    if isinstance(bar, tuple):
        limits = Bar(*bar)
    else:
        limits = Bar.at_most(bar) if most else Bar.at_least(bar)
    figure = Figure(metric, value, bar=limits)
    return {
        "metric": metric,
        "value": value,
        "bar": limits.as_json(),
        "baseline": baseline,
        "n": count,
        "holds": figure.holds,
    }
