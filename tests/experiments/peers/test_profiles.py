"""Run times by the profiles of Sia and Pollux."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.errors import BadInput, DataAbsent
from flyball.core.shared_data import shared_data
from flyball.experiments.peers.ground import DATA
from flyball.experiments.peers.profiles import PeerTimes, Profile, Training, placed


@pytest.fixture
def data() -> None:
    try:
        for path in DATA:
            shared_data(*path)
    except DataAbsent as absent:
        pytest.skip(str(absent))


def test_a_step_is_interpolated_where_the_placement_was_profiled() -> None:
    rows = np.array([(10.0, 1.0, 0.2), (20.0, 2.0, 0.4)])
    points = np.array([(1, 1, 10.0, 1.0, 0.2), (1, 2, 20.0, 2.0, 0.4)])
    profile = Profile({"1": rows, "12": rows * 2}, points)
    times = profile.times((1,), np.array([10.0, 15.0, 20.0, 21.0]))
    assert times[:3].tolist() == pytest.approx(np.array([(1, 0.2), (1.5, 0.3), (2, 0.4)]))
    assert np.isnan(times[3]).all()
    # Placements are the same whichever node comes first.
    assert profile.times((2, 1), np.array([30.0])).tolist() == [[3.0, pytest.approx(0.6)]]
    assert profile.largest_batch((2, 1)) == 40.0
    assert profile.least_batch == 10.0


def test_steps_of_an_epoch_follow_from_its_gradients() -> None:
    # Epoch 1 has noise 0: a step is worth a step. Epoch 2 is all noise: worth its samples.
    training = Training(
        np.array([10.0, 20.0]), np.array([100.0, 300.0]),
        squares=np.array([(1.0, 0.0), (1.0, 0.0)]), variances=np.array([(0.0, 1.0), (0.0, 1.0)]),
    )  # fmt: skip
    assert training.steps(np.array([10.0, 20.0])).tolist() == [[100, 200], [100, 100]]


def test_gangs_are_packed_or_halved() -> None:
    assert placed("T4", 3, False) == (3,)
    assert placed("T4", 3, True) == (2, 1)
    assert placed("T4", 1, True) == (1,)
    assert placed("T4", 10, True) == (4, 4, 2)


def test_run_times_are_those_of_their_simulators(data: None) -> None:
    pollux, sia = PeerTimes(pollux=True), PeerTimes(pollux=False)
    # As a run of Pollux's simulator has them; yolov3 accumulates there, as 8 samples fit a T4.
    assert pollux.rigid_s("cifar10:2048", "T4", 6, True) == pytest.approx(897, abs=1)
    assert pollux.rigid_s("yolov3:64", "T4", 4, False) == pytest.approx(14_100, abs=5)
    assert sia.rigid_s("yolov3:64", "T4", 4, False) == pytest.approx(12_143, abs=5)
    # The best batch is never worse than the one the user set.
    best_s, set_s = (times("bert:192", "T4", 8, True) for times in (sia.elastic_s, sia.rigid_s))
    assert best_s is not None and set_s is not None
    assert best_s < set_s
    assert sia.elastic_s("ncf:32768", "T4", 2, False) is None
    assert sia.most_devices("ncf:32768") == 1
    assert sia.most_devices("cifar10:128") == 64
    with pytest.raises(BadInput, match="batch size"):
        sia.rigid_s("bert", "T4", 1, False)
