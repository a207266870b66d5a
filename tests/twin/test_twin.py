"""The compiled twin, effect by effect, against numbers worked out on paper.

Unless a case says otherwise nodes have V100s, whose figures in the catalogue are: 45 W idle,
71 W of host per device, 261 W busy with a compute-intensive job, 15 W a node asleep, 300 s to wake,
16 GiB. So a node of one device draws 116 W idle and 332 W busy. Times are seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.core import state as dtypes
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt, Span
from flyball.core.state import records
from flyball.core.units import FOREVER_US, to_us
from flyball.core.workload import JobClass, Workload
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin, warm

pytestmark = pytest.mark.nojit

HOST_W, IDLE_W, BUSY_W, SLEEP_W = 71.0, 45.0, 261.0, 15.0
NODE_IDLE_W, NODE_BUSY_W = HOST_W + IDLE_W, HOST_W + BUSY_W
COMPUTE = int(JobClass.COMPUTE_INTENSIVE)


def group(nodes: int = 1, devices: int = 1, device: str = "V100") -> NodeGroup:
    return NodeGroup("n", nodes, device, devices)


def make(
    groups: list[NodeGroup],
    submit_s: list[float],
    duration_s: list[float],
    devices: Any = 1,
    *,
    knobs: Knobs | None = None,
    effects: Effects | None = None,
    budget_w: float = 0.0,
    outages: list[tuple[float, float, int]] | None = None,
    **columns: Any,
) -> Twin:
    """A twin of these jobs, all compute-intensive; `outages` are (down, up, node)."""
    workload = Workload.of("case", submit_s, duration_s, devices, **{"kind": COMPUTE, **columns})
    cluster = Cluster("case", tuple(groups), budget_w)
    twin = Twin(cluster, workload, knobs or Knobs(), effects)
    if outages:
        table = records(len(outages), dtypes.OUTAGE)
        for row, (down_s, up_s, node) in zip(table, outages, strict=True):
            row.down_us, row.up_us, row.node = to_us(down_s), to_us(up_s), node
        twin.state = twin.state._replace(outages=table)
    return twin


def run(*args: Any, **rest: Any) -> Twin:
    twin = make(*args, **rest)
    twin.run()
    assert twin.finished
    return twin


def starts(twin: Twin) -> list[float]:
    return (twin.state.runs.first_start_us / 1e6).tolist()  # type: ignore[no-any-return]


def ends(twin: Twin) -> list[float]:
    return (twin.state.runs.end_us / 1e6).tolist()  # type: ignore[no-any-return]


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
    whole = run([group(2, 2)], *jobs, model=[-1, -1, 0], knobs=Knobs(place=Place.SPREAD), **model)
    assert starts(whole)[2] == 1000
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


# Queue -----------------------------------------------------------------------


def test_array_admits_two_at_a_time() -> None:
    twin = run([group(1, 8)], [0] * 5, [10] * 5, group=0, group_limits=(2,))
    assert starts(twin) == [0, 0, 10, 10, 20]


def test_dependencies_in_a_diamond() -> None:
    # 1 and 2 wait for 0, 3 for both; 4 waits for nobody.
    twin = run(
        [group(1, 8)],
        [0] * 5,
        [10, 20, 30, 5, 1],
        after_job=np.array([1, 2, 3, 3]),
        after_on=np.array([0, 0, 1, 2]),
    )
    assert starts(twin) == [0, 10, 10, 40, 0]


def test_priority_goes_first() -> None:
    twin = run([group()], [0, 1, 2], [10, 10, 10], priority=[0.0, 0.0, 1.0])
    assert starts(twin) == [0, 20, 10]


@pytest.mark.parametrize(("ageing", "expected"), [(0.0, [0, 160, 100]), (2.0, [0, 100, 200])])
def test_ageing_lets_a_long_job_past_a_newer_short_one(
    ageing: float, expected: list[float]
) -> None:
    # Shortest first: 100 s at second 1 against 60 s at 41. If a second waited is worth two, the
    # older comes first.
    knobs = Knobs(order=Order.SHORTEST, ageing=ageing)
    twin = run([group()], [0, 1, 41], [100, 100, 60], knobs=knobs)
    assert starts(twin) == expected


def test_area_counts_devices() -> None:
    # Behind a full node: 30 s x 2 devices is more than 50 s x 1.
    knobs = Knobs(order=Order.AREA, backfill=Backfill.STRICT)
    twin = run([group(1, 2)], [0, 1, 1], [10, 30, 50], [2, 2, 1], knobs=knobs)
    assert starts(twin) == [0, 60, 10]


def test_limit_kills() -> None:
    twin = run([group()], [0, 0], [100, 10], limit_us=[to_us(30), to_us(30)])
    assert ends(twin) == [30, 40]
    assert twin.state.runs.status.tolist() == [Status.TIMEOUT, Status.DONE]
    assert twin.state.runs[0].done_us == 30e6


@pytest.mark.parametrize(
    ("backfill", "expected"),
    [
        (Backfill.STRICT, [0, 100, 200, 200]),
        (Backfill.SKIP, [0, 140, 0, 0]),
        (Backfill.EASY, [0, 100, 0, 200]),
    ],
)
def test_behind_a_head_that_does_not_fit(backfill: Backfill, expected: list[float]) -> None:
    # One node of 4: 2 run until 100, the head wants 4. 90 s end before it starts, 140 s do not.
    twin = run([group(1, 4)], [0] * 4, [100, 100, 90, 140], [2, 4, 1, 1],
               knobs=Knobs(backfill=backfill))  # fmt: skip
    assert starts(twin) == expected


def test_easy_follows_the_estimate_not_the_truth() -> None:
    # The same with the estimates of the last two exchanged: now the wrong one goes ahead.
    twin = run(
        [group(1, 4)], [0] * 4, [100, 100, 90, 140], [2, 4, 1, 1],
        knobs=Knobs(backfill=Backfill.EASY), estimate_us=[100e6, 100e6, 140e6, 90e6],
    )  # fmt: skip
    assert starts(twin) == [0, 140, 240, 0]


@pytest.mark.parametrize(("hold_s", "expected"), [(1000.0, [0, 0]), (100.0, [0, 100])])
def test_hold_waits_if_the_slow_pool_costs_more(hold_s: float, expected: list[float]) -> None:
    # LM: 100 s on a V100 are 377.7 s on a K80. With W = 100 s the second holds out for the V100.
    twin = run(
        [group(), group(device="K80")], [0, 0], [100, 100],
        knobs=Knobs(place=Place.HOLD, hold_s=hold_s),
        models=("LM (batch size 20)",), model=0, kind=-1,
    )  # fmt: skip
    assert starts(twin) == expected


@pytest.mark.parametrize(
    ("place", "pool"), [(Place.FASTEST, 1), (Place.EFFICIENT, 1), (Place.BEST_FIT, 0)]
)
def test_which_pool(place: Place, pool: int) -> None:
    # LM on a K80 draws half the power for 3.8 times as long: the V100 is better in both.
    twin = run(
        [group(1, 1, "K80"), group(1, 2)], [0], [100], knobs=Knobs(place=place),
        models=("LM (batch size 20)",), model=0, kind=-1,
    )  # fmt: skip
    assert twin.state.runs[0].pool == pool


# Time ------------------------------------------------------------------------


def test_a_job_of_no_length_ends_where_it_starts() -> None:
    twin = run([group()], [0, 0, 0], [0, 0, 5])
    assert starts(twin) == [0, 0, 0]
    assert ends(twin) == [0, 0, 5]


def test_the_end_is_rounded_up_to_a_microsecond() -> None:
    twin = run([group()], [0], [1.0], knobs=Knobs(cap=0.95))
    slowdown = twin.state.caps[1].slowdown
    assert twin.state.runs[0].end_us == int(np.ceil(1e6 / (1.0 / slowdown)))


def test_overtaken_ends_make_room_in_the_event_list() -> None:
    # Every preemption of the longest leaves an end that never comes, behind that of the other
    # node's job: far more of them than the list has room for.
    twin = make(
        [group(2)],
        [0.0, 0.0] + [60.0 * i + 30 for i in range(300)],
        [20_000.0, 1e6] + [1.0] * 300,
        knobs=Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, round_s=10.0, margin_s=0.0),
        effects=Effects(restart_s=(0.0, 0.0, 0.0)),
    )
    room = len(twin.state.events)
    twin.run()
    assert twin.finished
    assert twin.state.clock[0].preemptions == 300 > room
    assert ends(twin)[0] == 20_000


# The twin as an object -------------------------------------------------------


def test_replay_marks_the_window_whoever_decides() -> None:
    twin = make([group()], [0, 50, 100], [10, 10, 10])
    results = twin.replay(Preset("own", "", twin.knobs))
    first, last = results.window
    assert (first.time_us, last.time_us) == (to_us(10), to_us(100))
    assert (first.finished, last.finished) == (1, 2)
    assert last.work_us - first.work_us == 10e6
    assert last.energy_j - first.energy_j == pytest.approx(80 * NODE_IDLE_W + 10 * NODE_BUSY_W)
    assert results.stop_us == to_us(110)
    assert results.events == 9
    assert results.attempts.tolist() == [1, 1, 1]
    plain = make([group()], [0, 50, 100], [10, 10, 10]).replay()
    assert plain.node_energy_j.tolist() == results.node_energy_j.tolist()
    assert plain.window == results.window


def test_solo_time_is_that_of_the_fastest_pool() -> None:
    twin = make(
        [group(device="K80"), group()], [0], [100], models=("LM (batch size 20)",), model=0, kind=-1
    )
    assert twin.replay().solo_us.tolist() == [100e6]


def test_next_instant_and_the_end() -> None:
    twin = make([group()], [5], [10])
    assert (twin.now_us, twin.next_us) == (to_us(5), to_us(5))
    twin.run(to_us(5))
    assert twin.next_us == to_us(15)
    assert not twin.finished
    twin.run()
    assert twin.next_us == FOREVER_US
    assert twin.step(get_policy("fifo")) is None


def test_more_depth_on_the_way() -> None:
    twin = make([group()], [0.0] * 20, [10.0] * 20, knobs=Knobs(backfill=Backfill.EASY, depth=2))
    twin.run(to_us(15))
    assert len(twin.state.window) == 2
    twin.set_knobs(Knobs(backfill=Backfill.EASY, depth=100))
    assert len(twin.state.window) == 20
    twin.run()
    assert ends(twin) == [10.0 * i for i in range(1, 21)]


def test_knobs_settle_the_accounts_before_they_change() -> None:
    # Node 2 idles awake until 50. From then on 10 s of idling put a node to sleep, which are
    # over: it sleeps from 50 until the end of the first job at 100.
    twin = make([group(3)], [0, 50], [100, 10])
    twin.run(to_us(50))
    twin.set_knobs(Knobs(sleep_s=10.0))
    assert twin.state.nodes[2].energy_j == pytest.approx(50 * NODE_IDLE_W)
    energy_j = twin.replay().node_energy_j[2]
    assert energy_j == pytest.approx(50 * NODE_IDLE_W + 50 * SLEEP_W)


def test_what_is_not_a_dump_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.npz"
    text.write_text("not a dump")
    with pytest.raises(BadInput, match="is not a dump of a twin"):
        Twin.load(text)
    with pytest.raises(BadInput, match="is not a dump of a twin"):
        Twin.load(tmp_path / "absent.npz")
    other = tmp_path / "other.npz"
    np.savez(other, something=np.zeros(1))
    with pytest.raises(BadInput, match="is not a dump of a twin"):
        Twin.load(other)


def test_a_dump_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "twin.npz"
    make([group()], [0], [10]).dump(path)
    monkeypatch.setattr("flyball.twin.twin.DUMP_FORMAT", 99)
    with pytest.raises(BadInput, match=r"has format 1; this version: 99"):
        Twin.load(path)


def test_warm_says_how_long_it_took() -> None:
    assert warm() >= 0.0


def test_a_budget_that_just_admits_a_job_admits_it_after_any_drift() -> None:
    # Shares of odd size leave the sum of watts an ulp or two off; the last job needs it all.
    group = (NodeGroup("n", 3, "T4", 4),)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        milli = np.append(rng.integers(1, 999, 11), 1000)
        devices = np.append(np.ones(11, np.int64), 4)
        submit = np.append(rng.integers(0, 20, 11), 100)
        workload = Workload.of("w", submit, rng.integers(1, 30, 12), devices, milli=milli, kind=2)
        state = Twin(Cluster("c", group), workload, Knobs()).state
        watts = float(state.rates[int(state.jobs[-1].profile)].watts)
        just_w = float(state.clock[0].power_w) + 4 * (watts - float(state.pools[0].idle_w))
        twin = Twin(Cluster("c", group, just_w), workload, Knobs())
        twin.run()
        assert twin.finished
