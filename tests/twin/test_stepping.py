"""Steps of learners on small clusters whose numbers can be worked out by hand."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt
from flyball.core.records import HEAP_OFFSET
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.stepping.fields import (
    GAINS,
    OBSERVATION,
    OBSERVATION_SIZE,
    OBSERVATION_VERSION,
    Field,
)
from flyball.twin.stepping.many import step_many
from flyball.twin.stepping.rows import PACKED_AS, KnobRows
from flyball.twin.twin import Twin

PAGE = Path(__file__).parents[2] / "docs" / "concept" / "stepping.md"
HOUR_US = 3_600_000_000
S = 1_000_000
POOLS = (NodeGroup("slow", 1, "K80", 4), NodeGroup("fast", 2, "V100", 4))


def busy(knobs: Knobs | None = None) -> Twin:
    """Twelve devices of two types; jobs of an hour arrive every minute and ask for four."""
    minutes = np.arange(30) * 60.0
    workload = Workload.of("busy", minutes, np.full(30, 3_600.0), np.full(30, 4))
    twin = Twin(Cluster("busy", POOLS), workload, knobs or Knobs())
    twin.run(10 * 60 * S)
    return twin


def named(fields: tuple[Field, ...], values: Any) -> dict[str, float]:
    return dict(zip((field.name for field in fields), values.tolist(), strict=True))


def test_fields_have_unique_names_and_a_fixed_length() -> None:
    assert len({field.name for field in OBSERVATION}) == len(OBSERVATION) == OBSERVATION_SIZE == 62
    assert len({field.name for field in GAINS}) == len(GAINS)


def test_the_page_has_every_field() -> None:
    text = PAGE.read_text("utf-8")
    for fields in (OBSERVATION, GAINS):
        for at, field in enumerate(fields):
            assert f"| {at} | `{field.name}` | {field.unit} | {field.meaning} |" in text
    assert f"Version {OBSERVATION_VERSION}" in text


def test_the_example_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})


def test_an_observation_by_hand() -> None:
    twin = busy()
    seen = named(OBSERVATION, twin.observe(10 * 60 * S))
    # Three jobs run, the eight submitted in minutes 3 to 10 wait.
    assert seen["pending_jobs"] == pytest.approx(math.log1p(8 / 12))
    assert seen["pending_devices"] == pytest.approx(math.log1p(32 / 12))
    assert seen["pending_work"] == pytest.approx(math.log1p(32 / 12))
    assert seen["jobs_size_4"] == seen["work_size_4"] == 1.0
    assert seen["jobs_len_1h"] == seen["work_len_1h"] == 1.0
    week = math.log1p(7 * 86_400)
    assert seen["longest_wait"] == pytest.approx(math.log1p(7 * 60) / week)
    assert seen["mean_wait"] == pytest.approx(math.log1p(3.5 * 60) / week)
    assert seen["head_devices"] == pytest.approx(4 / 12)
    assert seen["running_jobs"] == pytest.approx(3 / 12)
    assert seen["used"] == 1.0
    assert seen["free"] == seen["down"] == seen["idle_nodes"] == seen["largest_hole"] == 0.0
    # Pools by size: the fast one has eight devices, the slow one four, others are not there.
    assert (seen["pool0_size"], seen["pool1_size"]) == pytest.approx((8 / 12, 4 / 12))
    assert (seen["pool0_speed"], seen["pool1_speed"]) == (1.0, 0.5)
    assert seen["pool2_size"] == seen["pool2_speed"] == seen["pool3_size"] == 0.0
    # Eleven jobs of four device-hours each in ten minutes, on twelve devices.
    assert seen["offered"] == pytest.approx(11 * 4 * 3_600 / (12 * 600))
    assert seen["price"] == seen["carbon"] == seen["budget"] == 0.0
    assert seen["power"] > 1.0


def test_observing_changes_nothing_and_hides_true_durations() -> None:
    twin, other = busy(), busy()
    before = twin.state.arena.copy()
    seen = twin.observe()
    assert np.array_equal(twin.state.arena, before)
    jobs = other.state.jobs.copy()
    jobs.work_us *= 7.0
    other.state = other.state._replace(jobs=jobs)
    assert np.array_equal(other.observe(), seen)
    out = np.full(OBSERVATION_SIZE, np.nan)
    assert twin.observe(out=out) is out
    assert np.array_equal(out, seen)


def test_running_jobs_are_counted_also_without_their_ends() -> None:
    twin = busy()
    seen = twin.observe()
    assert named(OBSERVATION, seen)["running_work"] > 0.0
    twin.state.clock["event_count"] = 0
    assert np.array_equal(twin.observe(), seen)
    event = twin.state.events[HEAP_OFFSET : HEAP_OFFSET + 3].copy()
    twin.state.events[HEAP_OFFSET + 3 : HEAP_OFFSET + 6] = event  # every end is there twice
    twin.state.clock["event_count"] = 6
    assert np.array_equal(twin.observe(), seen)


def test_gains_by_hand() -> None:
    twin = Twin(
        Cluster("one", (NodeGroup("n", 1, "V100", 1),)),
        Workload.of("two", [0.0, 0.0], [3_600.0, 3_600.0]),
        Knobs(),
    )
    first, second, third = (step_many([twin], for_us=45 * 60 * S) for _ in range(3))
    gained = named(GAINS, first.gains[0])
    assert (gained["arrivals"], gained["starts"], gained["ends"]) == (2, 1, 0)
    assert gained["presence_s"] == 2 * 2_700
    assert gained["busy_s"] == gained["work_s"] == gained["elapsed_s"] == 2_700
    gained = named(GAINS, second.gains[0])
    assert (gained["starts"], gained["ends"], gained["flow_s"]) == (1, 1, 3_600)
    assert gained["presence_s"] == 900 * 2 + 1_800
    assert not second.finished[0]
    assert named(GAINS, third.gains[0])["ends"] == 1
    assert third.finished[0]


@pytest.mark.parametrize(
    "change",
    [
        {"ageing": 0.3},
        {"priority_s": 5.0},
        {"order": Order.INDEX, "index_size": 0.2},
        {"backfill": Backfill.EASY},
        {"place": Place.FASTEST},
        {"preempt": Preempt.ROUNDS, "move_s": 30.0, "round_s": 120.0},
        {"sleep_s": 60.0, "cap": 0.8},
        {"order_quantile": 0.9},  # no job has a spread
    ],
)
def test_usual_changes_need_no_rebuild(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("rebuilt")

    monkeypatch.setattr("flyball.twin.twin.rebuild", refused)
    twin = busy()
    state = twin.state
    twin.set_knobs(replace(twin.knobs, **change))
    assert twin.state is state
    assert twin.knobs == replace(Knobs(), **change)


def test_knob_rows_pack_as_knobs_do() -> None:
    rng = np.random.default_rng(5)
    base = get_policy("tuned").knobs
    base = replace(base, order=Order.INDEX, preempt=Preempt.ROUNDS)
    limits = {name: Knobs.__dataclass_fields__[name].metadata for name in PACKED_AS}
    values = np.array(
        [
            [limit["low"] + rng.random() * (min(limit["high"], 1e5) - limit["low"]) for _ in "123"]
            for limit in limits.values()
        ]
    ).T
    rows = KnobRows(base, list(PACKED_AS), values)
    assert len(rows) == 3
    for at in range(3):
        assert rows.packed[at].tobytes() == rows[at].pack()[0].tobytes()
    never = KnobRows(Knobs(), ("move_s", "sleep_s"), [[5.0, -1.0]])
    assert never.packed[0].tobytes() == Knobs(move_s=5.0).pack()[0].tobytes()


def test_knob_rows_refuse() -> None:
    with pytest.raises(BadInput, match=r"ageing = -1\.0 is out of range"):
        KnobRows(Knobs(), ("ageing",), [[-1.0]])
    with pytest.raises(BadInput, match="out of range"):
        KnobRows(Knobs(), ("cap",), [[math.nan]])
    with pytest.raises(UnknownName, match="order"):
        KnobRows(Knobs(), ("order",), [[1.0]])
    with pytest.raises(BadInput, match="column per knob"):
        KnobRows(Knobs(), ("ageing",), [1.0])


def test_steps_with_knob_rows_leave_the_knobs_behind() -> None:
    twins = [busy(), busy(Knobs(order=Order.SHORTEST))]
    rows = KnobRows(Knobs(), ("ageing",), [[0.25], [0.5]])
    step_many(twins, rows, for_us=HOUR_US)
    assert [twin.knobs for twin in twins] == [Knobs(ageing=0.25), Knobs(ageing=0.5)]
    copy = twins[1].clone()
    step_many([twins[1]], [Knobs()], for_us=HOUR_US)
    assert copy.knobs == Knobs(ageing=0.5)
    assert np.array_equal(copy._packed, Knobs(ageing=0.5).pack())


def test_steps_refuse() -> None:
    twin = busy()
    with pytest.raises(BadInput, match="twice"):
        step_many([twin, twin], until_us=HOUR_US)
    with pytest.raises(BadInput, match="2 settings for 1 twins"):
        step_many([twin], [Knobs(), Knobs()], HOUR_US)
    with pytest.raises(BadInput, match="past"):
        step_many([twin], until_us=1)
    with pytest.raises(BadInput, match="either"):
        step_many([twin])
    step_many([twin], until_us=HOUR_US)
    with pytest.raises(BadInput, match="past"):
        step_many([twin], until_us=HOUR_US - 1)
    with pytest.raises(BadInput, match="shares"):
        step_many([twin], [Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS)], 2 * HOUR_US)


def test_rounds_in_which_jobs_might_never_progress_are_refused_on_the_way_too() -> None:
    """Such a run may never end: jobs are stopped before their node is awake, round after round."""
    policy = get_policy("max-min")
    shared = Twin(
        Cluster("busy", POOLS),
        Workload.of("few", [0.0], [60.0]),
        policy.knobs,
        allocator=policy,  # type: ignore[arg-type]
    )
    awake = replace(policy.knobs, round_s=61.0)
    shared.set_knobs(awake)
    for short in (replace(awake, sleep_s=10.0), replace(awake, round_s=60.0)):
        with pytest.raises(BadInput, match="not longer than a checkpoint, a restart and a wake"):
            shared.set_knobs(short)
        with pytest.raises(BadInput, match="not longer than a checkpoint, a restart and a wake"):
            step_many([shared], [short], HOUR_US)
        assert shared.knobs == awake
    workload = Workload.of("few", [0.0], [60.0])
    plain = Twin(Cluster("busy", POOLS), workload, Knobs(), Effects(checkpoint_s=30.0))
    with pytest.raises(BadInput, match="rounds of 30 s are not longer than a checkpoint"):
        step_many([plain], [Knobs(preempt=Preempt.ROUNDS, round_s=30.0)], HOUR_US)
    step_many([plain], [Knobs(preempt=Preempt.ROUNDS, round_s=31.0)], HOUR_US)


def test_a_fork_holds_active_jobs_and_its_window() -> None:
    twin = busy()
    fork = twin.fork(5 * 60 * S)
    assert fork.part is not None
    # Eleven jobs are active, five arrive in the window, and one behind it is kept.
    assert fork.part.job_ids.tolist() == list(range(17))
    assert fork.part.until_us == 15 * 60 * S
    later = busy()
    later.run(2 * HOUR_US)
    ended = int(later.state.clock[0].finished)
    assert ended > 0
    rest = later.fork(0)
    assert rest.part is not None
    assert len(rest.state.jobs) == 30 - ended
    rest.run()
    later.run()
    assert rest.finished
    assert np.array_equal(rest.state.runs.end_us, later.state.runs.end_us[rest.part.job_ids])


def test_a_fork_numbers_many_jobs_in_order() -> None:
    """More jobs than one pass of the sort tells apart; the oldest run for as long as all others."""
    count = 5_000
    run_s = np.full(count, 30.0)
    run_s[::500] = 1e6
    workload = Workload.of("many", np.arange(count) * 10.0, run_s)
    twin = Twin(Cluster("many", (NodeGroup("n", 4, "V100", 8),)), workload, Knobs())
    twin.run(45_000 * S)
    fork = twin.fork(1_000 * S)
    assert fork.part is not None
    job_ids = fork.part.job_ids
    assert job_ids[0] == 0
    assert job_ids[-1] > 4_500
    assert (np.diff(job_ids) > 0).all()
    step_many([twin, fork], until_us=45_900 * S)
    ended = fork.state.runs.end_us
    assert np.array_equal(ended, twin.state.runs.end_us[job_ids])


@pytest.mark.parametrize(
    "use",
    [
        lambda fork: fork.replay(),
        lambda fork: fork.mark(fork.now_us),
        lambda fork: fork.window_us(),
        lambda fork: fork.dump("unused"),
        lambda fork: fork.set_knobs(Knobs(order=Order.HISTORY)),
        lambda fork: fork.run(),
        lambda fork: fork.fork(HOUR_US),
        lambda fork: step_many([fork], until_us=HOUR_US),
    ],
)
def test_a_fork_refuses_what_it_lacks_the_jobs_for(use: Any) -> None:
    with pytest.raises(BadInput, match="fork"):
        use(busy().fork(60 * S))


def test_a_twin_with_shares_is_not_forked() -> None:
    policy = get_policy("max-min")
    twin = busy()
    shared = Twin(
        Cluster("busy", POOLS),
        Workload.of("few", [0.0], [60.0]),
        policy.knobs,
        allocator=policy,  # type: ignore[arg-type]
    )
    assert twin.fork(0).part is not None
    with pytest.raises(BadInput, match="cannot be forked"):
        shared.fork(0)
