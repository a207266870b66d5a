"""EfficientNet: inverted residuals with depthwise convolutions and squeeze-excitation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Expansion, channels, blocks, stride and kernel of each stage of B0 (Tan and Le, 2019)."""
CLASSES = 1000


def _norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
    )


class Excitation(nn.Module):
    """Scales channels by what the whole image shows."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze, self.excite = (
            nn.Conv2d(channels, squeezed, 1),
            nn.Conv2d(squeezed, channels, 1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return the scaled image."""
        whole = nn.functional.adaptive_avg_pool2d(image, 1)
        return image * torch.sigmoid(self.excite(nn.functional.silu(self.squeeze(whole))))


class Inverted(nn.Module):
    """Widens, filters each channel, scales, and narrows again."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        inner = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [_norm(inputs, inner, 1), nn.SiLU()]
        layers += [_norm(inner, inner, kernel, stride, inner), nn.SiLU()]
        layers += [Excitation(inner, max(1, inputs // 4)), _norm(inner, outputs, 1)]
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, image: Tensor) -> Tensor:
        """Return the block's output."""
        out: Tensor = self.body(image)
        return image + out if self.adds else out


def efficientnet(
    batch: int, image: int, wider: float, deeper: float
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return an EfficientNet; (1.0, 1.0) is B0, (2.0, 3.1) is B7."""
    inputs = _channels(32, wider)
    layers: list[nn.Module] = [_norm(3, inputs, 3, 2), nn.SiLU()]
    for expansion, channels, count, stride, kernel in STAGES:
        outputs = _channels(channels, wider)
        for at in range(math.ceil(count * deeper)):
            layers.append(Inverted(inputs, outputs, expansion, 1 if at else stride, kernel))
            inputs = outputs
    last = _channels(1280, wider)
    layers += [_norm(inputs, last, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(last, CLASSES)), (torch.randn(batch, 3, image, image),)


def _channels(count: int, wider: float) -> int:
    """Return a scaled number of channels, a multiple of eight that loses at most a tenth."""
    scaled = count * wider
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded
