"""Convolutional models: a residual net, a U-Net and a one-shot detector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 1000


def conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, act: type[nn.Module] = nn.ReLU
) -> nn.Module:
    """Return convolution, batch norm and activation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, bias=False),
        nn.BatchNorm2d(outputs),
        act(),
    )


# ResNet-50 --------------------------------------------------------------------------


class Bottleneck(nn.Module):
    """A residual block of a 1x1, a 3x3 and a 1x1 convolution (He et al., 2015)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, width, 1),
            conv(width, width, 3, stride),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, image: Tensor) -> Tensor:
        """Return the block's output."""
        return torch.relu(self.body(image) + self.shortcut(image))


def resnet(
    batch: int, image: int, blocks: tuple[int, ...], width: int = 64
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a residual net; blocks (3, 4, 6, 3) are ResNet-50."""
    layers: list[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(blocks):
        inner = width * 2**stage
        for at in range(count):
            layers.append(Bottleneck(inputs, inner, 2 if stage and not at else 1))
            inputs = 4 * inner
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, image, image),)


# U-Net ------------------------------------------------------------------------------


class UNet(nn.Module):
    """An encoder and a decoder with connections between equal resolutions (Ronneberger, 2015)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            nn.Sequential(conv(before, after), conv(after, after))
            for before, after in zip([3, *widths[:-1]], widths, strict=True)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * after, after, 2, 2) for after in reversed(widths[:-1])
        )
        self.join = nn.ModuleList(
            nn.Sequential(conv(2 * after, after), conv(after, after))
            for after in reversed(widths[:-1])
        )
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Return a map of classes."""
        passed = []
        for level, block in enumerate(self.down):
            image = block(image if not level else nn.functional.max_pool2d(image, 2))
            passed.append(image)
        passed.pop()
        for rise, join in zip(self.up, self.join, strict=True):
            image = join(torch.cat([passed.pop(), rise(image)], 1))
        out: Tensor = self.head(image)
        return out


def unet(
    batch: int, image: int, width: int, depth: int = 4
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a U-Net."""
    return UNet(width, depth), (torch.randn(batch, 3, image, image),)


# YOLO-v5-like -----------------------------------------------------------------------


class Partial(nn.Module):
    """A cross-stage partial block: half of the channels pass residual bottlenecks."""

    def __init__(self, inputs: int, outputs: int, count: int, add: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.second = (
            conv(inputs, half, 1, act=nn.SiLU),
            conv(inputs, half, 1, act=nn.SiLU),
        )
        self.inner = nn.ModuleList(
            nn.Sequential(conv(half, half, 1, act=nn.SiLU), conv(half, half, 3, act=nn.SiLU))
            for _ in range(count)
        )
        self.last = conv(outputs, outputs, 1, act=nn.SiLU)
        self.add = add

    def forward(self, image: Tensor) -> Tensor:
        """Return the block's output."""
        left = self.first(image)
        for block in self.inner:
            left = left + block(left) if self.add else block(left)
        out: Tensor = self.last(torch.cat([left, self.second(image)], 1))
        return out


class Yolo(nn.Module):
    """A detector in the manner of YOLO-v5: backbone, pyramid, and three heads."""

    def __init__(self, width: int, outputs: int = 255) -> None:
        super().__init__()
        w = width
        self.stem = nn.Sequential(
            conv(3, w, 6, 2, nn.SiLU), conv(w, 2 * w, 3, 2, nn.SiLU), Partial(2 * w, 2 * w, 1)
        )
        self.third = nn.Sequential(conv(2 * w, 4 * w, 3, 2, nn.SiLU), Partial(4 * w, 4 * w, 2))
        self.fourth = nn.Sequential(conv(4 * w, 8 * w, 3, 2, nn.SiLU), Partial(8 * w, 8 * w, 3))
        self.fifth = nn.Sequential(conv(8 * w, 16 * w, 3, 2, nn.SiLU), Partial(16 * w, 16 * w, 1))
        self.pool = nn.ModuleList(
            [conv(16 * w, 8 * w, 1, act=nn.SiLU), conv(32 * w, 16 * w, 1, act=nn.SiLU)]
        )
        self.lateral = nn.ModuleList(
            [conv(16 * w, 8 * w, 1, act=nn.SiLU), conv(8 * w, 4 * w, 1, act=nn.SiLU)]
        )
        self.merge = nn.ModuleList(
            [Partial(16 * w, 8 * w, 1, False), Partial(8 * w, 4 * w, 1, False)]
        )
        self.lower = nn.ModuleList(
            [conv(4 * w, 4 * w, 3, 2, nn.SiLU), conv(8 * w, 8 * w, 3, 2, nn.SiLU)]
        )
        self.fuse = nn.ModuleList(
            [Partial(8 * w, 8 * w, 1, False), Partial(16 * w, 16 * w, 1, False)]
        )
        self.heads = nn.ModuleList(nn.Conv2d(k * w, outputs, 1) for k in (4, 8, 16))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """Return the maps of the three heads."""
        third = self.third(self.stem(image))
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        pooled = [self.pool[0](fifth)]
        for _ in range(3):
            pooled.append(nn.functional.max_pool2d(pooled[-1], 5, 1, 2))
        fifth = self.pool[1](torch.cat(pooled, 1))
        top = self.lateral[0](fifth)
        middle = self.merge[0](torch.cat([_twice(top), fourth], 1))
        side = self.lateral[1](middle)
        low = self.merge[1](torch.cat([_twice(side), third], 1))
        middle = self.fuse[0](torch.cat([self.lower[0](low), side], 1))
        high = self.fuse[1](torch.cat([self.lower[1](middle), top], 1))
        maps = zip(self.heads, (low, middle, high), strict=True)
        return tuple(head(features) for head, features in maps)


def _twice(image: Tensor) -> Tensor:
    return nn.functional.interpolate(image, scale_factor=2.0, mode="nearest")


def yolo(batch: int, image: int, width: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a detector; width 32 is about the size of YOLO-v5s."""
    return Yolo(width), (torch.randn(batch, 3, image, image),)
