"""Live rows of `flyball bench tune`: a real elastic job on this machine, steered while it runs.

A PyTorch job shrinks and grows by order, is asked for a checkpoint, and is killed; it must repeat
no step from before its last checkpoint and end on the curve of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from flyball.bench.tune.live_runs import Stage, TrainingStep, stage
from flyball.engines.local.machine import usable_cores
from flyball.experiments.tuning.rows import Row, tuning_row

STEPS, EVERY, PAUSE_S = 300, 40, 0.01


def rows(progress: Callable[[str], None]) -> list[Row]:
    """Measure both runs; about half a minute on two idle cores."""
    with stage() as here:
        progress("live: an undisturbed run")
        plain = undisturbed(here)
        progress("live: a run that shrinks, grows, saves and is killed")
        return elastic_rows(plain, here.curve(disturbed(here)))


def undisturbed(here: Stage) -> list[TrainingStep]:
    """Return the curve of a run without any intervention."""
    job = here.train(STEPS, EVERY, PAUSE_S, cpus=cores())
    here.ended(job)
    return here.curve(job)


def disturbed(here: Stage) -> int:
    """Run the same job through every intervention and return its number."""
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
    """Return two, or one on a machine with a single core."""
    return min(2, len(usable_cores()))


def elastic_rows(plain: Sequence[TrainingStep], tuned: Sequence[TrainingStep]) -> list[Row]:
    """Return what was lost, and how far the curve is from that of the undisturbed run."""
    attempts = max(step.attempt for step in tuned)
    steps_of = {at: [step for step in tuned if step.attempt == at] for at in range(1, attempts + 1)}
    repeated = [
        steps_of[at - 1][-1].step + 1 - steps_of[at][0].step
        for at in range(2, attempts + 1)
        if steps_of[at]
    ]
    # Killed at any point, it may have to repeat the steps since its last checkpoint, and no more.
    beyond = max([0, *(count - EVERY for count in repeated)])
    final = {step.step: step.loss for step in tuned}
    missing = STEPS - len(final)
    away = [
        100.0 * abs(final[step.step] - step.loss) / max(step.loss, 1e-9)
        for step in plain
        if step.step in final
    ]
    sizes = len({step.threads for step in tuned})
    return [
        live_row("live-elastic", "steps lost beyond the last checkpoint", (beyond,) * 3, 0.0),
        live_row("live-elastic", "steps missing of the curve", (missing,) * 3, 0.0),
        live_row(
            "live-elastic", "loss away from undisturbed, %", (fmean(away), 0.0, max(away)), 1.0
        ),
        live_row("live-elastic", "sizes that it had", (sizes,) * 3, float(cores())),
    ]


def live_row(case: str, metric: str, estimate: tuple[float, float, float], bar: float) -> Row:
    """Return a row of a live run: value, low and high, with its bar."""
    return tuning_row(case, None, "undisturbed", metric, estimate, bar)
