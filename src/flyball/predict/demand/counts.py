"""Operations, bytes and kernels of a training step, counted from a job's description.

Counts by kind of network are rules of thumb with a stated source; where the description has a
gap, a typical value fills it and the gap is reported, so that the estimate gets a wider band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from flyball.core.errors import BadInput
from flyball.predict.demand.formulas import number

TRAINING = 3.0
"""Cost of a step in forward passes: one forward and about two backward."""
STATES = {"sgd": 0.0, "momentum": 1.0, "rmsprop": 1.0, "adagrad": 1.0, "adam": 2.0, "adamw": 2.0}
"""Number of values an optimiser keeps for each parameter."""
WIDTHS = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
"""Bytes of an activation by precision."""


@dataclass(frozen=True)
class NetworkKind:
    """Holds typical values of a kind of network.

    Attributes:
        input_size: typical side of an image, length of a sequence, or nodes of a graph.
        parameters, layers: typical numbers.
        kernels: kernels launched for each layer in a step.
    """

    input_size: float
    parameters: float
    layers: float
    kernels: float


KINDS = {
    "mlp": NetworkKind(1.0, 1e6, 4, 10),
    "cnn": NetworkKind(224.0, 25.6e6, 50, 12),
    "rnn": NetworkKind(128.0, 2e7, 2, 300),
    "transformer": NetworkKind(512.0, 1.1e8, 12, 60),
    "recommendation": NetworkKind(1.0, 1e8, 6, 20),
    "graph": NetworkKind(1000.0, 1e5, 3, 20),
}
ALIASES = {
    **dict.fromkeys(("dnn", "fcn", "dense"), "mlp"),
    **dict.fromkeys(("resnet", "vgg", "mobilenet", "unet", "efficientnet", "yolo"), "cnn"),
    **dict.fromkeys(("lstm", "gru", "bigru"), "rnn"),
    **dict.fromkeys(("bert", "gpt", "llm", "vit", "t5"), "transformer"),
    **dict.fromkeys(("ncf", "dlrm", "autoencoder"), "recommendation"),
    **dict.fromkeys(("gcn", "gnn", "gat", "sage"), "graph"),
}
UNKNOWN = NetworkKind(1.0, 2.5e7, 12, 30)
TYPICAL_BATCH = 32.0
CNN_REUSE = 320.0
"""Forward operations per parameter of a ResNet-50 at 224 pixels: 8.2 GFLOP, 25.6 M."""
CNN_ACTIVATIONS = 2.5e7
"""Values that a ResNet-50 keeps for the backward pass of one image."""
UNKNOWN_REUSE = 30.0


@dataclass(frozen=True)
class StepCounts:
    """Holds the counts of a step, and which fields had to be guessed.

    Attributes:
        kind: kind of network; "" = not known.
        flops: operations of a whole step.
        weights: bytes of parameters, gradients and optimiser, on every device of a gang.
        activations: bytes of the activations of the whole batch, divided among the devices.
        passes: bytes of parameters that the passes read.
        kernels: kernels launched in a step.
        gaps: fields that were not stated or not recognised.
    """

    kind: str
    flops: float
    weights: float
    activations: float
    passes: float
    kernels: float
    gaps: tuple[str, ...]

    def held(self, devices: int) -> float:
        """Return the bytes held on each device of a gang."""
        return self.weights + self.activations / devices

    def moved(self, devices: int) -> float:
        """Return the bytes to and from the memory of each device in a step."""
        return self.weights + self.passes + 2.0 * self.activations / devices


def kind_of(model_type: str) -> str:
    """Return the kind of network of a type as users write it, "" if it is not known."""
    plain = "".join(letter for letter in model_type.lower() if letter.isalpha())
    if plain in KINDS:
        return plain
    return next((kind for alias, kind in ALIASES.items() if plain.startswith(alias)), "")


def count(description: Mapping[str, object]) -> StepCounts:
    """Count the operations and bytes of a step.

    Args:
        description: `model_type`, `parameters`, `batch_size`, `input_size`, `layers`, `precision`,
            `optimizer`; all may be absent.

    Raises:
        BadInput: a field is not a number above 0.
    """
    gaps: list[str] = []
    kind = kind_of(str(description.get("model_type") or ""))
    if not kind:
        gaps.append("model_type")
    typical = KINDS.get(kind, UNKNOWN)
    parameters = _stated(description, "parameters", typical.parameters, gaps)
    batch = _stated(description, "batch_size", TYPICAL_BATCH, gaps)
    size = _stated(description, "input_size", typical.input_size, gaps)
    layers = _stated(description, "layers", typical.layers, gaps)
    width = WIDTHS[_label(description, "precision", WIDTHS, "fp32")]
    states = STATES[_label(description, "optimizer", STATES, "adam")]
    forward = _forward(kind, parameters, size, layers)
    activations = _activations(kind, parameters, size, layers) * batch * width
    master = 4.0 if width < 4.0 else 0.0
    weights = parameters * (2.0 * width + master + 4.0 * states)
    return StepCounts(
        kind=kind,
        flops=TRAINING * forward * batch,
        weights=weights,
        activations=activations,
        passes=parameters * width,
        kernels=layers * typical.kernels,
        gaps=tuple(gaps),
    )


def _forward(kind: str, parameters: float, size: float, layers: float) -> float:
    """Return the forward operations of one sample."""
    if kind == "cnn":
        return CNN_REUSE * parameters * (size / KINDS["cnn"].input_size) ** 2
    if kind in ("transformer", "rnn"):
        attention = 4.0 * layers * size**2 * _hidden(parameters, layers)
        return 2.0 * parameters * size + (attention if kind == "transformer" else 0.0)
    if kind == "graph":
        return 2.0 * parameters * size
    return (2.0 if kind else UNKNOWN_REUSE) * parameters


def _activations(kind: str, parameters: float, size: float, layers: float) -> float:
    """Return the number of values kept for the backward pass of one sample."""
    if kind == "cnn":
        scale = math.sqrt(parameters / KINDS["cnn"].parameters)
        return CNN_ACTIVATIONS * scale * (size / KINDS["cnn"].input_size) ** 2
    if kind == "transformer":
        return 17.0 * size * _hidden(parameters, layers) * layers
    if kind == "rnn":
        return 10.0 * size * math.sqrt(parameters * layers)
    return 2.0 * math.sqrt(parameters * layers) * (size if kind == "graph" else 1.0)


def _hidden(parameters: float, layers: float) -> float:
    """Return the width of a transformer with 12 parameters per layer and pair of channels."""
    return math.sqrt(parameters / (12.0 * layers))


def _stated(row: Mapping[str, object], field: str, typical: float, gaps: list[str]) -> float:
    if row.get(field) in (None, ""):
        gaps.append(field)
        return typical
    return number(row, field)


def _label(row: Mapping[str, object], field: str, labels: Mapping[str, float], default: str) -> str:
    value = str(row.get(field) or default).lower()
    if value not in labels:
        raise BadInput(f"{field} {value!r} is not known", f"known: {', '.join(labels)}")
    return value
