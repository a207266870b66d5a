"""The agent: it begins as the incumbent, learns what pays, and its files choose what it chooses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flyball.learn.agent import Agent, Settings
from flyball.learn.env.spaces import RESIDUALS, SIZE, STRATEGIES
from flyball.learn.nets import BODIES, Memo, Rule
from flyball.learn.policy import artifact
from flyball.learn.rivals.affine import affine_at, first_point
from flyball.learn.served import load_policy

RUNS = 8
ALL = np.ones((RUNS, len(STRATEGIES)), np.bool_)
TINY: dict[str, Any] = {"environments": RUNS, "rollout": 8, "width": 16, "memory": 8, "batch": 32}


def _seen(rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return rng.uniform(-1, 1, (RUNS, SIZE)).astype(np.float32)


def _rule_point() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    size = len(first_point("linear"))
    return np.random.default_rng(5).normal(0.0, 0.3, size)


def _rule() -> Rule:
    tensors = affine_at("linear", _rule_point()).tensors()
    weight, bias = (
        np.concatenate([tensors[f"advantage.{part}"], tensors[f"mean.{part}"]])
        for part in ("weight", "bias")
    )
    return Rule(weight, bias)


@pytest.mark.parametrize("body", BODIES)
def test_an_agent_that_learned_nothing_is_the_incumbent(body: str) -> None:
    agent = Agent(Settings(body=body, **TINY), seed=1)
    memo = agent.net.blank(RUNS)
    for _ in range(3):
        seen = _seen(np.random.default_rng(0))
        chosen, memo = agent.act(seen, ALL, memo, explore=False)
        assert not chosen.strategies.any() and not chosen.residuals.any()


@pytest.mark.parametrize("kind", ["hybrid", "dqn", "pg"])
@pytest.mark.parametrize("body", BODIES)
def test_an_agent_that_learned_nothing_is_the_rule_it_was_given(kind: str, body: str) -> None:
    agent = Agent(Settings(kind=kind, body=body, **TINY), seed=1, rule=_rule())
    policy = affine_at("linear", _rule_point())
    for draw in range(3):
        seen = _seen(np.random.default_rng(draw))
        chosen, _ = agent.act(seen, ALL, agent.net.blank(RUNS), explore=False)
        strategies, residuals = policy.choose(np.arange(RUNS), seen, np.full(RUNS, 4))
        assert np.array_equal(chosen.strategies, strategies) and len(set(strategies.tolist())) > 1
        assert np.allclose(chosen.residuals, residuals, atol=1e-4) and residuals.any()


@pytest.mark.parametrize("kind", ["hybrid", "dqn", "pg"])
def test_it_learns_which_strategy_and_which_residual_pay(kind: str) -> None:
    settings = Settings(
        kind=kind, body="mlp", learning_rate=1e-2, discount=0.0, steps=1, epsilon=0.5,
        entropy=1e-3, **TINY,
    )  # fmt: skip
    agent, rng = Agent(settings, seed=3), np.random.default_rng(0)
    wanted, cap = 3, 0.5
    memo = agent.net.blank(RUNS)
    for call in range(60):
        agent.progress = call / 60
        for _ in range(settings.rollout):
            seen = _seen(rng)
            chosen, _ = agent.act(seen, ALL, memo, explore=True)
            rewards = (chosen.strategies == wanted) - (chosen.residuals[:, 0] - cap) ** 2
            over = np.ones(RUNS, np.bool_)
            agent.remember(seen, ALL, memo, chosen, rewards, seen, ALL, memo, over)
        losses = agent.learn()
        assert np.isfinite(list(losses.values())).all()
    chosen, _ = agent.act(_seen(rng), ALL, memo, explore=False)
    assert (chosen.strategies == wanted).all()
    if kind == "dqn":
        assert not chosen.residuals.any()
    else:
        assert np.abs(chosen.residuals[:, 0] - cap).mean() < 0.3


def test_a_strategy_that_is_not_allowed_is_never_chosen() -> None:
    for kind in ("hybrid", "pg"):
        agent = Agent(Settings(kind=kind, epsilon=0.9, **TINY), seed=1)
        allowed = ALL.copy()
        allowed[:, [0, 2, 5]] = False
        rng, memo = np.random.default_rng(0), agent.net.blank(RUNS)
        for _ in range(30):
            chosen, memo = agent.act(_seen(rng), allowed, memo, explore=True)
            assert not np.isin(chosen.strategies, [0, 2, 5]).any()


def test_schedules_fall_over_the_training() -> None:
    agent = Agent(Settings(epsilon=0.4, last_epsilon=0.1, explored=0.5, **TINY), seed=1)
    values = []
    for part in (0.0, 0.25, 0.5, 1.0):
        agent.progress = part
        values.append(agent.epsilon)
    assert values == pytest.approx([0.4, 0.25, 0.1, 0.1])


@pytest.mark.parametrize("kind", ["hybrid", "pg", "dqn"])
def test_it_imitates_a_teacher(kind: str) -> None:
    agent, rng = Agent(Settings(kind=kind, body="mlp", **TINY), seed=2), np.random.default_rng(0)
    seen = rng.uniform(-1, 1, (64, SIZE)).astype(np.float32)
    residuals = np.zeros((64, len(RESIDUALS)))
    residuals[:, 0] = -0.5
    agent.imitate(seen, np.full(64, 2), residuals, passes=150)
    chosen, _ = agent.act(seen[:RUNS], ALL, agent.net.blank(RUNS), explore=False)
    assert (chosen.strategies == 2).all()
    if kind != "dqn":
        assert np.abs(chosen.residuals[:, 0] + 0.5).mean() < 0.2


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("has_rule", [False, True])
def test_a_file_chooses_what_the_net_chooses_epoch_after_epoch(
    body: str, has_rule: bool, tmp_path: Path
) -> None:
    rule = _rule() if has_rule else None
    agent, rng = Agent(Settings(body=body, **TINY), seed=4, rule=rule), np.random.default_rng(1)
    with torch.no_grad():
        for parameter in agent.net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        agent.net.mean.uniform_(-0.2, 0.2)
        agent.net.scale.uniform_(0.5, 2.0)
    ranges = {"range.low": np.full(SIZE, -9.0), "range.high": np.full(SIZE, 9.0)}
    tensors = {**agent.net.tensors(True), **{k: v.astype(np.float32) for k, v in ranges.items()}}
    path = tmp_path / "p.safetensors"
    artifact.write(path, tensors, {"kind": body, "activation": "relu", "epoch_s": 1800.0})
    served, memo = load_policy(path).begin(RUNS), agent.net.blank(RUNS)
    for _ in range(4):
        seen = _seen(rng)
        here, memo = agent.act(seen, ALL, Memo(*memo), explore=False)
        strategies, residuals = served.choose(np.arange(RUNS), seen, np.full(RUNS, 4))
        assert np.array_equal(strategies, here.strategies)
        assert np.allclose(residuals, here.residuals, atol=1e-4)
