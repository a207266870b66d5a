"""What is held out: listed once, refused by whatever tunes, and used by comparisons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flyball.cli.main import run
from flyball.core.errors import BadInput
from flyball.experiments.forecasts import run_times
from flyball.experiments.held_out import (
    held_out,
    named_scenarios,
    refuse,
    training_scenarios,
)
from flyball.experiments.knob_search.search import tune
from flyball.experiments.scenarios import TraceSlice, find_scenarios, scenario_names
from flyball.experiments.tuning.families import FAMILIES
from flyball.twin.inputs.cluster_file import load_cluster, parse_cluster

FIRST = held_out().first_training_seed


def test_the_list_names_what_exists() -> None:
    kept = held_out()
    assert kept.seeds == (0, 999)
    assert set(kept.scenarios) < set(scenario_names())
    assert len([name for name in kept.scenarios if name in find_names("all")]) == 2
    for name in kept.clusters:
        assert load_cluster(name).device_count > 0
    for family, numbers in kept.workloads.items():
        assert set(numbers) <= set(range(1, FAMILIES[family].count + 1))


def find_names(text: str) -> list[str]:
    return [scenario.name for scenario in find_scenarios(text)]


def test_settings_of_tuners_were_not_chosen_on_it() -> None:
    for name, family in FAMILIES.items():
        refuse(workloads=[(name, number) for number in family.set_with])


def test_scenarios_by_group() -> None:
    assert [s.name for s in named_scenarios("held-out")] == list(held_out().scenarios)
    names = [s.name for s in named_scenarios("uniform, held-out,tenants")]
    assert names == ["uniform", *held_out().scenarios]
    training = [s.name for s in training_scenarios("all")]
    assert set(training) == set(find_names("all")) - set(held_out().scenarios)
    assert len(training) >= 10


def test_refused_whatever_the_reason() -> None:
    [uniform] = find_scenarios("uniform")
    refuse([uniform], [FIRST], [uniform.make_cluster()], [("newtrace", 1)])
    with pytest.raises(BadInput, match=r"seed 999 is held out .*held_out.yaml"):
        refuse(seeds=[FIRST, 999])
    with pytest.raises(BadInput, match="scenario tenants is held out"):
        refuse(find_scenarios("uniform,tenants"))
    with pytest.raises(BadInput, match="workload 8 of philly is held out"):
        refuse(workloads=[("newtrace", 1), ("philly", 8)])


def test_a_shape_is_known_under_another_name() -> None:
    [uniform] = find_scenarios("uniform")
    groups = [
        {"name": f"x{at}", "count": group.count, "device": group.device, "devices": group.devices}
        for at, group in enumerate(load_cluster("department").groups)
    ]
    split = [{**groups[0]}, *groups[1:-1], *([{**groups[-1], "count": 2}] * 2)]
    split[-1] = {**split[-1], "name": "y"}
    renamed = {"nodes": split}
    with pytest.raises(BadInput, match="the cluster of uniform, which has the shape of department"):
        refuse([replace(uniform, cluster=renamed)])
    with pytest.raises(BadInput, match="cluster mine, which has the shape"):
        refuse(clusters=[parse_cluster(renamed, "a test", "mine")])
    smaller = {"nodes": split[:-1]}
    refuse([replace(uniform, cluster=smaller)])


def test_days_of_a_trace_are_known_in_another_scenario() -> None:
    [november] = find_scenarios("philly-november")
    own = replace(november, name="own", cluster="philly-8x8")
    for days in ((68, 88), (0, 69), (87, 90), (70, 71)):
        with pytest.raises(BadInput, match=r"day \d+ of philly/jobs.csv.gz is held out"):
            refuse([replace(own, trace=TraceSlice("philly/jobs.csv.gz", "philly", days))])
    refuse([replace(own, trace=TraceSlice("philly/jobs.csv.gz", "philly", (27, 68)))])


# Every command that tunes or trains ----------------------------------------------------


@pytest.mark.parametrize("scenario", [*held_out().scenarios, "held-out"])
def test_tune_heuristics_refuses(capsys: pytest.CaptureFixture[str], scenario: str) -> None:
    assert run(["bench", "tune-heuristics", "--scenarios", scenario, "--budget", "1"]) == 2
    shown = capsys.readouterr().err
    assert "held out" in shown or "held-out" in shown
    assert shown.count("\n") == 1


def test_the_search_itself_refuses() -> None:
    with pytest.raises(BadInput, match="seed 0 is held out"):
        tune(find_scenarios("uniform"), [], [0], 1)
    with pytest.raises(BadInput, match="scenario heavy-restarts is held out"):
        tune(find_scenarios("heavy-restarts"), [], [FIRST], 1)


def test_choosing_quantiles_refuses() -> None:
    with pytest.raises(BadInput, match="scenario tenants is held out"):
        run_times.run(seeds=1, scenarios=("tenants",))
