"""Operations, bytes and kernels of a training step, counted from a job's description.

Counts by kind of network are rules of thumb with a stated source; where the description leaves
a gap, a usual value fills it and the gap is named, so that whoever asks gets a wider band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from flyball.core.errors import BadInput
from flyball.predict.demand.formulas import number

TRAINING = 3.0
"""A step is one pass forward and about two backward."""
STATES = {"sgd": 0.0, "momentum": 1.0, "rmsprop": 1.0, "adagrad": 1.0, "adam": 2.0, "adamw": 2.0}
"""Numbers an optimiser keeps for each parameter."""
WIDTHS = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
"""Bytes of an activation."""


@dataclass(frozen=True)
class Kind:
    """A kind of network.

    Attributes:
        input_size: usual side of an image, length of a sequence, or nodes of a graph.
        parameters, layers: usual.
        kernels: launched for each layer in a step.
    """

    input_size: float
    parameters: float
    layers: float
    kernels: float


KINDS = {
    "mlp": Kind(1.0, 1e6, 4, 10),
    "cnn": Kind(224.0, 25.6e6, 50, 12),
    "rnn": Kind(128.0, 2e7, 2, 300),
    "transformer": Kind(512.0, 1.1e8, 12, 60),
    "recommendation": Kind(1.0, 1e8, 6, 20),
    "graph": Kind(1000.0, 1e5, 3, 20),
}
ALIASES = {
    **dict.fromkeys(("dnn", "fcn", "dense"), "mlp"),
    **dict.fromkeys(("resnet", "vgg", "mobilenet", "unet", "efficientnet", "yolo"), "cnn"),
    **dict.fromkeys(("lstm", "gru", "bigru"), "rnn"),
    **dict.fromkeys(("bert", "gpt", "llm", "vit", "t5"), "transformer"),
    **dict.fromkeys(("ncf", "dlrm", "autoencoder"), "recommendation"),
    **dict.fromkeys(("gcn", "gnn", "gat", "sage"), "graph"),
}
UNKNOWN = Kind(1.0, 2.5e7, 12, 30)
USUAL_BATCH = 32.0
CNN_REUSE = 320.0
"""Operations forward for each parameter of a ResNet-50 at 224 pixels: 8.2 GFLOP, 25.6 M."""
CNN_ACTIVATIONS = 2.5e7
"""Numbers it keeps for the backward pass, for one image."""
UNKNOWN_REUSE = 30.0


@dataclass(frozen=True)
class Counted:
    """A step in numbers, and what had to be guessed for it.

    Attributes:
        kind: of network; "" = not known.
        flops: of a whole step.
        weights: bytes of parameters, gradients and optimiser: on every device of a gang.
        activations: bytes of those of the whole batch: divided among the devices.
        passes: bytes that the passes read of the parameters.
        kernels: launched in a step.
        gaps: fields that were not stated or not understood.
    """

    kind: str
    flops: float
    weights: float
    activations: float
    passes: float
    kernels: float
    gaps: tuple[str, ...]

    def held(self, devices: int) -> float:
        """Bytes on each device of a gang."""
        return self.weights + self.activations / devices

    def moved(self, devices: int) -> float:
        """Bytes to and from the memory of each device in a step."""
        return self.weights + self.passes + 2.0 * self.activations / devices


def kind_of(model_type: str) -> str:
    """The kind of network of a type as users write it, "" if it is not known."""
    plain = "".join(each for each in model_type.lower() if each.isalpha())
    if plain in KINDS:
        return plain
    return next((kind for alias, kind in ALIASES.items() if plain.startswith(alias)), "")


def count(description: Mapping[str, object]) -> Counted:
    """Count a step.

    Args:
        description: `model_type`, `parameters`, `batch_size`, `input_size`, `layers`, `precision`,
            `optimizer`; all may be absent.

    Raises:
        BadInput: a number that is not one, or is not above 0.
    """
    gaps: list[str] = []
    kind = kind_of(str(description.get("model_type") or ""))
    if not kind:
        gaps.append("model_type")
    usual = KINDS.get(kind, UNKNOWN)
    parameters = _stated(description, "parameters", usual.parameters, gaps)
    batch = _stated(description, "batch_size", USUAL_BATCH, gaps)
    size = _stated(description, "input_size", usual.input_size, gaps)
    layers = _stated(description, "layers", usual.layers, gaps)
    width = WIDTHS[_word(description, "precision", WIDTHS, "fp32")]
    states = STATES[_word(description, "optimizer", STATES, "adam")]
    forward = _forward(kind, parameters, size, layers)
    activations = _activations(kind, parameters, size, layers) * batch * width
    master = 4.0 if width < 4.0 else 0.0
    weights = parameters * (2.0 * width + master + 4.0 * states)
    return Counted(
        kind=kind,
        flops=TRAINING * forward * batch,
        weights=weights,
        activations=activations,
        passes=parameters * width,
        kernels=layers * usual.kernels,
        gaps=tuple(gaps),
    )


def _forward(kind: str, parameters: float, size: float, layers: float) -> float:
    """Operations of one sample, forward."""
    if kind == "cnn":
        return CNN_REUSE * parameters * (size / KINDS["cnn"].input_size) ** 2
    if kind in ("transformer", "rnn"):
        attention = 4.0 * layers * size**2 * _hidden(parameters, layers)
        return 2.0 * parameters * size + (attention if kind == "transformer" else 0.0)
    if kind == "graph":
        return 2.0 * parameters * size
    return (2.0 if kind else UNKNOWN_REUSE) * parameters


def _activations(kind: str, parameters: float, size: float, layers: float) -> float:
    """Numbers kept for the backward pass of one sample."""
    if kind == "cnn":
        scale = math.sqrt(parameters / KINDS["cnn"].parameters)
        return CNN_ACTIVATIONS * scale * (size / KINDS["cnn"].input_size) ** 2
    if kind == "transformer":
        return 17.0 * size * _hidden(parameters, layers) * layers
    if kind == "rnn":
        return 10.0 * size * math.sqrt(parameters * layers)
    return 2.0 * math.sqrt(parameters * layers) * (size if kind == "graph" else 1.0)


def _hidden(parameters: float, layers: float) -> float:
    """Width of a transformer whose layers have 12 parameters for each pair of channels."""
    return math.sqrt(parameters / (12.0 * layers))


def _stated(row: Mapping[str, object], field: str, usual: float, gaps: list[str]) -> float:
    if row.get(field) in (None, ""):
        gaps.append(field)
        return usual
    return number(row, field)


def _word(row: Mapping[str, object], field: str, known: Mapping[str, float], usual: str) -> str:
    value = str(row.get(field) or usual).lower()
    if value not in known:
        raise BadInput(f"{field} {value!r} is not known", f"known: {', '.join(known)}")
    return value
