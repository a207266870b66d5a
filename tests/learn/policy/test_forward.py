"""The forward pass in numpy is that of torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.learn.policy.policy_files import conv_lstm, mlp

from flyball.learn.env.spaces import RESIDUALS, SIZE, STRATEGIES
from flyball.learn.policy.artifact import read, write
from flyball.learn.policy.forward import PATTERN, PATTERN_SHAPE, Net


def _net(path: Path, tensors: dict[str, np.ndarray], kind: str, activation: str = "relu") -> Net:
    path = path / "policy.safetensors"
    write(path, tensors, {"kind": kind, "epoch_s": 600, "activation": activation})
    return Net(read(path))


def _observations(count: int) -> np.ndarray:
    return np.random.default_rng(3).normal(0.0, 1.0, (count, SIZE)).astype(np.float32)


def test_convolutions_and_lstm_are_those_of_torch(tmp_path: Path) -> None:
    tensors = conv_lstm()
    t = {name: torch.from_numpy(part) for name, part in tensors.items()}
    net = _net(tmp_path, tensors, "conv-lstm")
    cell = torch.nn.LSTMCell(10, 7)
    cell.load_state_dict(
        {name.removeprefix("lstm."): t[name] for name in t if name.startswith("lstm.")}
    )
    memory = (torch.zeros(1, 7), torch.zeros(1, 7))
    for seen in _observations(4):
        x = torch.from_numpy(seen)
        maps = torch.relu(
            torch.conv2d(
                x[PATTERN].reshape(1, *PATTERN_SHAPE), t["conv1.weight"], t["conv1.bias"], padding=1
            )
        )
        maps = torch.relu(
            torch.conv2d(maps, t["conv2.weight"], t["conv2.bias"], padding=1, stride=2)
        )
        joined = torch.cat([maps.flatten(), x[PATTERN.stop :]])
        memory = cell(torch.relu(t["embed.weight"] @ joined + t["embed.bias"])[None], memory)
        h = memory[0][0]
        advantage = t["advantage.weight"] @ h + t["advantage.bias"]
        q = advantage - advantage.mean() + t["value.weight"] @ h + t["value.bias"]
        best = int(q.argmax())
        means = (t["mean.weight"] @ h + t["mean.bias"]).reshape(len(STRATEGIES), len(RESIDUALS))
        out = net.forward(seen)
        np.testing.assert_allclose(out.q, q.detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(
            out.residuals, torch.tanh(means[best]).detach().numpy(), atol=1e-5
        )
    net.reset()
    assert not net.h.any()


@pytest.mark.parametrize(
    ("hidden", "activation"), [((), "relu"), ((12, 8), "relu"), ((5,), "tanh")]
)
def test_layers_are_those_of_torch(
    tmp_path: Path, hidden: tuple[int, ...], activation: str
) -> None:
    tensors = mlp(hidden)
    net = _net(tmp_path, tensors, "mlp", activation)
    seen = _observations(1)[0]
    x = torch.from_numpy(seen)
    for at in range(len(hidden)):
        x = torch.from_numpy(tensors[f"hidden{at}.weight"]) @ x + torch.from_numpy(
            tensors[f"hidden{at}.bias"]
        )
        x = torch.tanh(x) if activation == "tanh" else torch.relu(x)
    mean = torch.from_numpy(tensors["mean.weight"]) @ x + torch.from_numpy(tensors["mean.bias"])
    np.testing.assert_allclose(net.forward(seen).residuals, torch.tanh(mean).numpy(), atol=1e-5)


def test_a_mask_keeps_a_strategy_from_being_chosen(tmp_path: Path) -> None:
    net = _net(tmp_path, conv_lstm(), "conv-lstm")
    seen = _observations(1)[0]
    free = net.forward(seen)
    best = int(free.q.argmax())
    net.reset()
    mask = np.ones(len(STRATEGIES), bool)
    mask[best] = False
    assert not np.array_equal(net.forward(seen, mask).residuals, free.residuals)


@pytest.mark.parametrize("kind", ["mlp", "conv-lstm"])
def test_the_gradient_is_that_of_differences(tmp_path: Path, kind: str) -> None:
    net = _net(tmp_path, mlp() if kind == "mlp" else conv_lstm(), kind)
    first, second = _observations(2)
    net.forward(first)
    x, h, c = net.normalised(second), net.h, net.c
    size = len(net.hidden_of(x, h, c)[0])
    weights = np.random.default_rng(1).normal(0.0, 1.0, size).astype(np.float32)
    gradient = net.gradient(x, h, c, weights)
    for at in np.random.default_rng(2).choice(SIZE, 40, replace=False).tolist():
        step = np.zeros(SIZE, np.float32)
        step[at] = 1e-2
        change = net.hidden_of(x + step, h, c)[0] - net.hidden_of(x - step, h, c)[0]
        assert gradient[at] == pytest.approx(float(change @ weights) / 2e-2, abs=2e-2)
