"""Each effect of the compiled twin against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.twin.twin_cases import (
    BUSY_W,
    HOST_W,
    IDLE_W,
    NODE_BUSY_W,
    NODE_IDLE_W,
    SLEEP_W,
    ends,
    group,
    run,
    starts,
)

from flyball.core.effects import Effects
from flyball.core.knobs import Knobs, Order, Place, Preempt, Span
from flyball.core.metrics import waits_s
from flyball.core.units import to_us
from flyball.schedule.policies.registry import get_policy

pytestmark = pytest.mark.nojit

# Power and energy ------------------------------------------------------------


def test_energy_of_a_node_and_of_a_job() -> None:
    # Two devices, one busy for 100 s: host 142, one idle 45, one busy 261.
    twin = run([group(1, 2)], [0], [100])
    assert twin.state.nodes[0].energy_j == pytest.approx((142 + 45 + 261) * 100)
    assert twin.state.runs[0].energy_j == pytest.approx((261 + 71) * 100)
    assert twin.state.clock[0].peak_power_w == pytest.approx(142 + 45 + 261)
    assert twin.state.nodes[0].busy_us == 100e6


def test_a_cap_slows_and_saves() -> None:
    # A V100 capped at 75 % of its draw takes 1.116 times as long and draws 0.94 of the cap.
    twin = run([group()], [0], [100], knobs=Knobs(cap=0.75))
    assert ends(twin) == pytest.approx([111.6])
    drawn_w = HOST_W + BUSY_W * 0.94 * 0.75
    assert twin.state.nodes[0].energy_j == pytest.approx(drawn_w * 111.6)
    assert twin.state.runs[0].energy_j == pytest.approx(drawn_w * 111.6)


def test_sleep_and_wake() -> None:
    # Idle from 100, asleep from 110. The start at 200 waits 300 s, then 50 s of work.
    twin = run([group()], [0, 200], [100, 50], knobs=Knobs(sleep_s=10.0))
    assert starts(twin) == [0, 200]
    assert ends(twin) == [100, 550]
    node = twin.state.nodes[0]
    busy_s = 100 + 350
    expected_j = busy_s * NODE_BUSY_W + 10 * NODE_IDLE_W + 90 * SLEEP_W
    assert node.energy_j == pytest.approx(expected_j)
    assert node.asleep_us == 90e6
    assert waits_s(twin.results((twin.mark(0), twin.mark(0)))).tolist() == [0.0, 300.0]


def test_waking_counts_only_while_the_slice_lasts() -> None:
    # Asleep from 110. The job of 200 is killed by its limit at 280, before the node is awake.
    knobs = Knobs(sleep_s=10.0)
    twin = run([group()], [0, 200], [100, 50], knobs=knobs, limit_us=[0, to_us(80)])
    assert ends(twin) == [100, 280]
    assert twin.state.runs.waking_us.tolist() == [0, to_us(80)]


def test_without_sleep_a_node_idles() -> None:
    twin = run([group()], [0, 200], [100, 50])
    assert ends(twin) == [100, 250]
    expected_j = 150 * NODE_BUSY_W + 100 * NODE_IDLE_W
    assert twin.state.nodes[0].energy_j == pytest.approx(expected_j)


@pytest.mark.parametrize(("slack_w", "second_s"), [(-1, 100), (1, 0)])
def test_power_budget(slack_w: float, second_s: float) -> None:
    # Two nodes; the budget just allows both to run, or just not.
    twin = run([group(2)], [0, 0], [100, 100], budget_w=2 * NODE_BUSY_W + slack_w)
    assert starts(twin) == [0, second_s]
    assert twin.state.clock[0].peak_power_w <= 2 * NODE_BUSY_W + slack_w


# Preemption and failure ------------------------------------------------------


def test_preemption_pays_checkpoint_and_restart() -> None:
    # The short job comes at 100; at the round of 120 the long one, with 880 left, gives way.
    # Of its 120 s the last 5 went into the checkpoint: 885 left after a restart of 7 s at 130.
    twin = run(
        [group()],
        [0, 100],
        [1000, 10],
        knobs=get_policy("srtf").knobs,
        effects=Effects(checkpoint_s=5.0),
    )
    assert starts(twin) == [0, 120]
    assert ends(twin) == [130 + 7 + 885, 130]
    long = twin.state.runs[0]
    assert (long.preemptions, long.attempt, long.lost_us) == (1, 2, 5e6)
    assert long.service_us == (120 + 7 + 885) * 1e6
    assert long.energy_j == pytest.approx(NODE_BUSY_W * (120 + 7 + 885))


def test_margin_protects_a_job_that_is_nearly_as_short() -> None:
    twin = run([group()], [0, 100], [1000, 850], knobs=get_policy("srtf").knobs)
    assert starts(twin) == [0, 1000]
    assert twin.state.clock[0].preemptions == 0


def test_least_attained_demotes_after_its_share() -> None:
    # After 3,600 device-seconds the first is demoted; at the next round the second takes over.
    twin = run([group()], [0, 10], [10_000, 100], knobs=get_policy("las").knobs)
    assert starts(twin) == [0, 3600]
    assert ends(twin) == [3700 + 7 + 6400, 3700]


def test_preemption_of_a_gang_over_nodes() -> None:
    # The gang of 4 needs both nodes cleared.
    knobs = Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS)
    twin = run([group(2, 2)], [0, 0, 5], [1000, 2000, 30], [2, 2, 4], knobs=knobs)
    assert starts(twin) == [0, 0, 60]
    assert twin.state.runs.preemptions.tolist() == [1, 1, 0]
    # Both start again at 90 and pay 30 s, being gangs of 2: 940 and 1940 are left.
    assert ends(twin) == [90 + 30 + 940, 90 + 30 + 1940, 90]


@pytest.mark.parametrize(("every_s", "kept_s"), [(10.0, 60.0), (0.0, 0.0)])
def test_failure_rolls_back_to_the_last_checkpoint(every_s: float, kept_s: float) -> None:
    # The node is down from 65 to 90; then 7 s of restart and what was not kept.
    twin = run(
        [group()],
        [0],
        [100],
        effects=Effects(checkpoint_every_s=every_s),
        outages=[(65, 90, 0)],
    )
    end_s = 90 + 7 + 100 - kept_s
    assert ends(twin) == [end_s]
    job, node, clock = twin.state.runs[0], twin.state.nodes[0], twin.state.clock[0]
    assert (job.failures, job.attempt, job.lost_us) == (1, 2, (65 - kept_s) * 1e6)
    assert (clock.failures, clock.repairs) == (1, 1)
    assert node.energy_j == pytest.approx(NODE_BUSY_W * (65 + end_s - 90))  # nothing while down


def test_a_failed_nodes_job_goes_elsewhere_and_the_node_takes_nothing() -> None:
    twin = run([group(2)], [0, 0, 20], [100, 100, 10], outages=[(10, 1000, 0)])
    # Node 1 is busy until 100. Both wait for it: the failed job was submitted first.
    assert starts(twin) == [0, 0, 207]
    assert ends(twin) == [100 + 7 + 100, 100, 217]


# Speed, memory, sharing ------------------------------------------------------


def test_a_gang_apart_runs_at_its_measured_spread_speed() -> None:
    # Gavel, LM of batch 20 on two V100: 132.17413 steps/s on one node, 30.43655 on two.
    model: dict[str, Any] = {"models": ("LM (batch size 20)",), "kind": -1}
    jobs: Any = ([0, 0, 1], [1000, 1000, 100], [1, 1, 2])
    packed = run([group(2, 2)], *jobs, model=[-1, -1, 0], knobs=Knobs(place=Place.SPREAD), **model)
    assert starts(packed)[2] == 1000
    knobs = Knobs(place=Place.SPREAD, span=Span.ANY)
    apart = run([group(2, 2)], *jobs, model=[-1, -1, 0], knobs=knobs, **model)
    assert ends(apart)[2] == pytest.approx(1 + 100 * 132.17413 / 30.43655)
    free = run(
        [group(2, 2)],
        *jobs,
        model=[-1, -1, 0],
        knobs=knobs,
        effects=Effects(network=False),
        **model,
    )
    assert ends(free)[2] == 1 + 100


def test_measured_speed_of_another_type() -> None:
    # Gavel, LM of batch 20: 64.74245 steps/s on a V100, 17.14229 on a K80.
    model: dict[str, Any] = {"models": ("LM (batch size 20)",), "model": 0, "kind": -1}
    twin = run([group(device="K80")], [0], [100], **model)
    assert ends(twin) == pytest.approx([100 * 64.74245 / 17.14229])
    assert not twin.state.rates[0].estimated


def test_memory_keeps_a_job_off_small_devices() -> None:
    # 14 GiB fit a V100 (16), not a K80 (12): the second waits although the K80 is free.
    twin = run([group(device="K80"), group()], [0, 0], [50, 50], memory_mib=14 * 1024)
    assert starts(twin) == [0, 50]
    assert twin.state.runs.pool.tolist() == [1, 1]


def test_memory_of_a_shared_device() -> None:
    # Halves of one V100: 10 + 10 GiB are too much, 10 + 6 are not.
    gib = 1024
    twin = run(
        [group()], [0, 0, 0], [50, 50, 50], milli=500, memory_mib=[10 * gib, 10 * gib, 6 * gib]
    )
    assert starts(twin) == [0, 50, 0]


def test_fractions_share_a_device_and_its_draw() -> None:
    # Four quarters and a fifth: each quarter adds a quarter of 261 - 45 W.
    twin = run([group()], [0] * 5, [100] * 5, milli=250)
    assert starts(twin) == [0, 0, 0, 0, 100]
    full_w = HOST_W + IDLE_W + 4 * 0.25 * (BUSY_W - IDLE_W)
    one_w = HOST_W + IDLE_W + 0.25 * (BUSY_W - IDLE_W)
    assert twin.state.nodes[0].energy_j == pytest.approx((full_w + one_w) * 100)
    assert twin.state.runs[4].energy_j == pytest.approx(0.25 * (BUSY_W + HOST_W) * 100)
    assert twin.state.nodes[0].busy_us == 125e6


def test_a_fraction_fills_the_fullest_device_first() -> None:
    # 700 on device 0, 400 must open device 1; 300 fits both and goes where less is left.
    twin = run([group(1, 2)], [0, 1, 2, 3], [100] * 4, milli=[700, 400, 300, 1000])
    # Device 1 is whole free at 101. Had the 300 gone there, it would be device 0 at 100.
    assert starts(twin) == [0, 1, 2, 101]
