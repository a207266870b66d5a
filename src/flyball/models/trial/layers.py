"""Single layers before and after the passes, beside what was published of them.

Arithmetic and traffic are counted on the graph, latency is measured (our executor, the fastest of
its three forms), energy is modelled by the roofline of one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flyball.models.backends.registry import get
from flyball.models.graph import fuse_activation
from flyball.models.graph.cost import cost_of, modelled, work_of
from flyball.models.graph.passes import run_passes
from flyball.models.measure import TOLERANCE, interleaved, worst_error
from flyball.models.program import export
from flyball.models.result import EAGER
from flyball.models.zoo.others import Recurrent
from flyball.models.zoo.registry import settle
from flyball.models.zoo.text import Attention
from flyball.physics import catalogue

OURS = ("passes", "channels-last", "fused")
CORE = "CPU1"


class AttentionNorm(nn.Module):
    """Attention that is written out, its residual sum, and a norm that is written out."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.attention = Attention(width, 8, plain=True)
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, text: Tensor) -> Tensor:
        """Return the normalised sum."""
        text = text + self.attention(text)
        centred = text - text.mean(-1, keepdim=True)
        spread = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(spread + 1e-5) * self.gain + self.shift


class Entropy(nn.Module):
    """Cross-entropy by its formula: the logarithm of the softmax, and the entry of the target."""

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss."""
        return nn.functional.nll_loss(torch.log(torch.softmax(scores, 1)), targets)


@dataclass(frozen=True)
class Layer:
    """A layer, its example, and the published change in percent.

    Attributes:
        build: returns module and example.
        claimed: compute, memory, latency and energy, in percent.
    """

    build: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    claimed: tuple[float, float, float, float]


def _convolution() -> tuple[nn.Module, tuple[Tensor, ...]]:
    layers = (nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    return settle(nn.Sequential(*layers)), (torch.randn(1, 64, 56, 56),)


def _separable() -> tuple[nn.Module, tuple[Tensor, ...]]:
    layers = (
        *(nn.Conv2d(96, 96, 3, padding=1, groups=96, bias=False), nn.BatchNorm2d(96), nn.SiLU()),
        *(nn.Conv2d(96, 24, 1, bias=False), nn.BatchNorm2d(24)),
    )
    return settle(nn.Sequential(*layers)), (torch.randn(1, 96, 56, 56),)


def _attention() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return AttentionNorm(), (torch.randn(1, 128, 256),)


def _cells() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Recurrent(128, 1), (torch.randint(0, 10_000, (1, 16)),)


def _entropy() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Entropy(), (torch.randn(64, 32_000), torch.randint(0, 32_000, (64,)))


LAYERS = {
    "conv + batch norm + relu": Layer(_convolution, (-35.7, -42.3, -29.8, -38.2)),
    "depthwise + pointwise": Layer(_separable, (-27.6, -31.5, -24.7, -29.3)),
    "attention + layer norm": Layer(_attention, (-22.4, -25.1, -19.6, -24.8)),
    "lstm cells": Layer(_cells, (-18.9, -23.7, -15.3, -20.1)),
    "softmax + cross-entropy": Layer(_entropy, (-32.1, -28.4, -26.9, -31.5)),
}


def measure(name: str, threads: int) -> dict[str, Any]:
    """Return the changes of a layer in percent, with the published ones."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    module, example = LAYERS[name].build()
    module.eval()
    before = export(module, example, name=name)
    after, _stages = run_passes(before)
    fused = after.copy()
    fuse_activation.run(fused.graph)  # counted with its kernels, as the executor runs it

    def eager(*inputs: Tensor) -> tuple[Tensor, ...]:
        return (module(*inputs),)

    runs = {EAGER: eager}
    errors = {}
    for backend in OURS:
        run = get(backend).build(after, threads)
        errors[backend] = worst_error(eager, run, example)
        if errors[backend] <= TOLERANCE:
            runs[backend] = run
    clock = time.process_time if threads == 1 else time.perf_counter
    times = interleaved(runs, EAGER, example, 11, 10.0, clock=clock)
    best = max((one for one in runs if one != EAGER), key=lambda one: times[one].ratio)
    old, new = cost_of(before.graph), cost_of(fused.graph)
    core = catalogue.get(CORE)
    old_energy, new_energy = (
        modelled(work_of(before.graph), core),
        modelled(work_of(fused.graph), core),
    )
    assert old_energy is not None and new_energy is not None
    return {
        "layer": name,
        "executor": best,
        "error": errors[best],
        "operations": [old.operations, new.operations],
        "compute_pct": _change(old.flop, new.flop),
        "memory_pct": _change(old.moved_bytes, new.moved_bytes),
        "latency_pct": 100 * (1 / times[best].ratio - 1),
        "latency_low_pct": 100 * (1 / times[best].high - 1),
        "latency_high_pct": 100 * (1 / times[best].low - 1),
        "energy_modelled_pct": _change(old_energy.energy_j, new_energy.energy_j),
        "claimed_pct": list(LAYERS[name].claimed),
    }


def _change(before: float, after: float) -> float:
    return 100 * (after / before - 1)
