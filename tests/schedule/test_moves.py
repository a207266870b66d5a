"""Moves to faster pools and where jobs are evicted first: worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.property.record import plan_of, preset
from tests.twin.twin_cases import ends, group, make

from flyball.core.codes import ActionKind, Reason
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Evict, Knobs, Order, Place, Preempt
from flyball.core.metrics import summarise
from flyball.core.units import to_us
from flyball.schedule.explain import Names, reason_text, reason_token
from flyball.tune.power import Power
from flyball.twin.reference.run import Reference
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

pytestmark = pytest.mark.nojit

SLOW, FAST = 0, 1
RESTART_10_S = Effects(restart_s=(10.0, 10.0, 10.0))
MOVES: dict[str, Any] = {
    "order": Order.SUBMIT,
    "place": Place.FASTEST,
    "preempt": Preempt.ROUNDS,
    "round_s": 10.0,
    "margin_s": 1e12,
    "move_s": 100.0,
    "move_cost": 1e6,
}
"""Nobody is preempted for a pending job; rounds every 10 s."""


def twin_with(
    rates: list[float],
    submit_s: list[float],
    duration_s: list[float],
    devices: Any = 1,
    sizes: tuple[int, ...] = (),
    effects: Effects = RESTART_10_S,
    **knobs: Any,
) -> Twin:
    """A twin with a node per pool, of one device or as `sizes` says, on which jobs have `rates`."""
    groups = [group(1, size) for size in sizes or [1] * len(rates)]
    twin = make(
        groups, submit_s, duration_s, devices, knobs=Knobs(**{**MOVES, **knobs}), effects=effects
    )
    by_profile = rates * (len(twin.state.rates) // len(rates))
    twin.state.rates.packed[:] = twin.state.rates.spread[:] = by_profile
    fastest_first = sorted(range(len(rates)), key=lambda pool: -rates[pool])
    twin.state.pools.visit[:] = fastest_first
    return twin


def finished(twin: Twin) -> Twin:
    plain = Reference(twin.state, twin.knobs)
    stepped = twin.clone()
    twin.run()
    plain.run()
    stepped.replay(preset(twin.knobs))
    assert twin.state.runs.moves.tolist() == [job.moves for job in plain.jobs]
    assert ends(twin) == [job.end_us / 1e6 for job in plain.jobs] == ends(stepped)
    return twin


# When a job moves ----------------------------------------------------------------------


@pytest.mark.parametrize(("move_s", "end_s"), [(1152.4, 447.5), (1152.5, 1600.0)])
def test_a_job_moves_exactly_if_it_saves_more(move_s: float, end_s: float) -> None:
    # At 50 s the fast device comes free. The second job has done 12.5 of 400 s: staying takes
    # 387.5 / 0.25 = 1550 s, moving 10 + 387.5 s. Later it would save less.
    twin = finished(twin_with([0.25, 1.0], [0, 0], [50, 400], move_s=move_s))
    assert ends(twin) == [50, end_s]
    assert twin.state.runs.moves.tolist() == [0, int(end_s < 1600)]
    assert twin.state.runs.preemptions.tolist() == twin.state.runs.moves.tolist()


def test_the_work_lost_in_a_checkpoint_counts() -> None:
    # 4 s at 0.25 are lost: 1 s of work, which takes 1 s there.
    effects = Effects(restart_s=(10.0, 10.0, 10.0), checkpoint_s=4.0)
    for move_s, moves in ((1151.4, 1), (1151.5, 0)):
        twin = twin_with([0.25, 1.0], [0, 0], [50, 400], effects=effects, move_s=move_s)
        assert finished(twin).state.runs.moves[1] == moves


def test_a_move_is_in_the_plan_with_its_reason_and_gain() -> None:
    twin = twin_with([0.25, 1.0], [0, 0], [50, 400])
    twin.run(to_us(50))
    stop, start = plan_of(twin.state)
    assert (stop.kind, start.kind) == (ActionKind.PREEMPT, ActionKind.START)
    for action in (stop, start):
        assert (action.job, action.reason, action.gain) == (1, Reason.MOVED_UP, 1152.5)
    assert reason_token(start) == "moved-up"
    assert reason_text(start, Names.of(["j0", "j1"], [])) == (
        "J1 continues on faster devices: it is expected to end 19.2 min earlier, its restart"
        " counted."
    )
    assert start.node == FAST


def test_a_job_that_outlived_its_estimate_is_expected_to_take_twice_as_long() -> None:
    # Estimated at 12 s, at 50 s it has done 12.5: expected 24, so 11.5 s left. Staying takes 46 s,
    # moving 21.5 s.
    for move_s, moves in ((24.4, 1), (24.5, 0)):
        twin = twin_with([0.25, 1.0], [0, 0], [50, 400], move_s=move_s, move_starts=1)
        twin.state.jobs.estimate_us[1] = 12e6
        twin.run(to_us(50))
        assert twin.state.runs.moves[1] == moves


def test_a_pending_job_comes_first() -> None:
    # The third job waits from 20 s on and takes the fast device at 50 s; the second moves at 150 s,
    # having done 37.5 s.
    twin = finished(twin_with([0.25, 1.0], [0, 0, 20], [50, 400, 100]))
    assert ends(twin) == [50, 522.5, 150]
    assert twin.state.runs.moves.tolist() == [0, 1, 0]


def test_what_a_move_leaves_behind_goes_to_pending_jobs_at_once() -> None:
    # The third job needs both slow devices, of which the second holds one until it moves at 50 s.
    twin = twin_with([0.25, 1.0], [0, 0, 0], [50, 400, 20], [1, 1, 2], sizes=(2, 1))
    twin.run(to_us(50))
    assert (twin.state.runs.first_start_us / 1e6).tolist() == [0, 0, 50]
    assert ends(finished(twin_with([0.25, 1.0], [0, 0, 0], [50, 400, 20], [1, 1, 2], (2, 1)))) == [
        50,
        447.5,
        130,
    ]


def test_the_job_that_gains_most_moves_first() -> None:
    # Both run in the slow pool of two devices; the third has more left and saves more.
    twin = finished(twin_with([0.25, 1.0], [0, 0, 0], [50, 400, 800], sizes=(2, 1)))
    assert twin.state.runs.moves.tolist() == [0, 1, 1]
    assert ends(twin)[2] == 50 + 10 + 800 - 12.5
    # The other follows when the fast device is free again.
    assert ends(twin)[1] == 850 + 10 + 400 - 850 * 0.25


def test_a_job_takes_the_best_pool_with_room() -> None:
    # The fastest pool stays full until 1000 s, so the last job moves to the middle one at 50 s.
    twin = twin_with([0.25, 0.5, 1.0], [0, 0, 0], [1000, 25, 400])
    twin.run(to_us(50))
    assert twin.state.runs.pool.tolist() == [2, 1, 1]


def test_rounds_follow_while_a_job_runs_if_it_may_move() -> None:
    # No job waits, and the fast device comes free between two rounds.
    twin = finished(twin_with([0.25, 1.0], [0, 0], [45, 400]))
    assert ends(twin)[1] == 447.5


# Bounds ------------------------------------------------------------------------------------

STEPS: tuple[list[float], list[float], list[float]] = (
    [0.25, 0.5, 1.0],
    [0.0, 0.0, 0.0],
    [100.0, 25.0, 400.0],
)
"""The last job moves to the middle pool at 50 s and, if it may, to the fastest at 100 s."""


@pytest.mark.parametrize(
    ("knobs", "moves"),
    [
        ({}, 2),
        ({"move_starts": 1}, 1),
        ({"move_starts": 2}, 2),
        ({"move_cost": 20 / 400}, 2),
        ({"move_cost": 19.9 / 400}, 1),
        ({"move_cost": 9.9 / 400}, 0),
    ],
)
def test_moves_are_bounded(knobs: dict[str, Any], moves: int) -> None:
    twin = finished(twin_with(*STEPS, **knobs))
    assert twin.state.runs.moves.tolist() == [0, 0, moves]


def test_a_job_runs_for_a_round_before_it_moves() -> None:
    # Submitted at 45 s, it moves at 60 s, although the fast device is free at 50 s.
    twin = finished(twin_with([0.25, 1.0], [0, 45], [50, 400]))
    assert ends(twin)[1] == 60 + 10 + 400 - 15 * 0.25


def test_moves_and_the_worst_job_are_in_the_summary() -> None:
    twin = twin_with(*STEPS)
    summary = summarise(twin.replay())
    assert (summary.preemptions, summary.moves, summary.most_preemptions) == (2, 2, 2)


def test_no_moves_unless_asked_for() -> None:
    for knobs in ({"move_s": 0.0}, {"preempt": Preempt.NEVER}):
        twin = finished(twin_with(*STEPS, **knobs))
        assert not twin.state.runs.preemptions.any()


def test_what_moves_do_not_go_with() -> None:
    for order in (Order.FAIR, Order.SHARES):
        with pytest.raises(BadInput, match="move_s does not go with order=shares"):
            Knobs(**{**MOVES, "order": order})
    Tuning((), preset(Knobs())).check(Knobs(**MOVES))  # rounds without a tuner
    tuning = Tuning((Power(),), preset(Knobs()))
    with pytest.raises(BadInput, match="move_s does not go with tuners"):
        tuning.check(Knobs(**MOVES))


# Where jobs are evicted ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evict", "evicted"), [(Evict.LISTED, 1), (Evict.FASTEST, 0), (Evict.BEST, 1)]
)
def test_the_pool_in_which_jobs_are_evicted_first(evict: Evict, evicted: int) -> None:
    # Two long jobs; the third, short, is submitted at 5 s. Its model is faster in the first pool,
    # the one that is slow for the others.
    knobs = Knobs(
        **{**MOVES, "order": Order.REMAINING, "move_s": 0.0, "margin_s": 0.0}, evict=evict
    )
    models: dict[str, Any] = {"model": [0, 0, 1], "models": ("LM:20", "ResNet-18:32")}
    twin = make([group(), group()], [0, 0, 5], [500, 500, 20], knobs=knobs, **models)
    twin.state.rates.packed[:] = twin.state.rates.spread[:] = [0.25, 1.0, 1.0, 0.5]
    twin.state.pools.visit[:] = [FAST, SLOW]
    plain = Reference(twin.state, knobs)
    twin.run(to_us(10))
    plain.run(to_us(10))
    assert twin.state.runs.preemptions.tolist() == [int(job == evicted) for job in range(3)]
    assert [job.preemptions for job in plain.jobs] == twin.state.runs.preemptions.tolist()
