"""`Flyball/Govern-v0`: every few virtual minutes, choose how the scheduler decides.

**Task.** A cluster runs jobs under Flyball's compiled scheduler. Once an epoch the agent sets its
knobs. The scheduler does the rest: which job starts where and when, who is preempted, who moves.

**Action** (`Dict`): `strategy`, one of 8 sets of choices (`spaces.STRATEGIES`), and `residuals`,
ten numbers in -1..1 that move continuous knobs (`spaces.RESIDUALS`): the power cap of running jobs,
how soon idle nodes sleep, the weights of the queue's order, what a preemption or a move must gain.
Strategy 0 with residuals 0 is the incumbent, the setting `tuned`, exactly.

**Observation** (`Dict`, float32 in -10..10, the same shapes on every cluster; `spaces.LAYOUT`):
`pattern` (state of the node x pool x expected release), `queue` (devices asked for x class x
estimated run time), `cluster` (62 numbers), `forecast` (price, carbon, load x hours ahead x band),
`recent` (the last epochs), `priorities` (what the reward weighs). Estimates only, never true run
times; forecasts hold only what is public at that instant.

**Reward.** `alpha * throughput + beta * energy + gamma * balance`, each the difference to the
incumbent, which runs beside it in a clone made when the episode began, in parts of what the
incumbent spends in an epoch. throughput: time of jobs in the system. energy: money, grams of CO2
or energy, by the priorities, at equal work. balance: dispersion of the nodes' use. What the policy
leaves behind at the end is charged to the last step: both runs go on under the incumbent for
`tail` epochs. So the zero action earns 0 at every step, and rewards add up to the difference of
the two runs. `GovernSettings.resync` has the clone made anew from the policy's state more often.

**Episode.** A problem drawn from `Domain` (cluster, jobs, load, quality of estimates, restart
costs, price and carbon, priorities), some epochs of burn-in under the incumbent, then at most
`epochs` steps (`truncated`), or until every job is final (`terminated`). Nothing that is held out
of training (`data/held_out.yaml`) is drawn. `reset(options={"workload_seed": N})` fixes the jobs;
held-out seeds are refused.

**Info.** `masks`: `strategies` and `residuals` (a row per strategy) that change anything on this
cluster. After a step also `terms` (throughput, energy, balance), `gains` and `incumbent` (totals of
the epoch, `stepping.fields.GAINS`).

**Version.** v0: observation layout `spaces.VERSION` 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from flyball.core.errors import BadInput
from flyball.learn.env.govern import TERMS, GovernBatch, GovernSettings, Step
from flyball.learn.env.problems import draw_problem
from flyball.learn.env.spaces import BOUND, LAYOUT, RESIDUALS, STRATEGIES, Vector, split

Observation = dict[str, Vector]


def observation_space() -> Any:
    """Return the space of observations."""
    return gym_spaces.Dict(
        {part.name: gym_spaces.Box(-BOUND, BOUND, part.shape, np.float32) for part in LAYOUT}
    )


def action_space() -> Any:
    """Return the space of actions."""
    return gym_spaces.Dict(
        {
            "strategy": gym_spaces.Discrete(len(STRATEGIES)),
            "residuals": gym_spaces.Box(-1.0, 1.0, (len(RESIDUALS),), np.float32),
        }
    )


def _settings(settings: GovernSettings | None, changes: dict[str, Any]) -> GovernSettings:
    try:
        return replace(settings or GovernSettings(), **changes)
    except TypeError as error:
        raise BadInput(f"no such setting of the environment: {error}") from None


class GovernEnv(gymnasium.Env[Observation, dict[str, Any]]):
    __doc__ = __doc__

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, settings: GovernSettings | None = None, **changes: Any) -> None:
        """
        Args:
            settings: of the episodes.
            changes: to single fields of them, e.g. `epoch_s=300`.
        """
        self.observation_space = observation_space()
        self.action_space = action_space()
        self._batch = GovernBatch(1, _settings(settings, changes))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of the problems drawn from now on.
            options: `workload_seed` fixes the jobs.

        Raises:
            BadInput: the jobs' seed is held out of training.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._batch.reseed(0, seed)
        problem = None
        if options and "workload_seed" in options:
            rng = self._batch.rng(0)
            domain = self._batch.settings.domain
            problem = draw_problem(domain, rng, int(options["workload_seed"]))
        seen = self._batch.reset(0, problem)
        return _copied(seen), {"masks": self._batch.masks(0)}

    def step(self, action: dict[str, Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Go an epoch further under an action."""
        step = self._batch.step([int(action["strategy"])], [action["residuals"]])
        info = {"masks": self._batch.masks(0), **_info(step, 0)}
        done = bool(step.terminated[0]), bool(step.truncated[0])
        return _copied(step.observations[0]), float(step.rewards[0]), *done, info


class GovernVectorEnv(VectorEnv[Observation, dict[str, Any], Any]):
    """Steps many episodes of `Flyball/Govern-v0` at once, in compiled code on both cores.

    A run whose episode is over begins another one in the same step (`AutoresetMode.SAME_STEP`):
    `info["final_obs"]` has the last observation of the old one.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int = 16, settings: GovernSettings | None = None, **changes: Any
    ) -> None:
        """
        Args:
            num_envs: episodes side by side.
            settings: of the episodes.
            changes: to single fields of them.
        """
        self.num_envs = num_envs
        self.single_observation_space = observation_space()
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch = GovernBatch(num_envs, _settings(settings, changes))

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin every episode anew; run `n` draws from seed + n, or from the n-th seed."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        if isinstance(seed, int):
            seed = [seed + run for run in range(self.num_envs)]
        for run, value in enumerate(seed or []):
            if value is not None:
                self._batch.reseed(run, value)
        return split(self._batch.reset_all()), {"masks": self._masks()}

    def step(self, actions: dict[str, Any]) -> tuple[Observation, Vector, Any, Any, dict[str, Any]]:
        """Go an epoch further in every run."""
        step = self._batch.step(actions["strategy"], actions["residuals"])
        observations = step.observations
        over = np.flatnonzero(step.terminated | step.truncated).tolist()
        info: dict[str, Any] = {
            "terms": step.terms, "gains": step.gains, "incumbent": step.incumbents,
        }  # fmt: skip
        if over:
            info["final_obs"] = split(observations.copy())
            info["_final_obs"] = step.terminated | step.truncated
            for run in over:
                observations[run] = self._batch.reset(run)
        info["masks"] = self._masks()
        return split(observations), step.rewards, step.terminated, step.truncated, info

    def _masks(self) -> dict[str, Any]:
        masks = [self._batch.masks(run) for run in range(self.num_envs)]
        return {name: np.stack([mask[name] for mask in masks]) for name in masks[0]}


def _copied(seen: Vector) -> Observation:
    return {name: part.copy() for name, part in split(seen).items()}


def _info(step: Step, run: int) -> dict[str, Any]:
    return {
        "terms": dict(zip(TERMS, step.terms[run].tolist(), strict=True)),
        "gains": step.gains[run],
        "incumbent": step.incumbents[run],
    }
