"""Scenarios: the same from the same seed, small, and as they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flyball.app import policy_settings
from flyball.core.errors import BadInput, DataAbsent, UnknownName
from flyball.core.workload import COLUMNS, Workload
from flyball.experiments.held_out import held_out
from flyball.experiments.scenarios import Scenario, find_scenarios, scenario_names
from flyball.twin.inputs.traces.describe import device_seconds

EVERY = pytest.mark.parametrize(
    "scenario", find_scenarios("all"), ids=lambda scenario: scenario.name
)


def same(a: Workload, b: Workload) -> bool:
    def equal(name: str) -> bool:
        left, right = getattr(a, name), getattr(b, name)
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")

    return all(equal(name) for name in COLUMNS)


def test_by_name() -> None:
    assert len(scenario_names()) >= 8
    assert [scenario.name for scenario in find_scenarios(" batch, uniform,batch")] == [
        "batch",
        "uniform",
    ]
    with pytest.raises(UnknownName, match="did you mean 'saturated'"):
        find_scenarios("saturatd")
    with pytest.raises(BadInput, match="no scenario is named"):
        find_scenarios(" , ")


@EVERY
def test_made_again_from_the_seed(scenario: Scenario) -> None:
    first = scenario.make_workload(3)
    assert same(first, scenario.make_workload(3))
    assert not same(first, scenario.make_workload(4))
    assert scenario.make_effects(3) == replace(scenario.make_effects(4), seed=3)


@EVERY
def test_small_and_loaded_as_stated(scenario: Scenario) -> None:
    workload = scenario.make_workload(held_out().first_training_seed)
    assert len(workload) == scenario.jobs
    assert 300 <= scenario.jobs <= 800
    asked_s = float(device_seconds(workload).sum())
    if scenario.load is None:
        assert workload.span_us == 0
    else:
        offered_s = scenario.make_cluster().device_count * workload.span_us / 1e6
        assert asked_s / offered_s == pytest.approx(scenario.load, rel=1e-3)


@EVERY
def test_every_job_runs_to_its_end(scenario: Scenario) -> None:
    run = scenario.case(policy_settings("fifo-skip", [])[0], 1).run(0, 0)
    assert run.summary.jobs == scenario.jobs
    assert run.summary.completion_s.mean > 0


def test_the_text_tells_scenarios_apart() -> None:
    scenario = find_scenarios("uniform")[0]
    assert replace(scenario, about="other words").text() == scenario.text()
    changes: list[dict[str, Any]] = [{"load": 0.81}, {"jobs": 501}, {"effects": {}}]
    for change in [*changes, {"change": {"tenants": 2}}, {"preset": "helios-like"}]:
        assert replace(scenario, **change).text() != scenario.text()


def test_recorded_days() -> None:
    scenario = find_scenarios("philly-november")[0]
    assert "philly-november" not in [each.name for each in find_scenarios("all")]
    try:
        workload = scenario.make_workload(0)
    except DataAbsent as error:
        pytest.skip(str(error))
    assert len(workload) == scenario.jobs
    assert workload.submit_us[0] == 0
    assert 19 < workload.span_us / 1e6 / 86_400 < 20
    asked_s = float(device_seconds(workload).sum())
    offered_s = scenario.make_cluster().device_count * 20 * 86_400
    assert asked_s / offered_s == pytest.approx(scenario.load, abs=0.01)
    assert same(workload, scenario.make_workload(1))
    assert scenario.text() != replace(scenario, trace=None).text()


def test_what_makes_them_differ() -> None:
    """The variety that was chosen on purpose is there."""
    by_name = {scenario.name: scenario for scenario in find_scenarios("all")}
    assert by_name["failures"].make_effects(0).mtbf_h > 0
    assert by_name["short-noisy"].make_effects(0).estimate_sigma > 1
    assert (by_name["fractions"].make_workload(0).milli < 1000).mean() > 0.5
    assert by_name["wide-gangs"].make_workload(0).devices.max() == 32
    assert (by_name["unequal-speeds"].make_workload(0).model >= 0).all()
    assert by_name["poor-estimates"].make_effects(0).estimate_sigma >= 1
    assert min(by_name["heavy-restarts"].make_effects(0).restart_s) >= 300
    assert len(set(by_name["tenants"].make_workload(0).tenant.tolist())) == 6
    assert len(set(by_name["bursts"].make_workload(0).tenant.tolist())) >= 8
