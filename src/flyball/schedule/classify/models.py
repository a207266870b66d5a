"""Facts about models by name: measured speeds and published sizes, each with its source.

Three figures describe what a model asks of a machine:

* how much faster it is on a faster device, measured; by the roofline this gives the part of
  its step that the device shortens;
* the part of its speed that is left when a gang is spread over nodes, measured;
* operations per byte of gradients in a step: `3 x 2 x multiply-adds x batch` over `4 x
  parameters`, from published sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import NamedTuple

from flyball.core.workload import JobClass
from flyball.physics import catalogue, measured
from flyball.physics.roofline import attainable_tflops

GAVEL = "measured by Gavel"
SIA = "measured by Sia (step times on AWS, Azure, DGX and two workstations)"
NEUSIGHT = "measured by NeuSight (GPT-2 large)"


class ModelSize(NamedTuple):
    """Holds the published size of a model.

    Attributes:
        gmacs: billions of multiply-adds for one sample, forward.
        parameters_m: millions of parameters.
        batch: samples a device in a step, as commonly trained.
        source: the publication.
    """

    gmacs: float
    parameters_m: float
    batch: int
    source: str


@dataclass(frozen=True)
class ModelFacts:
    """Holds what is known of one model.

    Attributes:
        label: its name as shown to users.
        base: the device type that `faster` is relative to.
        faster: by device type, the speed of one device relative to `base`.
        spread: speed when spread over nodes, as a part of the speed on one; 1 for models that
            were only ever measured on one device.
        size: the published size, if there is one.
        source: where the measurements are from.
    """

    label: str
    base: str = ""
    faster: Mapping[str, float] = field(default_factory=dict)
    spread: float | None = None
    size: ModelSize | None = None
    source: str = ""

    @property
    def parallel(self) -> float | None:
        """Return the part of a step that a faster device shortens, 0 to 1 (median over devices)."""
        if not self.faster:
            return None
        base = _attainable(self.base)
        parts = (
            (1 - 1 / times) / (1 - base / _attainable(name)) for name, times in self.faster.items()
        )
        return min(1.0, max(0.0, median(parts)))

    @property
    def flop_per_byte(self) -> float | None:
        """Return the operations per byte of gradients in a training step."""
        if self.size is None:
            return None
        flop = 3 * 2 * self.size.gmacs * 1e9 * self.size.batch
        return flop / (4 * self.size.parameters_m * 1e6)


SIZES = {
    "resnet18": ModelSize(0.56, 11.2, 128, "ResNet-18 for CIFAR-10, He et al. 2016"),
    "resnet50": ModelSize(4.1, 25.6, 64, "He et al. 2016"),
    "cyclegan": ModelSize(56.8, 11.4, 1, "one generator, Li et al. 2020 (GAN Compression)"),
    "transformer": ModelSize(
        0.85, 65, 64, "base model, Vaswani et al. 2017; sentences of 13 tokens"
    ),
    "lm": ModelSize(0.256, 14.0, 20, "PyTorch's word language model on WikiText-2, 35 words"),
    "a3c": ModelSize(0.0022, 0.6, 20, "computed from the published network for 42 x 42 frames"),
    "bert": ModelSize(33, 110, 12, "base model, Devlin et al. 2019; 384 tokens"),
    "gpt": ModelSize(127, 124, 4, "smallest GPT-2, Radford et al. 2019; 1024 tokens"),
    "vgg16": ModelSize(15.5, 138, 32, "Simonyan and Zisserman 2015"),
    "inception3": ModelSize(5.7, 23.8, 32, "Szegedy et al. 2016"),
    "yolov3": ModelSize(33, 62, 8, "Redmon and Farhadi 2018, 416 x 416"),
}
"""Published sizes by model; quoted from memory, not checked against the papers."""

OTHERS = {
    "bert": ModelFacts(
        "bert", "T4", {"V100": 2.50, "A100": 4.15, "RTX6000": 2.29, "RTX2080Ti": 1.91}, 0.45,
        SIZES["bert"], SIA,
    ),
    "deepspeech2": ModelFacts(
        "deepspeech2", "T4", {"V100": 2.00, "A100": 1.25, "RTX6000": 1.45, "RTX2080Ti": 1.62},
        0.92, None, SIA,
    ),
    "ncf": ModelFacts(
        "ncf", "T4", {"V100": 0.06, "A100": 0.84, "RTX6000": 0.63, "RTX2080Ti": 0.54}, 0.55,
        None, SIA,
    ),
    "yolov3": ModelFacts(
        "yolov3", "T4", {"V100": 1.55, "A100": 1.34, "RTX6000": 1.62, "RTX2080Ti": 0.62}, 0.54,
        SIZES["yolov3"], SIA,
    ),
    "gpt": ModelFacts("gpt", "T4", {"V100": 3.36}, None, SIZES["gpt"], NEUSIGHT),
    "vgg16": ModelFacts("vgg16", size=SIZES["vgg16"]),
    "inception3": ModelFacts("inception3", size=SIZES["inception3"]),
}  # fmt: skip
"""Models besides Gavel's seven. Sia: one device against one T4, medians over batch sizes; spread:
T4s, two on two nodes against one, four on two or four nodes against one."""

ALIASES = {
    "cifar10": "resnet18",
    "imagenet": "resnet50",
    "resnet50cifar10": "resnet50",
    "bertbase": "bert",
    "bertlarge": "bert",
    "gpt2": "gpt",
    "gpt3": "gpt",
    "gptpmp": "gpt",
    "vgg": "vgg16",
    "vgg19": "vgg16",
    "inception": "inception3",
    "inceptionv3": "inception3",
    "deepspeech": "deepspeech2",
    "neumf": "ncf",
    "yolo": "yolov3",
}
"""Other names of models, in lower case without punctuation."""


def facts(model: str | None) -> ModelFacts | None:
    """Return the facts about a model as users write it (`ResNet-50 (batch size 64)`), or None."""
    name, _ = measured.split_model(model)
    plain = _plain(name)
    return known().get(ALIASES.get(plain, plain))


@cache
def known() -> Mapping[str, ModelFacts]:
    """Return all known models by plain name."""
    families: dict[str, list[measured.ModelKey]] = {}
    for key in measured.models():
        families.setdefault(key.model, []).append(key)
    gavel_models = {_plain(name): _gavel(name, keys) for name, keys in families.items()}
    return {**gavel_models, **OTHERS}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _gavel(name: str, keys: list[measured.ModelKey]) -> ModelFacts:
    """Build the facts of a model of Gavel's table: medians over batch sizes, V100 against K80."""
    times, spread = [], []
    for key in keys:
        fast, slow = (measured.steps_per_s(gpu, key, 1) for gpu in ("v100", "k80"))
        assert fast and slow, "every model was measured on one device of each type"
        times.append(fast / slow)
        for count in (2, 4, 8):
            packed = measured.steps_per_s("v100", key, count)
            apart = measured.steps_per_s("v100", key, count, packed=False)
            if packed and apart:
                spread.append(apart / packed)
    return ModelFacts(
        name.lower(), "K80", {"V100": median(times)}, median(spread) if spread else 1.0,
        SIZES.get(_plain(name)), GAVEL,
    )  # fmt: skip


@cache
def _attainable(device: str) -> float:
    return attainable_tflops(catalogue.get(device), JobClass.COMPUTE_INTENSIVE)
