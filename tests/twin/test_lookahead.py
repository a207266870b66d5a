"""Start times by roll-outs, against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
from tests.twin.test_live import CLUSTER, NOW, small, view

from flyball.core.knobs import Backfill, Knobs
from flyball.core.units import US_PER_S
from flyball.twin.lookahead import start_times

FULL = [(0, 0, 15), (1, 1, 15), (2, 2, 15)]


def times(
    found: object, draws_s: list[list[float]], knobs: Knobs | None = None
) -> list[list[float]]:
    draws = np.array(draws_s) * US_PER_S
    starts = start_times(CLUSTER, found, knobs or Knobs(), NOW, draws)  # type: ignore[arg-type]
    return starts.tolist()  # type: ignore[no-any-return]


def test_idle_nodes_start_everybody_now() -> None:
    assert times(view(small([4, 4, 4])), [[10, 10, 10]]) == [[0, 0, 0]]


def test_what_runs_has_a_part_behind_it() -> None:
    # They run since 5 s and it is 60 s now: of 100 s there are 45 s left.
    found = view(small([4, 4, 4, 4]), FULL)
    assert times(found, [[100, 200, 300, 9], [75, 60, 300, 9]]) == [[0, 0, 0, 45], [0, 0, 0, 5]]


def test_a_queue_moves_up() -> None:
    found = view(small([4, 4, 4, 4, 4, 4]), FULL)
    assert times(found, [[65, 75, 85, 100, 5, 7]]) == [[0, 0, 0, 10, 20, 25]]


def test_backfill_in_a_roll_out() -> None:
    found = view(small([4, 4, 3, 4, 1]), [*FULL[:2], (2, 2, 7)])
    strict = times(found, [[65, 75, 85, 9, 9]], Knobs(backfill=Backfill.STRICT))
    assert strict[0][3:] == [10, 10]
    assert times(found, [[65, 75, 85, 9, 9]])[0][3:] == [10, 0]


def test_who_runs_longer_than_any_draw_ends_now() -> None:
    found = view(small([4, 4, 4, 4]), FULL)
    assert times(found, [[1, 300, 300, 5]])[0][3] < 1e-3


def test_dependencies_are_waited_for() -> None:
    work = small([1, 1], after_job=np.array([1]), after_on=np.array([0]))
    assert times(view(work), [[30, 5]]) == [[0, 30]]


def test_who_can_never_start_has_no_time() -> None:
    found = view(small([4]), down=[0, 1, 2])
    assert np.isnan(times(found, [[10]])[0][0])


def test_the_snapshot_is_not_used_up() -> None:
    found = view(small([4, 4, 4, 4]), FULL)
    draws = [[100.0, 200.0, 300.0, 9.0]] * 5
    assert times(found, draws) == [[0, 0, 0, 45]] * 5
