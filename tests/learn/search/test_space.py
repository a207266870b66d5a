"""The space that is searched: bounds beside the settings themselves."""

from dataclasses import dataclass

import numpy as np

from flyball.learn.search.space import at_point, point_of, searched, searched_fields


@dataclass(frozen=True)
class Example:
    rate: float = searched(1e-3, 1e-5, 1e-1, log=True)
    width: int = searched(32, 8, 128, log=True)
    share: float = searched(0.5, 0.0, 1.0)
    fixed: float = 3.0


def test_a_point_and_settings_are_each_others_image() -> None:
    assert [field.name for field in searched_fields(Example())] == ["rate", "width", "share"]
    assert np.allclose(point_of(Example()), [0.5, 0.5, 0.5])
    changed = at_point(Example(fixed=9.0), np.array([0.0, 1.0, 0.25]))
    assert (round(changed.rate, 9), changed.width, changed.share) == (1e-5, 128, 0.25)
    assert changed.fixed == 9.0
    assert isinstance(changed.width, int)


def test_points_beyond_the_cube_are_at_its_edge() -> None:
    changed = at_point(Example(), np.array([-1.0, 2.0, 7.0]))
    assert np.isclose(changed.rate, 1e-5) and changed.width == 128 and changed.share == 1.0
