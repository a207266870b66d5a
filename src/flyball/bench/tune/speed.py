"""Speed of the twin with every effect on, and cost of a tuning round, at 64 GPUs and 1,000 nodes.

Jobs are Sia's applications on three types of device: elastic, shareable, capped, on nodes that
sleep and fail. CPU time; the fastest of a few repeats counts, since other work on the machine can
only slow one down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from statistics import median
from typing import NamedTuple

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Backfill, Knobs
from flyball.core.protocols import Tuner
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.units import S_PER_HOUR, to_us
from flyball.core.workload import Workload
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.schedule.policies.preset import Preset
from flyball.tune.balance import Balance
from flyball.tune.elastic import Elastic
from flyball.tune.power import Power
from flyball.tune.share import Share
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

CLUSTER = Cluster(
    "thousand",
    (
        NodeGroup("t4", 400, "T4", 4),
        NodeGroup("rtx", 350, "RTX2080Ti", 8),
        NodeGroup("a100", 250, "A100-40GB", 8),
    ),
)
KNOBS = Knobs(backfill=Backfill.EASY, cap=0.9, sleep_s=300.0)
EFFECTS = Effects(
    checkpoint_s=10.0,
    checkpoint_every_s=1800.0,
    mtbf_h=2000.0,
    adaptive_batch=True,
    share_limit=2,
    speed_error=0.1,
)
MODELS = ("bert:48", "cifar10:512", "deepspeech2:40", "imagenet:400", "yolov3:16")
SMALL = Cluster(
    "sixty-four",
    (
        NodeGroup("t4", 6, "T4", 4),
        NodeGroup("rtx", 3, "RTX2080Ti", 8),
        NodeGroup("a100", 2, "A100-40GB", 8),
    ),
)
JOBS = 60_000
TUNERS: tuple[Tuner, ...] = (Elastic(), Share(), Balance(), Power())
ROUNDS = 15
REPEATS = 3
EVENTS_BAR = 100_000.0
ROUND_BAR_MS = 100.0
MARKET_ROUNDS = 40
EPOCH_S = S_PER_HOUR / 2
EPOCH_ROUND_S = 300.0
EPOCHS = 1000
EPOCHS_BAR = 300.0


class Size(NamedTuple):
    """A cluster on which the market's rounds are timed.

    Attributes:
        jobs: that keep it full.
        devices: that jobs ask for on average in the mean over time.
        bar_ms: longest median of a round.
    """

    cluster: Cluster
    jobs: int
    devices: float
    bar_ms: float


SIZES = {
    "64 GPUs": Size(SMALL, 6_000, 200.0, 0.3),
    "1,000 nodes": Size(CLUSTER, JOBS, 20_000.0, 10.0),
}


@cache
def workload(jobs: int = JOBS, in_use: float = 20_000.0) -> Workload:
    """Return jobs that keep the cluster full: about a fifth more than it can do.

    Args:
        jobs: their number.
        in_use: T4s that they would keep busy on average.
    """
    rng = np.random.default_rng(5)
    devices = rng.choice([1, 2, 4, 8, 16], jobs, p=[0.70, 0.10, 0.10, 0.08, 0.02])
    duration_s = np.minimum(rng.lognormal(8.0, 1.2, jobs), 100_000.0)
    elastic = rng.random(jobs) < 0.8
    span_s = float((devices * duration_s).sum()) / in_use
    return Workload.of(
        "thousand",
        np.sort(rng.uniform(0.0, span_s, jobs)),
        duration_s,
        devices,
        model=rng.integers(0, len(MODELS), jobs),
        models=MODELS,
        device=0,
        device_names=("T4",),
        most=np.where(elastic, -1, 0),
    )


def events_per_s(tuners: tuple[Tuner, ...] = (), jobs: int = JOBS) -> float:
    """Return the events per CPU-second of a complete run; tuners act in rounds of 60 s."""
    tuning = Tuning(tuners, Preset("easy", "", KNOBS), 60.0) if tuners else None
    twin = Twin(CLUSTER, workload(jobs), KNOBS, EFFECTS, tuning=tuning)
    began = time.process_time()
    twin.run()
    spent_s = time.process_time() - began
    clock = twin.state.clock[0]
    counted = ("arrivals", "starts", "ends", "preemptions", "failures", "repairs")
    return sum(int(clock[name]) for name in counted) / spent_s


def rounds_ms(count: int = ROUNDS) -> tuple[list[float], int]:
    """Return the CPU times of tuning rounds in the middle of a run, and the active jobs then."""
    tuning = Tuning(TUNERS, Preset("easy", "", KNOBS), 60.0)
    twin = Twin(CLUSTER, workload(), KNOBS, EFFECTS, tuning=tuning)
    middle_us = int(np.median(workload().submit_us)) // 4
    twin.tuning = None
    twin.run(middle_us)
    twin.tuning = tuning
    spent, active = [], 0
    for number in range(count):
        began = time.process_time()
        tuning.plan(twin.visible())
        spent.append(1e3 * (time.process_time() - began))
        clock = twin.state.clock[0]
        active = max(active, int(clock.pending + clock.running))
        twin.run(middle_us + (number + 1) * tuning.every_us)
    return spent, active


# The market ----------------------------------------------------------------------------------


def market_rounds_ms(size: Size, count: int = MARKET_ROUNDS) -> tuple[list[float], int]:
    """Return the CPU times of rounds of `elastic` alone, and the mean number of active jobs."""
    tuner, nothing = Elastic(), records(0, ACTION)
    tuning = Tuning((tuner,), Preset("easy", "", KNOBS), 60.0)
    jobs = workload(size.jobs, size.devices)
    twin = Twin(size.cluster, jobs, KNOBS, EFFECTS, tuning=tuning)
    middle_us = int(np.median(jobs.submit_us)) // 4
    twin.run(middle_us)
    spent, active = [], []
    for number in range(count):
        state = twin.visible()
        spent.append(round_ms(tuner, state, nothing))
        active.append(int(state.clock[0].pending + state.clock[0].running))
        twin.run(middle_us + (number + 1) * tuning.every_us)
    return spent, round(float(np.mean(active)))


def round_ms(tuner: Tuner, state: State, plan: Records) -> float:
    """Return the CPU time of a round: the least of a few, which decide the same."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        tuner.adjust(state, NO_OUTLOOK, plan)
        times.append(1e3 * (time.process_time() - began))
    return min(times)


def epochs_per_s(epochs: int = EPOCHS) -> float:
    """Return epochs of 30 virtual minutes per CPU-second at 64 GPUs, `elastic` every 300 s."""
    size = SIZES["64 GPUs"]
    tuning = Tuning((Elastic(),), Preset("easy", "", KNOBS), EPOCH_ROUND_S)
    jobs = workload(size.jobs, size.devices)
    twin = Twin(size.cluster, jobs, KNOBS, EFFECTS, tuning=tuning)
    epoch_us, done = to_us(EPOCH_S), 0
    began = time.process_time()
    while done < epochs and not twin.finished:
        done += 1
        twin.run(done * epoch_us)
    return done / (time.process_time() - began)


def market_rows(progress: Callable[[str], None]) -> list[Row]:
    """Measure rounds of the market and epochs with it."""
    out = []
    for name, size in SIZES.items():
        progress(f"rounds of elastic at {name}")
        spent, active = market_rounds_ms(size)
        case = f"{name}, a round of elastic, {active:,} active jobs"
        estimate = (median(spent), min(spent), max(spent))
        out.append(tuning_row(case, None, None, "round_ms", estimate, size.bar_ms))
    progress("epochs at 64 GPUs")
    rates = [epochs_per_s() for _ in range(REPEATS)]
    case = "64 GPUs, epochs of 30 min with elastic every 300 s"
    estimate = (max(rates), min(rates), max(rates))
    return [*out, tuning_row(case, None, None, "epochs_per_s", estimate, EPOCHS_BAR)]


# All of it -----------------------------------------------------------------------------------


def rows(progress: Callable[[str], None]) -> list[Row]:
    """Measure the rows of `flyball bench tune` about speed."""
    progress("every effect on, no tuner")
    events_per_s()  # compiles and fills the tables
    free = [events_per_s() for _ in range(REPEATS)]
    progress("tuning rounds")
    spent, active = rounds_ms()
    progress("tuners in rounds of 60 s")
    tuned = events_per_s(TUNERS, JOBS // 20)
    what = f"{active:,} active jobs"
    return [
        *market_rows(progress),
        speed_row("every effect on, tuners off", "events_per_s", max(free), free, EVENTS_BAR),
        speed_row(f"one round, {what}", "round_ms", median(spent), spent, ROUND_BAR_MS),
        speed_row("tuners in rounds of 60 s", "events_per_s", tuned, [tuned], None),
    ]


def speed_row(case: str, metric: str, value: float, repeats: list[float], bar: float | None) -> Row:
    """Return a row with the range of all repeats as its interval."""
    estimate = (round(value, 1), round(min(repeats), 1), round(max(repeats), 1))
    return tuning_row(f"1,000 nodes, {case}", None, None, metric, estimate, bar)
