"""The bench of the optimiser: what is wrong is wrong for the tuners alone, and rows are paired."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.forecast import NO_OUTLOOK, Outlook
from flyball.core.knobs import Knobs
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.experiments.held_out import held_out
from flyball.experiments.tuning.families import FAMILIES
from flyball.experiments.tuning.optimiser import CASES, WORKLOADS, Misled, WrongCaps, case_rows
from flyball.twin.twin import Twin


class Witness:
    """Records the caps that it is shown."""

    def __init__(self) -> None:
        self.slowdowns: list[float] = []

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        self.slowdowns = state.caps["slowdown"].tolist()
        return plan


def test_tuners_believe_in_caps_that_slow_less() -> None:
    cluster = Cluster("v", (NodeGroup("n", 1, "V100", 4),))
    state = Twin(cluster, Workload.of("w", np.zeros(2), 100.0, 1), Knobs()).snapshot()
    true = state.caps["slowdown"].copy()
    seen = Witness()
    Misled(seen, 3.0).adjust(state, NO_OUTLOOK, records(0, ACTION))
    assert true.max() > 1.0
    assert seen.slowdowns == pytest.approx((1.0 + (true - 1.0) / 3.0).tolist())
    assert (state.caps["slowdown"] == true).all(), "plans are carried out with the true curve"


def test_it_is_judged_on_what_no_setting_was_chosen_on() -> None:
    assert {number for _, number in WORKLOADS} == {1, 2, 3, 4}
    for family, number in WORKLOADS:
        assert number in held_out().workloads[family]
        assert not FAMILIES[family].set_with
    assert min(case.times for case in CASES) == 1.0, "where nothing is wrong it is judged too"


def test_rows_are_changes_paired_by_workload() -> None:
    ours = {"work": 110.0, "energy_per_work": 0.9, "completion": 95.0}
    theirs = {"work": 100.0, "energy_per_work": 1.0, "completion": 100.0}
    table = case_rows(WrongCaps(3.0, 1.3, 0.0), [(ours, theirs)] * 3)
    assert [(row["metric"], row["value"], row["bar"]) for row in table] == [
        ("work_pct", 10.0, None),
        ("energy_per_work_pct", -10.0, None),
        ("completion_pct", -5.0, 0.0),
    ]
    assert {row["case"] for row in table} == {"caps slow 3 x as much"}
