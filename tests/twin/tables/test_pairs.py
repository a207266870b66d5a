"""The table of pairs that kernel and tuners read."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.results import Floats
from flyball.core.workload import JobClass, Workload
from flyball.physics import catalogue
from flyball.physics.sharing import by_rank_one, by_utilisation, guessed_shared_speed, measured_pair
from flyball.twin.tables.pairs import LOWEST, pair_table
from flyball.twin.tables.rates import Profiles, find_profiles

MODELS = ("ResNet-18 (batch size 32)", "LM (batch size 20)", "ResNet-50 (batch size 128)")
CLUSTER = Cluster("c", (NodeGroup("v", 1, "V100", 4), NodeGroup("a", 1, "A100", 4)))


def jobs() -> Profiles:
    """Three one-device jobs of measured models, one without a model, and a gang."""
    kinds = [int(JobClass.COMPUTE_INTENSIVE), int(JobClass.MIXED), 0, int(JobClass.MEMORY_BOUND), 0]
    return find_profiles(
        Workload.of(
            "w", range(5), [10.0] * 5, [1, 1, 1, 1, 2], model=[0, 1, 2, -1, 0], models=MODELS,
            kind=kinds,
        )
    )  # fmt: skip


def square(flat: Floats) -> Floats:
    return flat.reshape(2, 5, 5)


def at(profiles: Profiles, job: int) -> int:
    return int(profiles.of_job[job])


def test_a_row_is_the_job_and_a_column_its_neighbour() -> None:
    profiles = jobs()
    true, guess = map(square, pair_table(profiles, CLUSTER, 0.0, 0))
    resnet, lm, large, plain, gang = (at(profiles, job) for job in range(5))
    v100 = catalogue.get("V100")
    assert true[0, lm, resnet] == measured_pair(v100, MODELS[1], MODELS[0])
    assert true[0, resnet, lm] == 1.0 != true[0, lm, resnet]
    assert true[1, resnet, lm] == by_utilisation(JobClass.COMPUTE_INTENSIVE, JobClass.MIXED)
    assert true[0, plain, lm] == by_utilisation(JobClass.MEMORY_BOUND, JobClass.MIXED)
    assert true[0, large, lm] == true[0, lm, large] == 0.0  # they do not fit together
    assert not true[:, gang].any() and not true[:, :, gang].any()
    assert (guess == true).all()


def test_guesses_are_off_by_the_error_and_never_by_memory() -> None:
    profiles = jobs()
    true, guess = pair_table(profiles, CLUSTER, 0.25, 3)
    again = pair_table(profiles, CLUSTER, 0.25, 3)[1]
    other = pair_table(profiles, CLUSTER, 0.25, 4)[1]
    assert (guess == again).all() and (guess != other).any()
    assert ((guess > 0) == (true > 0)).all()
    assert guess[guess > 0].min() >= LOWEST and guess.max() <= 1.0
    free = (guess > LOWEST) & (guess < 1.0)
    assert np.std(np.log(guess[free] / true[free])) == pytest.approx(0.2, abs=0.1)


def test_guesses_by_model_are_the_models() -> None:
    profiles = jobs()
    true, guess = map(square, pair_table(profiles, CLUSTER, 0.0, 0, guessed_shared_speed))
    resnet, lm = at(profiles, 0), at(profiles, 1)
    assert guess[0, lm, resnet] == by_rank_one(catalogue.get("V100"), MODELS[1], MODELS[0])
    assert guess[0, lm, resnet] != true[0, lm, resnet]


def test_a_workload_of_gangs_has_an_empty_table() -> None:
    profiles = find_profiles(Workload.of("w", [0.0], [1.0], 4, kind=0))
    true, guess = pair_table(profiles, CLUSTER, 0.1, 0)
    assert true.tolist() == guess.tolist() == [0.0, 0.0]
