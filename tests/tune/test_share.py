"""Sharing: which jobs are paired, which are parted again, and what is learned from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason
from flyball.core.effects import Effects
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Knobs
from flyball.core.records import ACTION, Records, records
from flyball.core.results import Floats
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.tune.matching import match, pair_up
from flyball.tune.seen_speeds import learn_speeds
from flyball.tune.share import Share
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

RESNET, LM, TRANSFORMER, RESNET50 = range(4)
MODELS = (
    "ResNet-18 (batch size 64)",
    "LM (batch size 10)",
    "Transformer (batch size 32)",
    "ResNet-50 (batch size 64)",
)
FIFO = Preset("fifo", "in order", Knobs())
NOTHING = records(0, ACTION)


def make(
    models: list[int],
    nodes: int = 1,
    devices: Any = 1,
    durations: float | list[float] = 4000.0,
    tuner: Share | None = None,
    device: str = "V100",
    learns: bool = False,
    **columns: Any,
) -> Twin:
    """A twin of one-device nodes whose jobs all arrive at once, a second apart."""
    work = Workload.of(
        "w", np.arange(len(models)), np.broadcast_to(durations, len(models)), devices,
        model=models, models=MODELS, device=0, device_names=(device,), **columns,
    )  # fmt: skip
    cluster = Cluster("c", (NodeGroup("n", nodes, device, 1),))
    twins: list[Twin] = []

    def note(now: int, plan: Records) -> None:
        if learns:
            learn_speeds(twins[0].state)

    tuning = Tuning((tuner,), FIFO, every_s=60.0, note=note) if tuner is not None else None
    twins.append(Twin(cluster, work, FIFO.knobs, Effects(share_limit=2), tuning=tuning))
    return twins[0]


def adjusted(twin: Twin, share: Share, until_s: float = 60.0) -> Records:
    """Return the tuner's plan at that instant."""
    twin.run(to_us(until_s))
    before = twin.state.arena.copy()
    state = twin.snapshot()
    state.clock.now_us = to_us(until_s)
    unchanged = state.arena.copy()
    plan = share.adjust(state, NO_OUTLOOK, NOTHING)
    assert (state.arena == unchanged).all() and (twin.state.arena == before).all()
    return plan


def guess(twin: Twin, value: float) -> None:
    """Set the predicted speed of every pair."""
    twin.state.pair_guesses[:] = value


def starts(plan: Records) -> list[int]:
    return [int(row.job) for row in plan if row.kind == ActionKind.START]


def test_a_pending_job_joins_a_running_one() -> None:
    plan = adjusted(make([RESNET, LM]), Share(limit=0.4))
    assert starts(plan) == [1]
    (row,) = plan
    assert (row.milli, row.node, row.mask, row.reason) == (0, 0, 1, Reason.SHARED)
    # Work a second: 1.0 of its own and what is left to the holder, 0.83.
    assert row.gain == pytest.approx(0.6474, abs=0.2)


@pytest.mark.parametrize(("limit", "joins"), [(0.1, False), (0.2, False), (0.4, True)])
def test_no_job_is_slowed_beyond_the_limit(limit: float, joins: bool) -> None:
    """LM (batch size 10) keeps 0.65 of its speed beside ResNet-18 (batch size 64)."""
    plan = adjusted(make([RESNET, LM]), Share(limit=limit))
    assert bool(len(plan)) is joins


@pytest.mark.parametrize("kinds", [[0, 0], [0, 2], [2, 0]])
def test_a_class_that_is_left_alone_never_shares(kinds: list[int]) -> None:
    """Neither as a holder nor as a guest; other classes share as before."""
    twin = make([RESNET, LM], kind=kinds)
    assert starts(adjusted(twin, Share(limit=0.4))) == [1]
    twin = make([RESNET, LM], kind=kinds)
    assert starts(adjusted(twin, Share(limit=0.4, alone=(2, 3)))) == (
        [1] if kinds == [0, 0] else []
    )


def test_it_chooses_the_pairs_that_do_most_together() -> None:
    """The best single pair, ResNet-18 with itself, would leave a poor one to the others."""
    twin = make([RESNET, RESNET50, TRANSFORMER, RESNET], nodes=2)
    resnet, resnet50, transformer, _ = twin.state.jobs.profile.tolist()
    speeds = twin.state.pair_guesses.reshape(3, 3)
    for a, b, speed in (
        (resnet, resnet, 0.99),
        (resnet50, transformer, 0.81),
        (resnet, transformer, 0.86),
        (resnet50, resnet, 0.96),
    ):
        speeds[a, b] = speeds[b, a] = speed
    plan = adjusted(twin, Share(limit=0.2))
    assert {int(row.job): int(row.node) for row in plan} == {2: 0, 3: 1}


def test_memory_gangs_fractions_and_demands_on_hosts_keep_jobs_apart() -> None:
    fine = Share(limit=0.9)
    assert len(adjusted(make([RESNET, LM]), fine)) == 1
    assert not len(adjusted(make([RESNET, LM], memory_mib=9000), fine))
    assert not len(adjusted(make([RESNET, LM], cpu_milli=1000), fine))
    assert not len(adjusted(make([RESNET, LM], milli=[1000, 500]), fine))
    assert not len(adjusted(make([RESNET, LM, LM], nodes=2, devices=[2, 1, 1]), fine))


def test_on_k80_nothing_is_within_a_fifth() -> None:
    assert not len(adjusted(make([RESNET, LM, TRANSFORMER], device="K80"), Share(limit=0.2)))


def test_without_the_effect_the_plan_passes_as_it_is() -> None:
    work = Workload.of("w", [0.0, 0.0], [9.0, 9.0], model=[0, 1], models=MODELS)
    twin = Twin(Cluster("c", (NodeGroup("n", 1, "V100", 1),)), work, FIFO.knobs)
    plan = records(0, ACTION)
    assert Share().adjust(twin.snapshot(), NO_OUTLOOK, plan) is plan


def test_a_pair_ends_when_the_arithmetic_says() -> None:
    """ResNet-18 alone for 60 s, then both together, then LM alone."""
    twin = make([RESNET, LM], tuner=Share(limit=0.4, gather=False))
    pairs = twin.state.pairs.reshape(2, 2)
    of = twin.state.jobs.profile
    resnet, lm = float(pairs[of[0], of[1]]), float(pairs[of[1], of[0]])
    twin.run()
    first_s = 60 + (4000 - 60) / resnet
    second_s = first_s + 4000 - (first_s - 60) * lm
    ends = twin.state.runs.end_us / 1e6
    assert ends == pytest.approx([first_s, second_s], abs=1e-3)


def test_what_disappoints_is_parted_and_not_tried_again() -> None:
    """A guess of 0.95 where 0.65 is true: one round together, then apart for good."""
    twin = make([RESNET, LM], tuner=Share(limit=0.2), learns=True)
    guess(twin, 0.95)
    twin.run(to_us(70))
    assert twin.state.runs.first_row[1] >= 0
    twin.run(to_us(3900))
    runs = twin.state.runs
    assert runs.first_row[1] < 0 and runs.attempt[1] == 1 and runs.preemptions[1] == 1
    plan = Share(limit=0.2).adjust(twin.snapshot(), NO_OUTLOOK, NOTHING)
    assert not len(plan)


def test_learning_replaces_the_guess_by_what_was_seen() -> None:
    twin = make([RESNET, LM], tuner=Share(limit=0.4))
    guess(twin, 0.95)
    twin.run(to_us(61))
    state = twin.snapshot()
    learn_speeds(state)
    after, true = state.pair_guesses.reshape(2, 2), twin.state.pairs.reshape(2, 2)
    assert after[[0, 1], [1, 0]] == pytest.approx(true[[0, 1], [1, 0]])
    assert after[0, 0] == after[1, 1] == 0.95


def test_of_three_on_a_device_nothing_is_learned_of_pairs() -> None:
    twin = make([RESNET, LM, LM], nodes=3)
    twin.run(to_us(61))
    state = twin.snapshot()
    state.pair_guesses[:], state.runs.slow[:] = 0.95, 0.5
    holder, *guests = state.runs.first_row.tolist()
    # Put both guests on the first job's device by hand.
    state.rows.node[guests], state.rows.milli[guests] = state.rows.node[holder], 0
    state.rows.sibling[[holder, *guests]] = *guests, -1
    learn_speeds(state)
    assert (state.pair_guesses == 0.95).all()
    state.rows.sibling[guests[0]] = -1  # without the third there is a pair
    learn_speeds(state)
    guesses = state.pair_guesses.reshape(2, 2)
    assert guesses[0, 1] == guesses[1, 0] == 0.5 and guesses[0, 0] == guesses[1, 1] == 0.95


def test_over_its_running_time_a_job_may_live_on_time_alone() -> None:
    """Speed 0.65 at a limit of 0.2: for t alone, (0.35 - 0.2) / 0.2 t together."""
    twin = make([RESNET, LM], durations=40_000.0)
    share = Share(limit=0.2, stay_s=1000.0)
    guess(twin, 0.65)
    assert not len(adjusted(twin, share, until_s=740.0))
    # LM has not run yet, so as a guest at 0.65 it is beyond the limit; as a holder it is not.
    swapped = make([LM, RESNET], durations=40_000.0)
    pairs = swapped.state.pair_guesses.reshape(2, 2)
    of = swapped.state.jobs.profile
    pairs[of[0], of[1]], pairs[of[1], of[0]] = 0.65, 0.95
    # 350 s lost of 1000 s: needs 0.2 (t + 1000 + 7) >= 350 + 7, so t >= 778 s.
    assert not len(adjusted(swapped, share, until_s=770.0))
    assert starts(adjusted(swapped, share, until_s=790.0)) == [1]


@pytest.mark.parametrize(("duration_s", "joins"), [(360.0, []), (380.0, [1])])
def test_a_job_too_short_to_make_up_for_a_bad_pair_is_left_alone(
    duration_s: float, joins: list[int]
) -> None:
    """A round of 60 s and two restarts of 7 s are a fifth of 370 s."""
    twin = make([RESNET, LM], durations=duration_s)
    guess(twin, 0.95)
    assert starts(adjusted(twin, Share(limit=0.2, stay_s=1000.0))) == joins
    assert starts(adjusted(twin, Share(limit=0.2))) == [1]  # there a limit on pairs is all


@pytest.mark.parametrize(("duration_s", "joins"), [(4000.0, []), (8000.0, [1])])
def test_what_was_lost_is_made_up_for_before_the_end(duration_s: float, joins: list[int]) -> None:
    """500 s lost of 560 s are 388 s beyond a fifth; at 0.85 a twentieth of the rest is to spare."""
    twin = make([RESNET, LM], durations=duration_s)
    guess(twin, 0.85)
    twin.run(to_us(50))
    twin.state.runs.service_us[0] += to_us(500)
    assert starts(adjusted(twin, Share(limit=0.2, stay_s=1000.0))) == joins


def test_running_jobs_make_room_for_those_that_wait() -> None:
    """Two that go well together give a device to one that goes with neither."""
    twin = make([RESNET, RESNET, RESNET50], nodes=2, durations=9000.0)
    pairs = twin.state.pair_guesses.reshape(2, 2)
    of = twin.state.jobs.profile
    pairs[of[2], of[0]] = 0.3
    plan = adjusted(twin, Share(limit=0.2))
    kinds = [(int(row.kind), int(row.job)) for row in plan]
    assert kinds == [(ActionKind.PREEMPT, 1), (ActionKind.START, 1)]
    assert plan[1].milli == 0 and plan[1].node == 0
    assert not len(adjusted(twin, Share(limit=0.2, gather=False)))
    assert not len(adjusted(twin, Share(limit=0.2, moves=0)))


def test_when_no_job_waits_a_guest_gets_a_separate_device() -> None:
    """A device falls free after 600 s; the guest moves there at the next round."""
    twin = make([RESNET, RESNET50, LM], nodes=2, durations=[9000.0, 600.0, 9000.0],
                tuner=Share(limit=0.4))  # fmt: skip
    twin.run(to_us(599))
    rows = twin.state.rows[twin.state.runs.first_row[[0, 1, 2]]]
    assert rows.node[2] == rows.node[0] != rows.node[1]
    twin.run(to_us(700))
    rows = twin.state.rows[twin.state.runs.first_row[[0, 2]]]
    assert rows.node[0] != rows.node[1]
    assert twin.state.runs.preemptions.tolist() == [0, 0, 1]


def test_no_job_of_a_busy_cluster_is_slowed_beyond_its_limit() -> None:
    rng = np.random.default_rng(5)
    models = rng.integers(0, len(MODELS), 40).tolist()
    spans = rng.uniform(1000, 20_000, 40).tolist()
    for share in (Share(limit=0.2), Share(limit=0.2, stay_s=900.0)):
        twin = make(models, nodes=6, durations=spans, tuner=share)
        twin.run()
        state = twin.state
        slowdown = 1 - state.jobs.work_us / state.runs.service_us
        assert slowdown.max() <= 0.2 + 0.006  # a round at most
        assert (slowdown > 0.01).any()


# Matchings ---------------------------------------------------------------------------


def test_a_matching_has_the_greatest_sum() -> None:
    gain = np.array([[3.0, 2.9], [2.9, 0.5]])
    assert match(gain) == [(0, 1), (1, 0)]
    assert match(np.zeros((2, 3))) == [] == match(np.zeros((0, 3)))


@pytest.mark.parametrize("seed", range(5))
def test_pairs_among_themselves_are_near_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain = np.triu(rng.random((8, 8)) * (rng.random((8, 8)) < 0.6), 1)
    gain = gain + gain.T
    pairs = pair_up(gain)
    used = [job for pair in pairs for job in pair]
    assert len(used) == len(set(used))
    assert sum(gain[pair] for pair in pairs) >= 2 / 3 * _best(gain, tuple(range(8)))


def _best(gain: Floats, rows: tuple[int, ...]) -> float:
    """The best matching, by trying all."""
    if len(rows) < 2:
        return 0.0
    first, rest = rows[0], rows[1:]
    with_it = [
        float(gain[first, row]) + _best(gain, tuple(r for r in rest if r != row)) for row in rest
    ]
    return max(_best(gain, rest), *with_it)


def test_large_tables_are_matched_greedily_and_validly() -> None:
    rng = np.random.default_rng(1)
    gain = rng.random((300, 300))
    pairs = match(gain)
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs) == 300
    gain = np.triu(gain, 1) + np.triu(gain, 1).T
    pairs = pair_up(gain)
    assert len({job for pair in pairs for job in pair}) == 2 * len(pairs) == 300
