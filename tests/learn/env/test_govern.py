"""Govern-v0: the zero action is the incumbent, rewards add up, nothing held out is drawn."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from flyball.core.errors import BadInput
from flyball.learn.env.govern import GovernBatch, GovernSettings
from flyball.learn.env.govern_env import GovernEnv, GovernVectorEnv
from flyball.learn.env.problems import Domain
from flyball.learn.env.spaces import BOUND, RESIDUALS, SIZE, split

SMALL = GovernSettings(
    epochs=6, burn_in=3, tail=2, domain=Domain(jobs=(60, 80), groups=(1, 2), nodes=(1, 2))
)
NONE = np.zeros(len(RESIDUALS))


def test_the_registered_environment_passes_the_checker() -> None:
    env = gymnasium.make("flyball.learn.env.register:Flyball/Govern-v0", settings=SMALL)
    check_env(env.unwrapped, skip_render_check=True)


def test_the_zero_action_earns_nothing() -> None:
    batch = GovernBatch(3, SMALL, seed=5)
    batch.reset_all()
    for _ in range(SMALL.epochs):
        step = batch.step(np.zeros(3), np.tile(NONE, (3, 1)))
        assert not step.rewards.any() and not step.terms.any()
        assert np.array_equal(step.gains, step.incumbents)


def test_another_action_changes_what_happens_and_is_bounded() -> None:
    batch = GovernBatch(2, SMALL, seed=6)
    batch.reset_all()
    residuals = np.tile(NONE, (2, 1))
    residuals[:, 0] = -1.0  # the strongest cap
    rewards = np.zeros(2)
    for _ in range(SMALL.epochs):
        step = batch.step(np.zeros(2), residuals)
        rewards += step.rewards
        assert np.abs(step.observations).max() <= BOUND and step.observations.dtype == np.float32
    assert step.truncated.all() and rewards.all()


def test_the_same_seed_gives_the_same_episode_on_any_number_of_threads() -> None:
    def run(threads: int) -> list[float]:
        env = GovernVectorEnv(3, SMALL, threads=threads)
        env.reset(seed=11)
        rng = np.random.default_rng(0)
        rewards = []
        for _ in range(8):
            action = {
                "strategy": rng.integers(8, size=3),
                "residuals": rng.uniform(-1, 1, (3, len(RESIDUALS))),
            }
            seen, reward, *_ = env.step(action)
            rewards += [*reward.tolist(), float(seen["cluster"].sum())]
        return rewards

    assert run(1) == run(2)


def test_single_and_vector_environment_agree() -> None:
    single, vector = GovernEnv(SMALL), GovernVectorEnv(1, SMALL)
    first, _ = single.reset(seed=3)
    many, _ = vector.reset(seed=3)
    action = {"strategy": 2, "residuals": np.full(len(RESIDUALS), 0.3, np.float32)}
    for _ in range(3):
        for name, part in first.items():
            assert np.array_equal(part, many[name][0])
        first, reward, *_ = single.step(action)
        many, rewards, *_ = vector.step({k: np.array([v]) for k, v in action.items()})
        assert reward == rewards[0]


def test_held_out_seeds_are_refused() -> None:
    with pytest.raises(BadInput, match="seed 7 is held out"):
        GovernEnv(SMALL).reset(options={"workload_seed": 7})
    env = GovernEnv(SMALL)
    first, _ = env.reset(seed=1, options={"workload_seed": 1_234})
    again, _ = env.reset(seed=1, options={"workload_seed": 1_234})
    assert all(np.array_equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize("changes", [{"epoch_s": 60}, {"epochs": 0}, {"nonsense": 1}])
def test_settings_out_of_range_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        GovernEnv(SMALL, **changes)


def test_parts_of_an_observation_are_views() -> None:
    vector = np.arange(SIZE, dtype=np.float32)
    parts = split(vector)
    assert sum(part.size for part in parts.values()) == SIZE
    assert np.shares_memory(parts["queue"], vector)
