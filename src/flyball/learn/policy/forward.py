"""Computes what a policy's net says, in numpy: no torch is needed to serve it.

Tensors of a policy file; `in` is the length of an observation (`spaces.SIZE`), S the number of
strategies, K that of residuals. Weights are laid out as torch lays them out.

    norm.mean, norm.scale     in               an observation is normalised to (x - mean) / scale
    range.low, range.high     in               least and largest value seen in training
    conv1.weight, .bias       C1 x 5 x 3 x 3   over the pattern, padded by 1; then ReLU
    conv2.weight, .bias       C2 x C1 x 3 x 3  stride 2, padded by 1; then ReLU
    embed.weight, .bias       E x ...          of C2 x 4 x 4 maps and the rest of the observation
    lstm.weight_ih, .bias_ih  4H x E           gates i, f, g, o; over epochs
    lstm.weight_hh, .bias_hh  4H x H
    hidden0.weight, .bias     H0 x in          kind `mlp`: none or more layers instead of the above
    value.weight, .bias       1 x H            value of the state
    advantage.weight, .bias   S x H            dueling: q = value + advantage - its mean
    mean.weight, .bias        K x H or SK x H  of the residuals, before tanh; with S K rows those of
                                               the chosen strategy
    rule.weight, .bias        S + K x in       optional: a rule that the net adds to. Sums of the
                                               observation as it is, added to the q and, before
                                               tanh, to the residuals

The strategy is that of the highest q among those of the mask; the residuals are tanh(mean).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.learn.env.spaces import (
    LAYOUT,
    RESIDUALS,
    SIZE,
    SLICES,
    STRATEGIES,
    Action,
    Vector,
    join,
)
from flyball.learn.policy.artifact import REMEDY, PolicyFile

PATTERN_SHAPE = next(part.shape for part in LAYOUT if part.name == "pattern")
PATTERN = SLICES["pattern"]
KERNEL = 3
Mask = npt.NDArray[np.bool_]
HALF = (PATTERN_SHAPE[1] + 1) // 2, (PATTERN_SHAPE[2] + 1) // 2
"""Rows and columns after a stride of 2."""
_NO_RULE: Vector = np.zeros(len(STRATEGIES) + len(RESIDUALS), np.float32)


class Output(NamedTuple):
    """Holds what the net says.

    Attributes:
        q: value of each strategy.
        residuals: of the strategy with the highest.
        hidden: last hidden layer, and the memory of the LSTM after it.
    """

    q: Vector
    residuals: Vector
    hidden: Vector


class Net:
    """Computes the outputs of a policy file's net; it remembers epochs if it has an LSTM.

    Attributes:
        file: the policy.
        has_rule: whether it adds to a rule.
        h, c: memory of the LSTM.
    """

    def __init__(self, file: PolicyFile) -> None:
        """
        Raises:
            BadInput: tensors are missing or of the wrong shapes.
        """
        self.file = file
        tensors = dict(file.tensors)
        self._t = tensors
        self._recurrent = file.card["kind"] == "conv-lstm"
        self._tanh = file.card.get("activation", "relu") == "tanh"
        self.has_rule = "rule.weight" in tensors
        _Shapes(file).check(self._recurrent)
        self._scale: Vector = np.maximum(tensors["norm.scale"], np.float32(1e-6))
        self._hidden = sum(name.startswith("hidden") for name in tensors) // 2
        self.reset()

    def reset(self) -> None:
        """Forget the epochs before."""
        size = self._t["lstm.weight_hh"].shape[1] if self._recurrent else 0
        self.h: Vector = np.zeros(size, np.float32)
        self.c: Vector = np.zeros(size, np.float32)

    def fresh(self) -> Net:
        """Return the same without a memory."""
        return type(self)(self.file)

    def normalised(self, observation: Vector) -> Vector:
        """Return an observation as the net reads it."""
        out: Vector = (observation - self._t["norm.mean"]) / self._scale
        return out

    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        """Return the outputs for an observation; the memory goes an epoch further.

        Args:
            observation: `spaces.SIZE` numbers.
            mask: strategies that may be chosen; None = all.
        """
        hidden, self.h, self.c = self.hidden_of(self.normalised(observation), self.h, self.c)
        q = self._linear("advantage", hidden)
        q = q - q.mean() + self._linear("value", hidden)[0]
        rule = self._linear("rule", observation) if self.has_rule else _NO_RULE
        q = q + rule[: len(STRATEGIES)]
        allowed = q if mask is None else np.where(mask, q, -np.inf)
        best = int(np.argmax(allowed))
        means = self._linear("mean", hidden).reshape(-1, len(RESIDUALS))
        residuals = np.tanh(means[best if len(means) > 1 else 0] + rule[len(STRATEGIES) :])
        return Output(q.astype(np.float32), residuals.astype(np.float32), hidden)

    def act(self, observation: Mapping[str, Vector]) -> Action:
        """Return the action for the next epoch (`spaces.Actor`)."""
        out = self.forward(join(observation))
        return Action(int(np.argmax(out.q)), out.residuals)

    def hidden_of(self, x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector, Vector]:
        """Return the last hidden layer for a normalised observation, and the memory after it."""
        if not self._recurrent:
            for at in range(self._hidden):
                x = self._activated(self._linear(f"hidden{at}", x))
            return x, h, c
        seen = self._convolved(x[PATTERN].reshape(PATTERN_SHAPE))
        rest = np.concatenate([x[: PATTERN.start], x[PATTERN.stop :]])
        embedded = self._activated(self._linear("embed", np.concatenate([seen, rest])))
        i, f, g, o = self._gates(embedded, h)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        return h, h, c

    def tensor(self, name: str) -> Vector:
        """Return a tensor of the file."""
        return self._t[name]

    def rule_gradient(self, of_outputs: Vector) -> Vector:
        """Return the gradient by the normalised observation of what the rule adds.

        Args:
            of_outputs: weights of the values and of the residuals before tanh.
        """
        if not self.has_rule:
            return np.zeros(SIZE, np.float32)
        out: Vector = (of_outputs @ self._t["rule.weight"]) * self._scale
        return out

    def gradient(self, x: Vector, h: Vector, c: Vector, of_hidden: Vector) -> Vector:
        """Return the gradient by the normalised observation of a linear function of the hidden.

        Args:
            x, h, c: what `hidden_of` was given.
            of_hidden: the function's weights.
        """
        if not self._recurrent:
            return self._gradient_of_layers(x, of_hidden)
        seen = self._convolved(x[PATTERN].reshape(PATTERN_SHAPE))
        rest = np.concatenate([x[: PATTERN.start], x[PATTERN.stop :]])
        before = self._linear("embed", np.concatenate([seen, rest]))
        gates = self._gates(self._activated(before), h)
        i, f, g, o = _sigmoid(gates[0]), _sigmoid(gates[1]), np.tanh(gates[2]), _sigmoid(gates[3])
        memory = np.tanh(f * c + i * g)
        of_c: Vector = of_hidden * o * (1 - memory**2)
        of_gates = np.concatenate(
            [
                of_c * g * i * (1 - i),
                of_c * c * f * (1 - f),
                of_c * i * (1 - g**2),
                of_hidden * memory * o * (1 - o),
            ]
        )
        of_embedded: Vector = (of_gates @ self._t["lstm.weight_ih"]) * self._slope(before)
        of_joined: Vector = of_embedded @ self._t["embed.weight"]
        out = np.zeros_like(x)
        out[PATTERN.stop :] = of_joined[len(seen) :]
        out[PATTERN] = self._gradient_of_maps(x, seen, of_joined[: len(seen)])
        return out

    def _gradient_of_maps(self, x: Vector, seen: Vector, of_seen: Vector) -> Vector:
        """Return the gradient by the pattern, from that by its maps."""
        pattern = x[PATTERN].reshape(PATTERN_SHAPE)
        first = np.maximum(_conv(pattern, self._t["conv1.weight"], self._t["conv1.bias"], 1), 0.0)
        second = (of_seen * (seen > 0)).reshape(-1, *HALF)
        of_first = _conv_back(second, self._t["conv2.weight"], first.shape, 2) * (first > 0)
        return _conv_back(of_first, self._t["conv1.weight"], PATTERN_SHAPE, 1).reshape(-1)

    def _gradient_of_layers(self, x: Vector, of_hidden: Vector) -> Vector:
        slopes = []
        for at in range(self._hidden):
            before = self._linear(f"hidden{at}", x)
            slopes.append(self._slope(before))
            x = self._activated(before)
        for at in reversed(range(self._hidden)):
            of_hidden = np.asarray(
                (of_hidden * slopes[at]) @ self._t[f"hidden{at}.weight"], np.float32
            )
        return of_hidden

    def _slope(self, before: Vector) -> Vector:
        """Return the derivative of the activation."""
        if self._tanh:
            slope: Vector = 1 - np.tanh(before) ** 2
            return slope
        return (before > 0).astype(np.float32)

    def _gates(self, embedded: Vector, h: Vector) -> Vector:
        gates = self._t["lstm.weight_ih"] @ embedded + self._t["lstm.bias_ih"]
        gates = gates + self._t["lstm.weight_hh"] @ h + self._t["lstm.bias_hh"]
        out: Vector = gates.reshape(4, -1)
        return out

    def _convolved(self, pattern: Vector) -> Vector:
        first = np.maximum(_conv(pattern, self._t["conv1.weight"], self._t["conv1.bias"], 1), 0.0)
        second = _conv(first, self._t["conv2.weight"], self._t["conv2.bias"], 2)
        flat: Vector = np.maximum(second, 0.0).reshape(-1)
        return flat

    def _linear(self, name: str, x: Vector) -> Vector:
        out: Vector = self._t[f"{name}.weight"] @ x + self._t[f"{name}.bias"]
        return out

    def _activated(self, x: Vector) -> Vector:
        return np.tanh(x) if self._tanh else np.maximum(x, np.float32(0.0))


def _sigmoid(x: Vector) -> Vector:
    out: Vector = np.float32(0.5) * (np.float32(1.0) + np.tanh(np.float32(0.5) * x))
    return out


def _conv(x: Vector, weight: Vector, bias: Vector, stride: int) -> Vector:
    """Return a 3 x 3 convolution of channels x rows x columns, padded by one."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))
    windows = windows[:, ::stride, ::stride]
    rows, columns = windows.shape[1:3]
    flat = windows.transpose(1, 2, 0, 3, 4).reshape(rows * columns, -1)
    out: Vector = (flat @ weight.reshape(len(weight), -1).T + bias).T
    return out.reshape(len(weight), rows, columns)


def _conv_back(of_out: Vector, weight: Vector, shape: tuple[int, ...], stride: int) -> Vector:
    """Return the gradient by a convolution's input, from that by its output."""
    padded = np.zeros((shape[0], shape[1] + 2, shape[2] + 2), np.float32)
    rows, columns = of_out.shape[1:]
    for row in range(KERNEL):
        for column in range(KERNEL):
            part = np.tensordot(weight[:, :, row, column], of_out, axes=(0, 0))
            padded[
                :,
                row : row + stride * rows : stride,
                column : column + stride * columns : stride,
            ] += part
    return padded[:, 1:-1, 1:-1]


class _Shapes:
    """Checks that a policy's tensors fit together."""

    def __init__(self, file: PolicyFile) -> None:
        self._file = file

    def check(self, recurrent: bool) -> None:
        """Refuse tensors that are missing or of the wrong shapes."""
        for name in ("norm.mean", "norm.scale", "range.low", "range.high"):
            self._expect(name, (SIZE,))
        last = self._recurrent() if recurrent else self._layers()
        for name, rows in (("value", 1), ("advantage", len(STRATEGIES))):
            self._layer(name, last, rows)
        rows = self._shape("mean.weight")[0] if self._shape("mean.weight") else 0
        if rows not in (len(RESIDUALS), len(RESIDUALS) * len(STRATEGIES)):
            raise self._bad("mean.weight", f"{rows} rows")
        self._layer("mean", last, rows)
        if "rule.weight" in self._file.tensors:
            self._layer("rule", SIZE, len(STRATEGIES) + len(RESIDUALS))

    def _recurrent(self) -> int:
        first = self._conv("conv1", PATTERN_SHAPE[0])
        second = self._conv("conv2", first)
        joined = second * math.prod(HALF) + SIZE - math.prod(PATTERN_SHAPE)
        embedded = self._layer("embed", joined)
        rows = self._shape("lstm.weight_hh")
        size = rows[1] if len(rows) == 2 else 0
        self._expect("lstm.weight_hh", (4 * size, size))
        self._expect("lstm.weight_ih", (4 * size, embedded))
        self._expect("lstm.bias_ih", (4 * size,))
        self._expect("lstm.bias_hh", (4 * size,))
        return size

    def _layers(self) -> int:
        last, at = SIZE, 0
        while f"hidden{at}.weight" in self._file.tensors:
            last = self._layer(f"hidden{at}", last)
            at += 1
        return last

    def _conv(self, name: str, channels: int) -> int:
        shape = self._shape(f"{name}.weight")
        count = shape[0] if shape else 0
        self._expect(f"{name}.weight", (count, channels, KERNEL, KERNEL))
        self._expect(f"{name}.bias", (count,))
        return count

    def _layer(self, name: str, inputs: int, rows: int | None = None) -> int:
        shape = self._shape(f"{name}.weight")
        rows = rows if rows is not None else (shape[0] if shape else 0)
        self._expect(f"{name}.weight", (rows, inputs))
        self._expect(f"{name}.bias", (rows,))
        return rows

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self._file.tensors:
            raise self._bad(name, "nothing")
        return self._file.tensors[name].shape

    def _expect(self, name: str, shape: tuple[int, ...]) -> None:
        actual = self._shape(name)
        if actual != shape or 0 in shape:
            raise self._bad(name, f"shape {actual}, not {shape}")

    def _bad(self, name: str, what: str) -> BadInput:
        return BadInput(
            f"policy file {self._file.path} is foreign or damaged: tensor {name} has {what}", REMEDY
        )
