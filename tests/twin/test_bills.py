"""Money and carbon of nodes and jobs against cases worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.recfunctions import repack_fields
from tests.twin.twin_cases import COMPUTE, NODE_BUSY_W, NODE_IDLE_W, SLEEP_W, group

from flyball.core.cluster import Cluster
from flyball.core.codes import Reason
from flyball.core.knobs import Knobs
from flyball.core.protocols import Outlook
from flyball.core.records import Records
from flyball.core.signals import DAY_US, HOUR_US, Signal
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.tune.plan_draft import PlanDraft
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

HOUR_S = 3600.0


def stepped(*steps: tuple[float, float]) -> Signal:
    """Return a signal of (hour on the run's clock, value) steps."""
    times = np.array([round(hour * HOUR_US) for hour, _ in steps], np.int64)
    values = np.array([value for _, value in steps])
    return Signal("case", times, values, int(times[-1]) + HOUR_US, dated=True, origin_us=0)


def twin_of(
    price: Signal | None,
    carbon: Signal | None = None,
    submit_h: tuple[float, ...] = (0.0,),
    duration_h: tuple[float, ...] = (1.0,),
    knobs: Knobs | None = None,
    tuning: Tuning | None = None,
    **columns: Any,
) -> Twin:
    """Return the twin of one V100 node with one device."""
    cluster = Cluster("case", (group(),), price=price, carbon=carbon)
    submit_s, duration_s = np.array(submit_h) * HOUR_S, np.array(duration_h) * HOUR_S
    workload = Workload.of("case", submit_s, duration_s, 1, kind=COMPUTE, **columns)
    return Twin(cluster, workload, knobs or Knobs(), tuning=tuning)


def test_a_step_in_the_middle_of_a_job() -> None:
    twin = twin_of(stepped((0, 0.1), (0.5, 0.3)), stepped((0, 100), (0.25, 500)))
    results = twin.replay()
    kw = NODE_BUSY_W / 1000
    assert results.money is not None
    assert results.carbon_g is not None
    assert results.money[0] == pytest.approx(kw * 0.2, rel=1e-12)
    assert results.carbon_g[0] == pytest.approx(kw * 400, rel=1e-12)
    assert results.node_money == pytest.approx(results.money, rel=1e-12)  # it has the whole node
    assert results.node_carbon_g == pytest.approx(results.carbon_g, rel=1e-12)


def test_sleep_across_a_step() -> None:
    # Busy for half an hour, idle for another, then asleep; the price rises at 2 h.
    twin = twin_of(
        stepped((0, 0.1), (2, 0.5)), None, (0.0, 9.0), (0.5, 0.5), Knobs(sleep_s=HOUR_S / 2)
    )
    twin.run(to_us(HOUR_S))
    mark = twin.mark(to_us(4 * HOUR_S))
    watts_hours = (NODE_BUSY_W / 2 + NODE_IDLE_W / 2 + SLEEP_W) * 0.1 + SLEEP_W * 2 * 0.5
    assert mark.money == pytest.approx(watts_hours / 1000, rel=1e-12)
    assert mark.carbon_g is None
    twin.run()
    assert twin.state.nodes.money[0] > mark.money
    assert twin.state.runs.money[0] == pytest.approx(NODE_BUSY_W / 2 / 1000 * 0.1, rel=1e-12)


@dataclass(frozen=True)
class CapsAt:
    """Caps every running job at an instant."""

    at_us: int
    level: int

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        draft = PlanDraft(state, plan)
        if draft.now_us == self.at_us:
            for job in draft.active.tolist():
                draft.set_cap(job, self.level, int(Reason.MOVED), 0.0)
        return draft.plan()


def test_a_cap_in_the_middle_of_a_job() -> None:
    level, price = 6, stepped((0, 0.1), (1, 0.4))
    capper = Tuning((CapsAt(to_us(HOUR_S / 2), level),), Preset("p", "", Knobs()), 1800.0)
    twin = twin_of(price, duration_h=(1.0,), tuning=capper)
    twin.run()
    caps = twin.state.caps[level]
    watts = 261.0
    capped_w = watts * float(caps.power) + 71.0
    end_h = 0.5 + 0.5 * float(caps.slowdown)
    assert twin.state.runs.end_us[0] == pytest.approx(end_h * HOUR_US, abs=2)
    expected = 332.0 * 0.5 * 0.1 + capped_w * (0.5 * 0.1 + (end_h - 1.0) * 0.4)
    assert twin.state.runs.money[0] == pytest.approx(expected / 1000, rel=1e-9)
    assert twin.state.nodes.money[0] == pytest.approx(expected / 1000, rel=1e-9)


def busy_twin(price: Signal | None, carbon: Signal | None) -> Twin:
    """Return a twin of two nodes with sleep, preemption and a queue."""
    rng = np.random.default_rng(3)
    cluster = Cluster("case", (group(2, 4),), price=price, carbon=carbon)
    workload = Workload.of(
        "case", rng.uniform(0, 40_000, 60), rng.exponential(3000, 60), rng.integers(1, 5, 60)
    )
    return Twin(cluster, workload, Knobs(sleep_s=300.0, cap=0.9))


def test_a_flat_signal_is_energy_times_a_constant() -> None:
    plain = busy_twin(Signal.flat(0.25), Signal.flat(300.0)).replay()
    # The same constant as a profile of equal values goes through the integrals.
    daily = Signal.profile([0.25] * 24, DAY_US), Signal.profile([300.0] * 24, DAY_US)
    stepwise = busy_twin(*daily).replay()
    for results in (plain, stepwise):
        assert results.money == pytest.approx(results.energy_j / 3.6e6 * 0.25, rel=1e-12)
        assert results.carbon_g == pytest.approx(results.energy_j / 3.6e6 * 300, rel=1e-12)
        assert results.node_money == pytest.approx(results.node_energy_j / 3.6e6 * 0.25, rel=1e-12)
        for mark in results.window:
            assert mark.money == pytest.approx(mark.energy_j / 3.6e6 * 0.25, rel=1e-12)
            assert mark.carbon_g == pytest.approx(mark.energy_j / 3.6e6 * 300, rel=1e-12)


def test_signals_change_no_decision() -> None:
    price = Signal.profile(np.arange(24.0).tolist(), DAY_US)
    with_price, without = busy_twin(price, None).replay(), busy_twin(None, None).replay()
    assert np.array_equal(with_price.end_us, without.end_us)
    assert np.array_equal(with_price.node_energy_j, without.node_energy_j)
    assert without.money is None
    assert without.window[0].carbon_g is None


def test_policies_see_the_present_values_and_no_others() -> None:
    twin = twin_of(stepped((0, 0.1), (0.5, 0.3)), Signal.flat(250.0), (0.0, 0.75), (0.1, 0.1))
    twin.run(to_us(0.75 * HOUR_S))
    for state in (twin.visible(), twin.snapshot()):
        assert state.clock[0].price.value == 0.3
        assert state.clock[0].carbon.value == 250.0
        assert len(state.steps) == 0
    none = twin_of(None).snapshot()
    assert not none.clock[0].price.given


@dataclass
class Listener:
    """A policy that keeps the outlooks it was given."""

    policy: Preset
    outlooks: list[Outlook]

    def decide(self, state: State, outlook: Outlook) -> Records:
        self.outlooks.append(outlook)
        return self.policy.decide(state, outlook)


def test_policies_and_tuners_get_forecasts_of_the_signals() -> None:
    listener = Listener(Preset("p", "", Knobs()), [])
    tariff = Signal.profile(np.arange(24.0).tolist(), DAY_US)
    stepping = twin_of(tariff, submit_h=(10.5,))
    stepping.step(listener)
    tuned = twin_of(tariff, submit_h=(10.5,), tuning=Tuning((), listener, 1800.0))
    tuned.run()
    for outlook, hour in zip(listener.outlooks[:2], (11.0, 12.0), strict=True):
        assert outlook.price is not None
        assert outlook.price.mean[:3].tolist() == [hour, hour + 1, hour + 2]  # half past, o'clock
        assert outlook.carbon is None


def test_clones_and_dumps_keep_their_bills(tmp_path: Path) -> None:
    twin = twin_of(stepped((0, 0.1), (0.5, 0.3)), None, (0.0, 2.0), (1.0, 1.0))
    twin.run(to_us(2 * HOUR_S))
    copy = twin.clone()
    twin.dump(tmp_path / "twin.npz")
    loaded = Twin.load(tmp_path / "twin.npz")
    for other in (copy, loaded):
        other.run()
    twin.run()
    for other in (copy, loaded):
        assert other.state.runs.money.tolist() == twin.state.runs.money.tolist()
        assert other.state.nodes.money.tolist() == twin.state.nodes.money.tolist()


def test_a_dump_without_signals_and_in_another_order_still_loads(tmp_path: Path) -> None:
    twin = twin_of(None, None, (0.0, 2.0), (1.0, 1.0))
    twin.run(to_us(HOUR_S / 2))
    twin.dump(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:
        kept = {name: file[name] for name in file if name != "steps"}
    kept["jobs"] = repack_fields(kept["jobs"][list(reversed(kept["jobs"].dtype.names))])
    for name in ("nodes", "runs", "clock"):
        new = ("money", "carbon_g", "price", "carbon")
        kept[name] = kept[name][[field for field in kept[name].dtype.names if field not in new]]
    np.savez_compressed(tmp_path / "old.npz", **kept)
    loaded = Twin.load(tmp_path / "old.npz")
    loaded.run()
    twin.run()
    assert loaded.state.nodes.energy_j.tolist() == twin.state.nodes.energy_j.tolist()
    assert not loaded.state.clock[0].carbon.given


def test_a_dated_trace_uses_the_signal_by_calendar_time() -> None:
    price = replace(stepped((0, 0.1), (24, 0.3)), origin_us=0)
    undated = twin_of(price)
    dated = twin_of(price, origin_us=DAY_US)
    assert undated.state.clock[0].price.value == 0.1
    assert dated.state.clock[0].price.value == 0.3
