"""Separable CMA-ES: goes downhill on a badly scaled bowl, and goes on where it was saved."""

import numpy as np

from flyball.core.results import Floats
from flyball.learn.rivals.evolution import Evolution

SCALES = 10.0 ** np.linspace(0, 2, 10)


def _bowl(points: Floats) -> Floats:
    return np.asarray((SCALES * (points - 1.0) ** 2).sum(axis=1))


def test_it_goes_downhill() -> None:
    cloud = Evolution(np.zeros(10), 0.3, 12, seed=1)
    first = float(_bowl(cloud.mean[None])[0])
    for _ in range(150):
        points = cloud.ask()
        cloud.tell(points, _bowl(points))
    assert float(_bowl(cloud.mean[None])[0]) < 1e-3 * first


def test_noise_that_is_common_to_a_generation_changes_nothing() -> None:
    means = []
    for noise in (0.0, 100.0):
        cloud, rng = Evolution(np.zeros(4), 0.3, 8, seed=2), np.random.default_rng(0)
        for _ in range(5):
            points = cloud.ask()
            cloud.tell(points, _bowl(np.pad(points, ((0, 0), (0, 6)))) + noise * rng.random())
        means.append(cloud.mean)
    assert np.array_equal(means[0], means[1])


def test_a_saved_cloud_goes_on_as_if_it_had_not_stopped() -> None:
    whole = Evolution(np.zeros(10), 0.3, 8, seed=3)
    resumed = Evolution(np.ones(10), 0.9, 8, seed=9)
    for step in range(6):
        if step == 3:
            resumed = Evolution(np.zeros(10), 0.3, 8, seed=4)
            resumed.restore(whole.state())
        points = whole.ask()
        if step >= 3:
            assert np.array_equal(points, resumed.ask())
            resumed.tell(points, _bowl(points))
        whole.tell(points, _bowl(points))
    assert np.array_equal(whole.mean, resumed.mean)
