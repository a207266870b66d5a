"""One training step, and the ways to make it cheaper that do not change its gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flyball.models.measure import relative_error
from flyball.models.training.products import use_onednn

NOISE_SCALE = 0.01
"""Least scale of a gradient, as a part of the largest gradient of all."""
MOST_ROUNDING = 4.0
"""Most times that a variant's rounding may exceed eager's, over all gradients together.

On the zoo's ResNet-50 eager is 0.021 from its own gradients in double precision, channels-last
0.050: flips of ReLUs, of which either may have more."""
Loss = Callable[..., Tensor]
"""Takes the module and the batch, returns the loss: `lambda module, x, y: mse(module(x), y)`."""


@dataclass
class Step:
    """A module, its optimiser and its loss.

    Attributes:
        module: in training mode.
        optimizer: over the module's parameters.
        loss: of the module and a batch.
    """

    module: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Loss

    def __call__(self, *batch: Tensor) -> Tensor:
        """Train on one batch; return its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(self.module, *batch)
        value.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return value.detach()

    def copy(self) -> Step:
        """Return a step of its own with equal weights and optimiser state."""
        memo: dict[int, Any] = {}
        module = copy.deepcopy(self.module, memo)
        optimizer = type(self.optimizer).__new__(type(self.optimizer))
        memo[id(self.optimizer)] = optimizer
        # The deep copy maps parameters to those of the copied module, through the same memo.
        groups = copy.deepcopy(self.optimizer.param_groups, memo)
        optimizer = type(self.optimizer)(groups, **_settings(self.optimizer))
        state = copy.deepcopy(dict(self.optimizer.state), memo)
        optimizer.state.update(state)
        return Step(module, optimizer, self.loss)


def _settings(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the constructor's arguments of an optimiser, as far as its defaults state them."""
    import inspect

    allowed = inspect.signature(type(optimizer).__init__).parameters
    return {name: value for name, value in optimizer.defaults.items() if name in allowed}


# Variants ---------------------------------------------------------------------------


def fused_optimizer(step: Step) -> str:
    """Let the optimiser update all values of a parameter in one pass; return why it cannot."""
    import inspect

    if "fused" not in inspect.signature(type(step.optimizer).__init__).parameters:
        return f"{type(step.optimizer).__name__} has no fused form"
    if any(not parameter.is_floating_point() for parameter in step.module.parameters()):
        return "a parameter is not a floating-point tensor"
    for group in step.optimizer.param_groups:
        group["fused"], group["foreach"] = True, False
    step.optimizer.defaults["fused"] = True
    # The fused kernel counts steps in a tensor.
    for state in step.optimizer.state.values():
        if "step" in state and not isinstance(state["step"], Tensor):
            state["step"] = torch.tensor(float(state["step"]))
    return ""


def channels_last(step: Step) -> str:
    """Store convolution weights channels-last; return why that makes no sense."""
    if not any(isinstance(layer, nn.Conv2d) for layer in step.module.modules()):
        return "it has no 2-D convolution"
    step.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return ""


def onednn_products(step: Step) -> str:
    """Compute linear layers by oneDNN; return why that makes no sense."""
    return use_onednn(step.module)


def compiled(step: Step) -> str:
    """Compile forward and backward with inductor."""
    torch._dynamo.reset()
    step.module.compile()
    return ""


VARIANTS: dict[str, tuple[Callable[[Step], str], ...]] = {
    "fused-optimizer": (fused_optimizer,),
    "channels-last": (channels_last,),
    "fused-optimizer+channels-last": (fused_optimizer, channels_last),
    "onednn-products": (onednn_products,),
    "fused-optimizer+onednn-products": (fused_optimizer, onednn_products),
    "fused-optimizer+compile": (fused_optimizer, compiled),
}
"""What each variant of a step changes; all keep the gradients."""
QUICK = tuple(name for name in VARIANTS if "compile" not in name)


# Equality ---------------------------------------------------------------------------


def gradients(step: Step, batch: tuple[Tensor, ...], seed: int = 0) -> list[Tensor]:
    """Return the loss and the gradients of all parameters; dropout is off, since it is random."""
    sleeping = [
        layer
        for layer in step.module.modules()
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training
    ]
    for layer in sleeping:
        layer.eval()
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            step.module.zero_grad(set_to_none=True)
            value = step.loss(step.module, *batch)
            value.backward()  # type: ignore[no-untyped-call]
        parameters = [one for one in step.module.parameters() if one.requires_grad]
        values = [torch.zeros(()) if one.grad is None else one.grad.clone() for one in parameters]
        step.module.zero_grad(set_to_none=True)
        return [value.detach().clone(), *values]
    finally:
        for layer in sleeping:
            layer.train()


def gradient_error(expected: list[Tensor], got: list[Tensor]) -> float:
    """Return the largest error of a gradient, relative to the largest gradient of its parameter.

    Gradients that are noise (a bias before a batch norm has an exact gradient of 0) are compared on
    a hundredth of the largest of all.
    """
    overall = max((float(one.abs().max()) for one in expected[1:] if one.numel()), default=0.0)
    worst = relative_error(expected[:1], got[:1])
    for left, right in zip(expected[1:], got[1:], strict=True):
        if left.shape != right.shape:
            return float("inf")
        scale = max(float(left.abs().max()), NOISE_SCALE * overall) or 1.0
        worst = max(worst, float((left - right).abs().max()) / scale)
    return worst


def exact_gradients(step: Step, batch: tuple[Tensor, ...]) -> list[Tensor]:
    """Return loss and gradients computed in double precision."""
    wide = step.copy()
    wide.module.double()
    inputs = tuple(one.double() if one.is_floating_point() else one for one in batch)
    return gradients(wide, inputs)


def judged_error(
    expected: list[Tensor],
    got: list[Tensor],
    eager: Step,
    variant: Step,
    batch: tuple[Tensor, ...],
    most: float,
) -> float:
    """Return the error of a variant's gradients; if rounding makes it large, that of exact ones.

    Rounding alone can flip a ReLU that stands at zero and move a whole gradient, in eager as well
    as in the variant. So where they differ, both are computed in double precision, in which nothing
    stands that near to zero: if those agree, and the variant's rounding is of the size of eager's,
    the variant computes the same, and its error is that in double precision.
    """
    error = gradient_error(expected, got)
    if error <= most:
        return error
    try:
        exact, variant_exact = exact_gradients(eager, batch), exact_gradients(variant, batch)
    except (RuntimeError, TypeError):  # a loss that insists on its own format
        return error
    allowed = MOST_ROUNDING * max(overall_error(exact, expected), most)
    return error if overall_error(exact, got) > allowed else gradient_error(exact, variant_exact)


def overall_error(expected: list[Tensor], got: list[Tensor]) -> float:
    """Return the length of the difference of all gradients, relative to that of the gradients."""
    pairs = list(zip(expected[1:], got[1:], strict=True))
    if any(left.shape != right.shape for left, right in pairs):
        return float("inf")
    difference = sum(float((left - right).double().square().sum()) for left, right in pairs)
    length = sum(float(left.double().square().sum()) for left, _right in pairs)
    return float((difference / length) ** 0.5) if length else float(difference > 0)
