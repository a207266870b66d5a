"""Queue, time and the twin as an object, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.twin.twin_cases import (
    NODE_BUSY_W,
    NODE_IDLE_W,
    SLEEP_W,
    ends,
    group,
    make,
    run,
    starts,
)

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, FlyballError
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt
from flyball.core.protocols import Forecast
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.units import FOREVER_US, to_us
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin, warm

pytestmark = pytest.mark.nojit

# Queue -----------------------------------------------------------------------


def test_array_admits_two_at_a_time() -> None:
    twin = run([group(1, 8)], [0] * 5, [10] * 5, group=0, group_limits=(2,))
    assert starts(twin) == [0, 0, 10, 10, 20]


def test_dependencies_in_a_diamond() -> None:
    # 1 and 2 wait for 0, 3 for both; 4 waits for none.
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


def test_replay_marks_the_window_with_any_policy() -> None:
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
    with pytest.raises(BadInput, match=r"has format 4; this version: 99"):
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


class StartsNothing:
    """A policy whose plans are always empty."""

    def decide(self, state: State, forecast: Forecast | None) -> Records:
        return records(0, ACTION)


def test_policy_that_starts_nothing_is_an_error_with_the_count() -> None:
    twin = make([group()], [float(at) for at in range(600)], [10.0] * 600)
    with pytest.raises(FlyballError, match="600 jobs of 600 never started") as caught:
        twin.replay(StartsNothing())
    assert "start every job that fits" in str(caught.value)
