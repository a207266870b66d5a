"""Start times by roll-outs, against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
from tests.twin.test_live import CLUSTER, NOW, small, view

from flyball.core.knobs import Backfill, Knobs
from flyball.core.units import US_PER_S
from flyball.twin.lookahead import start_times

FULL = [(0, 0, 15), (1, 1, 15), (2, 2, 15)]


def times(
    snapshot: object, draws_s: list[list[float]], knobs: Knobs | None = None
) -> list[list[float]]:
    draws = np.array(draws_s) * US_PER_S
    starts = start_times(CLUSTER, snapshot, knobs or Knobs(), NOW, draws)  # type: ignore[arg-type]
    return starts.tolist()  # type: ignore[no-any-return]


def test_idle_nodes_start_all_jobs_now() -> None:
    assert times(view(small([4, 4, 4])), [[10, 10, 10]]) == [[0, 0, 0]]


def test_a_running_job_has_done_part_of_its_work() -> None:
    # They run since 5 s and it is 60 s now: of 100 s there are 45 s left.
    now_view = view(small([4, 4, 4, 4]), FULL)
    assert times(now_view, [[100, 200, 300, 9], [75, 60, 300, 9]]) == [[0, 0, 0, 45], [0, 0, 0, 5]]


def test_a_queue_moves_up() -> None:
    now_view = view(small([4, 4, 4, 4, 4, 4]), FULL)
    assert times(now_view, [[65, 75, 85, 100, 5, 7]]) == [[0, 0, 0, 10, 20, 25]]


def test_backfill_in_a_roll_out() -> None:
    now_view = view(small([4, 4, 3, 4, 1]), [*FULL[:2], (2, 2, 7)])
    strict = times(now_view, [[65, 75, 85, 9, 9]], Knobs(backfill=Backfill.STRICT))
    assert strict[0][3:] == [10, 10]
    assert times(now_view, [[65, 75, 85, 9, 9]])[0][3:] == [10, 0]


def test_a_job_that_outran_its_draw_ends_now() -> None:
    now_view = view(small([4, 4, 4, 4]), FULL)
    assert times(now_view, [[1, 300, 300, 5]])[0][3] < 1e-3


def test_dependencies_are_waited_for() -> None:
    work = small([1, 1], after_job=np.array([1]), after_on=np.array([0]))
    assert times(view(work), [[30, 5]]) == [[0, 30]]


def test_a_job_that_can_never_start_has_no_time() -> None:
    now_view = view(small([4]), down=[0, 1, 2])
    assert np.isnan(times(now_view, [[10]])[0][0])


def test_the_snapshot_is_not_used_up() -> None:
    now_view = view(small([4, 4, 4, 4]), FULL)
    draws = [[100.0, 200.0, 300.0, 9.0]] * 5
    assert times(now_view, draws) == [[0, 0, 0, 45]] * 5
