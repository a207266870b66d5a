"""Compares candidates of a model: equal outputs first, then interleaved times.

All candidates run in turn within a round, so that a change of the machine's speed meets all of
them; what counts is the ratio to the reference of the same round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flyball.models.program import Tensors

Run = Callable[..., Tensors]
Clock = Callable[[], float]
TOLERANCE = 1e-4
"""Largest error of an equal output, as a part of the output's scale."""
TRIALS = 3
"""Random inputs that outputs are compared on, besides the example."""
BLOCK_S = 0.03
"""Least time of one candidate's turn in a round; a fast model is called several times."""
MOST_BLOCK_S = 10 * BLOCK_S
"""A turn ends after this time, if calls have become slower: another process took the cores."""


@dataclass(frozen=True)
class Times:
    """Times of a candidate over the rounds.

    Attributes:
        call_s: median time of a call.
        ratio: median over the rounds of the reference's time over this one's: above 1 is faster.
        low, high: interval of that median (order statistics, at least 95 % from 6 rounds on).
        rounds: number of rounds.
    """

    call_s: float
    ratio: float
    low: float
    high: float
    rounds: int


def relative_error(expected: Sequence[Tensor], got: Sequence[Tensor]) -> float:
    """Return the largest difference over all outputs, relative to each output's largest value."""
    if len(expected) != len(got):
        return math.inf
    worst = 0.0
    for left, right in zip(expected, got, strict=True):
        left, right = left.detach(), right.detach()
        if left.shape != right.shape or left.dtype != right.dtype:
            return math.inf
        if not left.numel():
            continue
        if not left.is_floating_point() and not left.is_complex():
            worst = max(worst, 0.0 if bool((left == right).all()) else math.inf)
            continue
        if not bool(torch.equal(torch.isfinite(left), torch.isfinite(right))):
            return math.inf
        finite = torch.isfinite(left)
        if not bool(finite.all()):
            if not torch.equal(left[~finite].nan_to_num(), right[~finite].nan_to_num()):
                return math.inf
            left, right = left[finite], right[finite]
            if not left.numel():
                continue
        scale = float(left.abs().max()) or 1.0
        worst = max(worst, float((left.double() - right.double()).abs().max()) / scale)
    return worst


def random_like(example: Sequence[Tensor], seed: int) -> Tensors:
    """Return random inputs with the shapes, types and ranges of an example."""
    generator = torch.Generator().manual_seed(seed)
    inputs = []
    for tensor in example:
        if tensor.is_floating_point():
            spread = float(tensor.float().std()) if tensor.numel() > 1 else 1.0
            noise = torch.randn(tensor.shape, generator=generator) * (spread or 1.0)
            inputs.append((noise + float(tensor.float().mean())).to(tensor.dtype))
        elif tensor.dtype == torch.bool or not tensor.numel():
            order = torch.randperm(tensor.numel(), generator=generator)
            inputs.append(tensor.reshape(-1)[order].reshape(tensor.shape))
        else:
            low, high = int(tensor.min()), int(tensor.max())
            drawn = torch.randint(low, high + 1, tensor.shape, generator=generator)
            inputs.append(drawn.to(tensor.dtype))
    return tuple(inputs)


def worst_error(reference: Run, candidate: Run, example: Tensors, trials: int = TRIALS) -> float:
    """Return a candidate's largest relative error on the example and on random inputs."""
    worst = 0.0
    with torch.no_grad():
        for trial in range(trials + 1):
            inputs = example if not trial else random_like(example, trial)
            expected = tuple(tensor.clone() for tensor in reference(*inputs))
            worst = max(worst, relative_error(expected, candidate(*inputs)))
            if worst == math.inf:
                break
    return worst


def interleaved(
    runs: Mapping[str, Run],
    reference: str,
    example: Tensors,
    rounds: int = 9,
    drop_slower_than: float = 1.6,
    deadline: Callable[[], bool] = lambda: False,
    clock: Clock = time.perf_counter,
    grad: bool = False,
    least_rounds: int = 3,
) -> dict[str, Times]:
    """Time candidates in turn and return each one's times.

    Args:
        runs: candidates by name.
        reference: name of the candidate that ratios refer to.
        example: inputs.
        rounds: of measurement; each candidate has one turn in each.
        drop_slower_than: after three rounds, a candidate this many times as slow as the best is
            not measured further; infinity keeps all.
        deadline: says when no further round may start.
        clock: wall time, or the process's CPU time, which fits one thread on a busy machine.
        grad: let operations record what gradients need, as a training step does.
        least_rounds: measured even after the deadline; six have an interval of 95 %.
    """
    with torch.set_grad_enabled(grad):
        calls = {name: _calls(run, example, clock) for name, run in runs.items()}
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        active = list(runs)
        for number in range(rounds):
            if number >= least_rounds and deadline():
                break
            for name in active[number % len(active) :] + active[: number % len(active)]:
                seconds[name].append(_turn(runs[name], example, calls[name], clock))
            if number == 2:
                best = min(_median(values) for values in seconds.values())
                active = [
                    name
                    for name in active
                    if name == reference or _median(seconds[name]) <= drop_slower_than * best
                ]
    return {name: _times(values, seconds[reference]) for name, values in seconds.items()}


def _calls(run: Run, example: Tensors, clock: Clock) -> int:
    """Warm a candidate up and return how many calls make a turn."""
    run(*example)
    began = clock()
    run(*example)
    return max(1, min(1000, round(BLOCK_S / max(clock() - began, 1e-6))))


def _turn(run: Run, example: Tensors, calls: int, clock: Clock) -> float:
    """Return the time of a call; a call before refills the caches, unless calls are long."""
    if calls > 1:
        run(*example)
    began = clock()
    spent_s, number = 0.0, 0
    while number < calls and spent_s < MOST_BLOCK_S:
        run(*example)
        number += 1
        spent_s = clock() - began
    return max(spent_s / number, 1e-9)


def _times(values: list[float], reference: list[float]) -> Times:
    ratios = sorted(base_s / call_s for call_s, base_s in zip(values, reference, strict=False))
    low, high = median_interval(ratios)
    return Times(_median(values), _median(ratios), low, high, len(values))


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval that holds the median with at least 95 %, if there are six values.

    The number of values below the median is binomial, whatever their distribution; with fewer than
    six values the interval is all of them.
    """
    ordered = sorted(values)
    count = len(ordered)
    at, outside = 0, 0.5**count
    while at + 1 < count / 2 and 2 * (outside + _binomial(count, at + 1)) <= 0.05:
        at += 1
        outside += _binomial(count, at)
    return ordered[at], ordered[count - 1 - at]


def _binomial(count: int, successes: int) -> float:
    return math.comb(count, successes) * 0.5**count


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
