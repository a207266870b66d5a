"""Live rows of `flyball bench tune`: a real elastic job on this machine, steered while it runs.

A PyTorch job shrinks and grows by order, is asked for a checkpoint, and is killed; it must repeat
no step from before its last checkpoint and end on the curve of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from flyball.bench.tune.live_runs import Stage, TrainingStep, stage
from flyball.engines.local.machine import own_cores

STEPS, EVERY, PAUSE_S = 300, 40, 0.01

Row = dict[str, Any]


def rows(progress: Callable[[str], None]) -> list[Row]:
    """Run all of it; about half a minute on two idle cores."""
    with stage() as here:
        progress("live: an undisturbed run")
        plain = undisturbed(here)
        progress("live: a run that shrinks, grows, saves and is killed")
        return elastic_rows(plain, here.curve(disturbed(here)))


def undisturbed(here: Stage) -> list[TrainingStep]:
    """The curve of a run that nobody touches."""
    job = here.train(STEPS, EVERY, PAUSE_S, cpus=cores())
    here.ended(job)
    return here.curve(job)


def disturbed(here: Stage) -> int:
    """The same with everything that can be done to it."""
    job = here.train(STEPS, EVERY, PAUSE_S, cpus=cores())
    here.until_step(job, STEPS // 8)
    here.plane.resize(job, 1)
    here.until_step(job, STEPS // 4)
    here.plane.checkpoint(job)
    here.until_step(job, 3 * STEPS // 8)
    here.plane.resize(job, cores())
    here.until_step(job, STEPS // 2)
    here.lose(job)
    here.ended(job)
    return job


def cores() -> int:
    """Two, where there are."""
    return min(2, len(own_cores()))


def elastic_rows(plain: Sequence[TrainingStep], tuned: Sequence[TrainingStep]) -> list[Row]:
    """What was lost, and how far the curve is from that of the undisturbed run."""
    attempts = max(each.attempt for each in tuned)
    last = {at: [each for each in tuned if each.attempt == at] for at in range(1, attempts + 1)}
    repeated = [
        last[at - 1][-1].step + 1 - last[at][0].step for at in range(2, attempts + 1) if last[at]
    ]
    # Killed at any point, it may have to repeat what came after a checkpoint, and no more.
    beyond = max([0, *(each - EVERY for each in repeated)])
    final = {each.step: each.loss for each in tuned}
    missing = STEPS - len(final)
    away = [
        100.0 * abs(final[each.step] - each.loss) / max(each.loss, 1e-9)
        for each in plain
        if each.step in final
    ]
    sizes = len({each.threads for each in tuned})
    return [
        live_row(
            "live-elastic", "steps lost beyond the last checkpoint", beyond, beyond, beyond, 0.0
        ),
        live_row("live-elastic", "steps missing of the curve", missing, missing, missing, 0.0),
        live_row("live-elastic", "loss away from undisturbed, %", fmean(away), 0.0, max(away), 1.0),
        live_row("live-elastic", "sizes that it had", sizes, sizes, sizes, float(cores())),
    ]


def live_row(case: str, metric: str, value: float, low: float, high: float, bar: float) -> Row:
    return {
        "case": case, "load": None, "baseline": "undisturbed", "metric": metric,
        "value": value, "low": low, "high": high, "bar": bar,
    }  # fmt: skip
