"""Makes a training step cheaper without changing its gradients, or leaves it as it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from flyball.core.errors import BadInput, UnknownName
from flyball.models.measure import TOLERANCE, Clock, interleaved
from flyball.models.result import EAGER, Candidate
from flyball.models.search import choose, with_times
from flyball.models.training.memory import Peak
from flyball.models.training.recompute import (
    Unit,
    choose_units,
    kept_by_unit,
    recompute,
    with_inner_units,
)
from flyball.models.training.step import (
    QUICK,
    VARIANTS,
    Loss,
    Step,
    gradient_error,
    gradients,
    judged_error,
)

ROUNDS = 12
LEAST_ROUNDS = 6


@dataclass
class TrainingResult:
    """What `optimize_training` returns; call it with a batch to train on it.

    Attributes:
        step: the user's module and optimiser, changed as the choice says.
        candidates: eager first; errors are those of the gradients.
        choice: name of the fastest equal variant, or `eager`: leave it.
        recomputed: blocks whose activations are recomputed, under a memory budget.
        units: what each block keeps for the backward pass.
        gradient_error: of recomputation; None without it.
    """

    step: Step
    candidates: list[Candidate]
    choice: str
    recomputed: list[str] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    gradient_error: float | None = None

    def __call__(self, *batch: Tensor) -> Tensor:
        """Train on one batch; return its loss."""
        return self.step(*batch)

    @property
    def speedup(self) -> float:
        """Times as fast as eager, by the measured variants; 1 if it is left as it is."""
        ratios = [one.ratio for one in self.candidates if one.name == self.choice]
        return ratios[0] or 1.0 if ratios and self.choice != EAGER else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON shows it."""
        return {
            "choice": self.choice,
            "speedup": self.speedup,
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "recomputed": self.recomputed,
            "units": [asdict(unit) for unit in self.units],
            "gradient_error": self.gradient_error,
        }


def optimize_training(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Loss,
    batch: Sequence[Tensor],
    *,
    variants: Sequence[str] = QUICK,
    activation_budget_bytes: int | None = None,
    time_limit_s: float = 600.0,
    clock: Clock = time.perf_counter,
) -> TrainingResult:
    """Return the fastest form of a training step whose gradients are equal.

    Variants are tried on copies; the winner is then applied to the module and optimiser given.

    Args:
        module: set to training mode.
        optimizer: over its parameters.
        loss: takes the module and the batch, returns a scalar.
        batch: an example; the shape of later ones may differ.
        variants: names of variants to try.
        activation_budget_bytes: recompute blocks in the backward pass until what is kept for it
            fits; None = recompute nothing.
        time_limit_s: no variant is begun after this time.
        clock: that times are read from.

    Raises:
        BadInput: the loss is not a scalar, or recomputation changes the gradients.
        UnknownName: there is no such variant.
    """
    began = time.monotonic()
    for name in variants:
        if name not in VARIANTS:
            raise UnknownName("variant", name, VARIANTS)
    module.train()
    step, example = Step(module, optimizer, loss), tuple(batch)
    probe = step.copy()
    expected = gradients(probe, example)
    if expected[0].numel() != 1:
        raise BadInput(
            f"the loss has {expected[0].numel()} values", "return a scalar, e.g. its mean"
        )
    steps: dict[str, Step] = {EAGER: probe}
    candidates = [Candidate(EAGER, "equal", error=0.0)]
    for name in variants:
        if time.monotonic() - began > time_limit_s:
            candidates.append(Candidate(name, "left out", reason="time limit reached"))
            continue
        candidates.append(_tried(step, name, example, expected, steps))
    if len(steps) > 1:
        times = interleaved(
            {name: _without_result(one) for name, one in steps.items()},
            EAGER,
            example,
            ROUNDS,
            math.inf,
            lambda: time.monotonic() - began > time_limit_s,
            clock,
            grad=True,
            least_rounds=LEAST_ROUNDS,
        )
        candidates = [with_times(one, times.get(one.name)) for one in candidates]
    choice = choose(candidates)
    steps.clear()
    for change in VARIANTS.get(choice, ()):
        change(step)
    result = TrainingResult(step, candidates, choice)
    if activation_budget_bytes is not None:
        _save_memory(result, example, expected, activation_budget_bytes)
    return result


def _tried(
    step: Step,
    name: str,
    example: tuple[Tensor, ...],
    expected: list[Tensor],
    steps: dict[str, Step],
) -> Candidate:
    """Apply a variant to a copy and compare its gradients."""
    began = time.monotonic()
    copied = step.copy()
    try:
        for change in VARIANTS[name]:
            reason = change(copied)
            if reason:
                return Candidate(name, "left out", reason=reason)
        got = gradients(copied, example)
        error = judged_error(expected, got, step, copied, example, TOLERANCE)
        copied(*example)  # the optimiser's own step must work too
    except Exception as problem:  # a variant's failure must not end the others
        words = (str(problem).splitlines() or [""])[0][:200]
        return Candidate(name, "failed", reason=f"{type(problem).__name__}: {words}")
    status = "equal" if error <= TOLERANCE else "different"
    if status == "equal":
        steps[name] = copied
    build_s = round(time.monotonic() - began, 3)
    return Candidate(name, status, error if math.isfinite(error) else None, build_s=build_s)


def _without_result(step: Step) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *batch: (step(*batch),)


def _save_memory(
    result: TrainingResult,
    example: tuple[Tensor, ...],
    expected: list[Tensor],
    budget_bytes: int,
) -> None:
    """Recompute blocks until the budget holds; the gradients must stay equal."""
    if budget_bytes < 0:
        raise BadInput(f"a budget of {budget_bytes} bytes is negative", "give 0 or more")
    module = result.step.module
    result.units = kept_by_unit(result.step, example)
    chosen = choose_units(result.units, budget_bytes)
    result.recomputed = with_inner_units(module, chosen, result.units, budget_bytes)
    undo = recompute(module, result.recomputed)
    error = gradient_error(expected, gradients(result.step, example))
    result.gradient_error = error
    if error > TOLERANCE:
        undo()
        raise BadInput(
            f"recomputation changes gradients by {error:.1e} of their scale",
            "a block depends on more than its inputs; train without a budget",
        )


def peak_memory(step: Step, batch: tuple[Tensor, ...]) -> int:
    """Measure the most memory of tensors during a step, in bytes.

    Weights, gradients and optimiser state are included.
    """
    step(*batch)  # the optimiser's state exists from here on
    step.optimizer.zero_grad(set_to_none=True)
    existing: list[Tensor] = [*step.module.parameters(), *step.module.buffers(), *batch]
    for state in step.optimizer.state.values():
        existing += [value for value in state.values() if isinstance(value, Tensor)]
    peak = Peak(existing)
    with peak:
        step(*batch)
    return peak.peak_bytes
