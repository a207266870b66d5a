"""`Flyball/Pick-v0`: pick the job that starts next.

For researchers, and for comparison with published environments that pick jobs one by one.

**Task.** Jobs arrive at a cluster. At every step the agent names a waiting job. If it fits, the
twin starts it at once, where its place rule puts it (best fit); if not, time passes until it fits,
and nobody else starts meanwhile: there is no backfilling, no preemption and no sharing of devices.
Then time passes until a job waits.

**Action** (`Discrete(128)`): a slot of the observation. An empty slot stands for the first one, so
always 0 is first come, first served.

**Observation** (`Dict`, float32 in 0..10): `jobs`, a row for each of the 128 waiting jobs that were
submitted first: whether there is one, time waited, estimated run time (log1p of seconds, a week =
1), devices asked for (part of the cluster), whether it fits now. `cluster`: free devices (part),
running and waiting jobs (log1p / 10), time to the next expected release, part of the jobs done.

**Reward.** Minus what the job that starts adds to the mean over the episode's jobs, so that an
episode's rewards add up to minus that mean: `objective="slowdown"`, the bounded slowdown max(1,
(wait + run) / max(run, 10 s)); `objective="wait"`, the wait in mean run times.

**Episode.** 256 jobs (`jobs`) of a workload drawn for a drawn cluster; over (`terminated`) when all
have started. Problems are drawn once (`problems`) and episodes begin from copies of them. Nothing
that is held out of training is drawn; `reset(options={"workload_seed": N})` fixes the jobs.

**Info.** `mask`: slots that hold a job.

**Differences from RLScheduler's environment** (whose 128 slots and 256 jobs these are): nodes of
several devices instead of single processors, so that a gang needs room on nodes; clusters and loads
are drawn; estimates have errors of a drawn spread instead of being the user's; no backfilling.

**Version.** v0.
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
from flyball.learn.env.pick import (
    CLUSTER_NUMBERS,
    JOB_NUMBERS,
    SLOTS,
    PickBatch,
    PickSettings,
)
from flyball.learn.env.spaces import BOUND, Vector

Observation = dict[str, Vector]


def observation_space() -> Any:
    """Return the space of observations."""
    return gym_spaces.Dict(
        {
            "jobs": gym_spaces.Box(0.0, BOUND, (SLOTS, len(JOB_NUMBERS)), np.float32),
            "cluster": gym_spaces.Box(0.0, BOUND, (len(CLUSTER_NUMBERS),), np.float32),
        }
    )


def _batch(runs: int, settings: PickSettings | None, changes: dict[str, Any]) -> PickBatch:
    try:
        return PickBatch(runs, replace(settings or PickSettings(), **changes))
    except TypeError as error:
        raise BadInput(f"no such setting of the environment: {error}") from None


class PickEnv(gymnasium.Env[Observation, Any]):
    __doc__ = __doc__

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, settings: PickSettings | None = None, **changes: Any) -> None:
        """
        Args:
            settings: of the episodes.
            changes: to single fields of them, e.g. `objective="wait"`.
        """
        self.observation_space = observation_space()
        self.action_space = gym_spaces.Discrete(SLOTS)
        self._batch = _batch(1, settings, changes)

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
        fixed = (options or {}).get("workload_seed")
        if seed is not None or fixed is not None:
            self._batch.reseed(seed or 0, fixed)
        jobs, clusters = self._batch.reset_all()
        return {"jobs": jobs[0], "cluster": clusters[0]}, self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Start a job."""
        step = self._batch.step([int(action)])
        seen = {"jobs": step.jobs[0].copy(), "cluster": step.clusters[0].copy()}
        return seen, float(step.rewards[0]), bool(step.over[0]), False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"mask": self._batch.masks()[0]}


class PickVectorEnv(VectorEnv[Observation, Any, Any]):
    """Steps many episodes of `Flyball/Pick-v0` at once, in compiled code on both cores.

    A run whose episode is over begins another one in the same step (`AutoresetMode.SAME_STEP`).
    Observations are views that the next step overwrites; copy what you keep.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int = 64, settings: PickSettings | None = None, **changes: Any
    ) -> None:
        """
        Args:
            num_envs: episodes side by side.
            settings: of the episodes.
            changes: to single fields of them.
        """
        self.num_envs = num_envs
        self.single_observation_space = observation_space()
        self.single_action_space = gym_spaces.Discrete(SLOTS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch = _batch(num_envs, settings, changes)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin every episode anew; a list of seeds counts by its first."""
        first = seed[0] if isinstance(seed, list) and seed else seed
        super().reset(seed=first if isinstance(first, int) else None)
        fixed = (options or {}).get("workload_seed")
        if isinstance(first, int) or fixed is not None:
            self._batch.reseed(first if isinstance(first, int) else 0, fixed)
        jobs, clusters = self._batch.reset_all()
        return {"jobs": jobs, "cluster": clusters}, {"mask": self._batch.masks()}

    def step(self, actions: Any) -> tuple[Observation, Vector, Any, Any, dict[str, Any]]:
        """Start a job in every run."""
        step = self._batch.step(actions)
        info: dict[str, Any] = {}
        if step.over.any():
            info["final_obs"] = {"jobs": step.jobs.copy(), "cluster": step.clusters.copy()}
            info["_final_obs"] = step.over
            self._batch.begin_over()
        jobs, clusters = self._batch.seen()
        info["mask"] = self._batch.masks()
        never = np.zeros(self.num_envs, np.bool_)
        return {"jobs": jobs, "cluster": clusters}, step.rewards, step.over, never, info
