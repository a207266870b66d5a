"""Linear layers of a training step by oneDNN's product, forward and backward.

Torch's eager product of float32 is another library's, which on some processors reaches half the
rate (`flyball bench models --only gemm` prints both). The result is the same but for rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Product(torch.autograd.Function):
    """x W^T + b, with all three products of a step by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the layer's output."""
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _linear(x, weight, bias)

    @staticmethod
    def backward(
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of input, weight and bias."""
        x, weight = ctx.saved_tensors
        rows = gradients[0].reshape(-1, weight.shape[0])
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        of_x = _linear(rows, weight.t().contiguous(), None).reshape(x.shape) if needs_x else None
        of_weight = None
        if needs_weight:
            inputs = x.reshape(-1, weight.shape[1])
            of_weight = _linear(rows.t().contiguous(), inputs.t().contiguous(), None)
        of_bias = rows.sum(0) if ctx.has_bias and needs_bias else None
        return of_x, of_weight, of_bias


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
    return out


class OneDnnLinear(nn.Linear):
    """A linear layer whose products are oneDNN's in float32, and torch's in other formats."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output."""
        if input.dtype != torch.float32 or self.weight.dtype != torch.float32:
            return super().forward(input)
        out: Tensor = Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out


def use_onednn(module: nn.Module) -> str:
    """Let plain linear layers compute their products by oneDNN; return why that makes no sense.

    The layers stay the same objects with the same parameters; only their class changes.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "this torch has no oneDNN"
    layers = [layer for layer in module.modules() if type(layer) is nn.Linear]
    if not layers:
        return "it has no linear layer"
    for layer in layers:
        layer.__class__ = OneDnnLinear
    return ""
