"""The whole control plane on a virtual clock, with faults: killed, lost, late. Any seed replays.

pytest tests/control/test_virtual.py -k 17     # the schedules of chunk 17
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.world import Faults, World

CHUNK = 25
CHUNKS = 20
SUBMISSIONS = 6


def run_schedule(folder: Path, seed: int, submissions: int) -> World:
    """One schedule from its seed, with everything that must hold checked on the way."""
    folder.mkdir()
    world = World(folder, seed)
    try:
        world.run(submissions)
        world.check_end()
        verdict = world.verify()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        world.plane.close()
    assert verdict.differing == [], f"seed {seed}"
    return world


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_accepted_job_ends_once_whatever_happens(tmp_path: Path, chunk: int) -> None:
    kills = jobs = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        world = run_schedule(tmp_path / str(seed), seed, SUBMISSIONS)
        kills += world.kills
        jobs += len(world.accepted)
    assert kills > CHUNK / 2, "the faults should happen"
    assert jobs > 5 * CHUNK


def test_without_faults_nothing_is_lost_or_tried_again(tmp_path: Path) -> None:
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, seed, Faults(0.0, 0.0, 0.0))
        world.run(SUBMISSIONS)
        world.check_end()
        assert world.kills == 0
        assert all(job.failures == 0 for job in world.jobs())
        world.plane.close()


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(100))
def test_ten_thousand_schedules(tmp_path: Path, chunk: int) -> None:
    for seed in range(1_000 + chunk * 100, 1_100 + chunk * 100):
        run_schedule(tmp_path / str(seed), seed, SUBMISSIONS)
