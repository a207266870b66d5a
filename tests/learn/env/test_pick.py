"""Pick-v0: always the first is first come, first served; rewards are the objective's mean."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs
from flyball.learn.env.pick import LEAST_RUN_US, RULE, SLOTS, PickBatch, PickSettings
from flyball.learn.env.pick_env import PickEnv, PickVectorEnv
from flyball.twin.twin import Twin

SMALL = PickSettings(jobs=60, problems=3)


def test_the_registered_environment_passes_the_checker() -> None:
    env = gymnasium.make("flyball.learn.env.register:Flyball/Pick-v0", settings=SMALL)
    check_env(env.unwrapped, skip_render_check=True)


def _episode(batch: PickBatch, picks: list[int] | None = None) -> float:
    batch.reset_all()
    total = 0.0
    for at in range(SMALL.jobs):
        step = batch.step([picks[at] if picks else 0])
        total += float(step.rewards[0])
        assert step.over[0] == (at == SMALL.jobs - 1)
    return total


def test_always_the_first_is_strict_first_come_first_served() -> None:
    batch = PickBatch(1, SMALL, seed=4)
    total = _episode(batch)
    picked = batch.twins[0]
    problem = next(
        p for p in batch.problems if p.workload.submit_us[0] == picked.state.jobs.submit_us[0]
    )
    fifo = Twin(problem.cluster, problem.workload, Knobs(backfill=Backfill.STRICT), problem.effects)
    fifo.run()
    assert np.array_equal(picked.state.runs.first_start_us, fifo.state.runs.first_start_us)
    wait_us = fifo.state.runs.first_start_us - fifo.state.jobs.submit_us
    run_us = fifo.state.runs.end_us - fifo.state.runs.first_start_us
    slowdown = np.maximum(1.0, (wait_us + run_us) / np.maximum(run_us, LEAST_RUN_US))
    assert total == pytest.approx(-float(slowdown.mean()), rel=1e-3)
    assert RULE.backfill == Backfill.SKIP  # only its place rule is used


def test_the_shortest_first_waits_less() -> None:
    settings = PickSettings(jobs=60, problems=1, objective="wait")
    batch = PickBatch(1, settings, seed=9)
    first = _episode(batch)
    jobs, _clusters = batch.reset_all()
    total = 0.0
    for _ in range(60):
        waiting = jobs[0, :, 0] > 0
        step = batch.step([int(np.argmin(np.where(waiting, jobs[0, :, 2], np.inf)))])
        total, jobs = total + float(step.rewards[0]), step.jobs
    assert total >= first


def test_results_do_not_depend_on_threads_or_company() -> None:
    def run(threads: int) -> list[float]:
        env = PickVectorEnv(5, SMALL, threads=threads)
        seen, info = env.reset(seed=2)
        rng, out = np.random.default_rng(0), []
        for _ in range(90):  # beyond the end of the first episodes
            actions = [int(rng.choice(np.flatnonzero(mask))) for mask in info["mask"]]
            seen, rewards, over, _never, info = env.step(actions)
            out += [*rewards.tolist(), float(seen["jobs"].sum()), float(over.sum())]
        return out

    one = run(1)
    assert one == run(2) and 5.0 in one


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadInput, match="seed 999 is held out"):
        PickEnv(SMALL).reset(options={"workload_seed": 999})
    with pytest.raises(BadInput, match="speed"):
        PickEnv(SMALL, objective="speed")
    batch = PickBatch(1, SMALL)
    with pytest.raises(BadInput, match="no episode"):
        batch.step([0])
    batch.reset_all()
    with pytest.raises(BadInput, match="not a slot"):
        batch.step([SLOTS])
