"""The zoo's table: every model with its batch, sequence length and resolution, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from flyball.core.errors import UnknownName

SEED = 0
BATCH = 1


@dataclass(frozen=True)
class Entry:
    """One model of the zoo.

    Attributes:
        source: `module:function` below this package.
        sizes: arguments of the function; a test may pass smaller ones.
        image: resolution of its input image; 0 = it takes none.
        tokens: length of its input sequence; 0 = it takes none.
        published: one of the eight models that the published claims are about.
    """

    source: str
    sizes: dict[str, Any]
    image: int = 0
    tokens: int = 0
    published: bool = False


ZOO: dict[str, Entry] = {
    "resnet50": Entry("vision:resnet", {"blocks": (3, 4, 6, 3)}, image=224, published=True),
    "transformer-base": Entry(
        "text:transformer", {"width": 512, "layers": 6, "heads": 8}, tokens=64, published=True
    ),
    "bert-large": Entry(
        "text:encoder", {"width": 1024, "layers": 24, "heads": 16}, tokens=128, published=True
    ),
    "gpt2-medium": Entry(
        "text:decoder", {"width": 1024, "layers": 24, "heads": 16}, tokens=128, published=True
    ),
    "vit-large": Entry(
        "text:vision_transformer",
        {"width": 1024, "layers": 24, "heads": 16},
        image=224,
        published=True,
    ),
    "unet": Entry("vision:unet", {"width": 32}, image=256, published=True),
    "efficientnet-b7": Entry(
        "efficientnet:efficientnet", {"wider": 2.0, "deeper": 3.1}, image=600, published=True
    ),
    "yolo-v5": Entry("vision:yolo", {"width": 32}, image=320, published=True),
    "efficientnet-b0": Entry("efficientnet:efficientnet", {"wider": 1.0, "deeper": 1.0}, image=224),
    "gnn": Entry("others:graph_network", {"nodes": 2048, "width": 128}),
    "lstm": Entry("others:recurrent", {"width": 256, "layers": 2}, tokens=64),
    "recommender": Entry("others:recommender", {"tables": 16, "rows": 10_000}),
}
"""All models; the published ones in the order of the claims."""
TRAINED: dict[str, dict[str, int]] = {
    "transformer-base": {"batch": 4},
    "resnet50": {"batch": 4},
}
"""Batch of a measured training step."""
MEMORY: dict[str, dict[str, int]] = {
    "transformer-base": {"batch": 16, "tokens": 128},
    "unet": {"batch": 4},
}
"""Batch, and length or resolution if it differs, of a step whose memory is measured."""
PUBLISHED = tuple(name for name, entry in ZOO.items() if entry.published)


def build(name: str, batch: int = BATCH, **smaller: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Return a model in evaluation mode with its example inputs.

    Args:
        name: in the zoo.
        batch: number of examples.
        smaller: sizes instead of the table's; `image` and `tokens` too.

    Raises:
        UnknownName: there is no such model.
    """
    if name not in ZOO:
        raise UnknownName("model of the zoo", name, ZOO)
    entry = ZOO[name]
    path, _, function = entry.source.partition(":")
    make: Callable[..., tuple[nn.Module, tuple[Tensor, ...]]]
    make = getattr(import_module(f"flyball.models.zoo.{path}"), function)
    sizes = {**entry.sizes, **smaller}
    if entry.image:
        sizes.setdefault("image", entry.image)
    if entry.tokens:
        sizes.setdefault("tokens", entry.tokens)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        module, example = make(batch=batch, **sizes)
    return settle(module.eval()), example


def settle(module: nn.Module) -> nn.Module:
    """Give batch norms statistics as training leaves them: not all zeros and ones."""
    generator = torch.Generator().manual_seed(SEED)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            mean, variance = layer.running_mean, layer.running_var
            assert mean is not None and variance is not None
            mean.copy_(0.1 * torch.randn(mean.shape, generator=generator))
            variance.copy_(0.5 + torch.rand(variance.shape, generator=generator))
    return module
