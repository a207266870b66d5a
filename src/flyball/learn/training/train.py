"""Trains for some minutes or steps, keeps the best policy, and can be stopped at any time."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from flyball import __version__
from flyball.core.results import Floats
from flyball.learn.policy import artifact
from flyball.learn.training.folder import RunFolder
from flyball.learn.training.limits import Limits
from flyball.learn.training.trainers import Setup, Trainer, Validation
from flyball.physics.kernel_sources import PACKAGE

SAVE_EVERY_S = 20.0
CHECKS = 12
"""How often a training of given steps is validated, apart from its end."""
CHECK_SHARE = 0.15
"""Part of the time that validation may take in a training of given minutes."""
T95 = 1.96

Report = Callable[[int, float, Mapping[str, float]], None]


@dataclass(frozen=True)
class Budget:
    """How long to train: steps, or minutes if steps are 0. What was done before counts."""

    minutes: float = 20.0
    steps: int = 0

    def progress(self, steps: int, spent_s: float) -> float:
        """Return the part of the training that is over."""
        part = steps / self.steps if self.steps else spent_s / (60.0 * self.minutes)
        return min(1.0, part)


@dataclass(frozen=True)
class Trained:
    """What a training ended with.

    Attributes:
        score: mean validation score of the policy that is kept, less is better.
        seconds, cpu_s: since the begin, and of the processor.
        hash: of its file and card.
        weights: of the file alone: the same for the same seed and steps.
        interrupted: it was stopped before its budget was used.
    """

    folder: Path
    steps: int
    epochs: int
    seconds: float
    cpu_s: float
    score: float | None
    hash: str
    weights: str
    interrupted: bool


class Interrupt:
    """Turns the first Ctrl-C into a request to stop after this step; a second one ends at once."""

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _request(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


def train(
    trainer: Trainer, setup: Setup, folder: RunFolder, budget: Budget, problems: int,
    report: Report, made: Mapping[str, Any],
) -> Trained:  # fmt: skip
    """Train, from where the folder's run stopped.

    Args:
        trainer: new; its state is restored from the folder.
        setup: that the trainer was made with.
        folder: of the run.
        budget: steps or minutes, including those done before.
        problems: for validation.
        report: receives (steps, progress, row) after every step.
        made: goes into the policy's card.
    """
    saved = folder.load()
    if saved is not None:
        trainer.restore(saved)
    validation = Validation(setup, problems)
    done_s = folder.seconds[-1] if folder.seconds else 0.0
    done_cpu_s = folder.cpu_s[-1] if folder.cpu_s else 0.0
    began = last_saved = time.monotonic()
    began_cpu_s = time.process_time()
    checked_s, limits = 0.0, Limits(setup.limits)
    with Interrupt() as interrupt:
        while not interrupt.requested:
            spent_s = done_s + time.monotonic() - began
            if budget.progress(trainer.steps, spent_s) >= 1.0 or not budget.minutes > 0:
                break
            row = trainer.step(budget.progress(trainer.steps, spent_s))
            row = {"step": trainer.steps, "epochs": trainer.epochs, **row}
            folder.rows.append(row)
            spent_s = done_s + time.monotonic() - began
            over = budget.progress(trainer.steps, spent_s)
            if over >= 1.0 or _check_due(budget, trainer.steps, spent_s - done_s, checked_s):
                before = time.monotonic()
                row |= _check(trainer, folder, validation, limits, setup, made)
                checked_s += time.monotonic() - before
            folder.seconds.append(done_s + time.monotonic() - began)
            folder.cpu_s.append(done_cpu_s + time.process_time() - began_cpu_s)
            report(trainer.steps, over, row)
            if time.monotonic() - last_saved > SAVE_EVERY_S or over >= 1.0:
                folder.save(trainer.save())
                last_saved = time.monotonic()
    if folder.rows and (folder.best is None or "validation" not in folder.rows[-1]):
        folder.rows[-1] |= _check(trainer, folder, validation, limits, setup, made)
    if folder.rows:
        folder.save(trainer.save())
    kept = artifact.read(folder.policy) if folder.policy.exists() else None
    seconds = folder.seconds[-1] if folder.seconds else 0.0
    cpu_s = folder.cpu_s[-1] if folder.cpu_s else 0.0
    return Trained(
        folder.path, trainer.steps, trainer.epochs, seconds, cpu_s, folder.best,
        kept.hash if kept else "", str(kept.card["sha256"]) if kept else "", interrupt.requested,
    )  # fmt: skip


def _check_due(budget: Budget, steps: int, spent_s: float, checked_s: float) -> bool:
    if budget.steps:
        return steps % max(1, budget.steps // CHECKS) == 0
    return checked_s < CHECK_SHARE * spent_s


def _check(
    trainer: Trainer, folder: RunFolder, validation: Validation, limits: Limits, setup: Setup,
    made: Mapping[str, Any],
) -> dict[str, float]:  # fmt: skip
    """Validate what has been learned; keep it if nothing before was better."""
    runs = validation.runs(trainer.policy())
    pairs = list(zip(runs, validation.incumbents, strict=True))
    scores = np.array([run.score(other) for run, other in pairs])
    broken = np.array([limits.broken(run, other) for run, other in pairs]).mean(axis=0)
    mean = float(scores.mean() + np.maximum(broken, 0.0).sum())
    if folder.best is None or mean < folder.best:
        folder.best = mean
        served = trainer.served()
        if served is None:
            folder.keep(trainer.save())
        else:
            _write_policy(trainer, served, folder, setup, made, scores)
    return {"validation": mean}


def _write_policy(
    trainer: Trainer, served: tuple[dict[str, Any], Mapping[str, Any]], folder: RunFolder,
    setup: Setup, made: Mapping[str, Any], scores: Floats,
) -> None:  # fmt: skip
    """Write a policy file with its card."""
    kind, tensors = served
    ranges = {"range.low": trainer.low, "range.high": trainer.high}
    card = {
        **kind, "epoch_s": setup.epoch_s,
        "made": {
            **made, "source": setup.source.about(), "seed": setup.seed,
            "steps": trainer.steps, "epochs": trainer.epochs,
            "limits": dict(setup.limits), "validation": _summary(scores),
            "version": __version__, "commit": commit(),
        },
    }  # fmt: skip
    arrays = {name: np.asarray(value, np.float32) for name, value in ranges.items()}
    artifact.write(folder.policy, {**tensors, **arrays}, card)


def _summary(scores: Floats) -> dict[str, float]:
    """Return the mean of log ratios to the incumbent, as percent, with a 95 % interval."""
    spread = T95 * float(scores.std(ddof=1)) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
    mean = float(scores.mean())
    ends = (mean, mean - spread, mean + spread)
    percent, low, high = (100.0 * float(np.expm1(end)) for end in ends)
    return {"problems": len(scores), "percent": percent, "low": low, "high": high}


def commit() -> str:
    """Return the commit of this checkout; "" outside of one."""
    try:
        out = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607
            cwd=PACKAGE, capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return out.stdout.strip()
