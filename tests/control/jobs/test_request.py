"""Requests translated into the devices of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import ONE_NODE, TWO_NODES, Rig, spec_of

from flyball.control.jobs.request import (
    LIMITS,
    Demand,
    DeviceRequest,
    cluster_of,
    cores_per_device,
    earlier_ids,
    filled,
    fingerprint,
    numbered,
)  # fmt: skip
from flyball.core.errors import BadInput, Conflict, UnknownName
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode

GPUS = (LiveNode("g", "V100", 8, 32, 65_536, tuple(f"GPU-{at}" for at in range(8))),)
MANY_CORES = (LiveNode("m", "CPU1", 48, 96, 65_536),)


def test_elastic_beyond_the_largest_node_is_refused() -> None:
    demand = Demand([LiveNode("vm", "CPU1", 2, 2, 4096)])
    demand.check_growth(spec_of(least=1, most=2))
    with pytest.raises(BadInput) as caught:
        demand.check_growth(spec_of(least=1, most=4))
    message = "elastic from 1 to 4 cores, and the largest node has 2; use --elastic 1-2"
    assert str(caught.value) == message
    pair = Demand([LiveNode(name, "V100", 4, 2, 4096) for name in "ab"])
    pair.check_growth(spec_of(gpus=1, least=1, most=8))
    with pytest.raises(BadInput, match="the largest node has 4, all together 8"):
        pair.check_growth(spec_of(gpus=1, least=1, most=9))


def test_elastic_beyond_the_node_is_refused_at_submit(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for ask in (rig.plane.dry_run, lambda spec: rig.plane.submit([spec])):
        with pytest.raises(BadInput, match="the largest node has 4; use --elastic 1-4"):
            ask(spec_of(cpus=2, least=1, most=6))
    assert rig.plane.ask.queue() == []


def test_cores_are_the_devices_where_there_is_nothing_else() -> None:
    demand = Demand(ONE_NODE)
    assert demand.of(spec_of(cpus=3, memory_mib=50)) == DeviceRequest(3, 1000, 0, 50)
    assert demand.device == "CPU1"


def test_several_cores_make_a_device_where_there_are_many() -> None:
    assert [cores_per_device(cores) for cores in (1, 64, 65, 96, 128, 129)] == [1, 1, 2, 2, 2, 3]
    demand = Demand(MANY_CORES)
    assert [demand.of(spec_of(cpus=cores)).devices for cores in (1, 2, 3)] == [1, 1, 2]


def test_with_accelerators_cores_are_a_demand_on_the_host() -> None:
    demand = Demand(GPUS)
    assert demand.of(spec_of(gpus=2, cpus=8, milli=500)) == DeviceRequest(2, 500, 8000, 0)
    assert demand.of(spec_of(cpus=4, milli=500, memory_mib=9)) == DeviceRequest(0, 1000, 4000, 9)
    demand.check(spec_of(gpus=1))


def test_jobs_for_devices_and_for_the_host_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, nodes=GPUS)
    gang, part, host = rig.submit(gpus=7), rig.submit(gpus=1, milli=400), rig.submit(cpus=30)
    rig.settle()
    assert rig.states(gang, part, host) == [JobState.RUNNING] * 3
    assert rig.job(host).rows[0].mask == 0
    full = rig.submit(cpus=1)
    rig.settle()
    assert rig.states(full) == [JobState.PENDING], "the 32 cores are taken"
    rig.finish()
    assert rig.states(full) == [JobState.COMPLETED]
    assert rig.job(part).service_us == 0.4 * 10e6
    assert rig.verdict().differing == []


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_have_limits(name: str) -> None:
    low, high = LIMITS[name]
    demand = Demand(GPUS)
    for value in (low, high):
        demand.check(spec_of(**{name: value}))
    for value in (low - 1, high * 2 + 1, float("nan")):
        with pytest.raises(BadInput, match=name):
            demand.check(spec_of(**{name: value}))


def test_classes_have_names() -> None:
    with pytest.raises(UnknownName, match="did you mean 'mixed'"):
        Demand(GPUS).check(spec_of(kind="mixt"))


def test_only_models_with_known_speeds_count() -> None:
    demand = Demand(ONE_NODE)
    assert demand.known_model("ResNet-50") == "ResNet-50"
    assert demand.known_model("mine") == demand.known_model("") == ""


def test_runs_of_like_nodes_are_groups() -> None:
    groups = cluster_of((*TWO_NODES, *GPUS, *ONE_NODE), "x", 500.0).groups
    assert [(group.name, group.count, group.device) for group in groups] == [
        ("a", 2, "CPU1"), ("g", 1, "V100"), ("a", 1, "CPU1"),
    ]  # fmt: skip
    assert groups[0].memory_gib == 8.0
    with pytest.raises(BadInput, match="Z9000"):
        cluster_of((LiveNode("x", "Z9000", 1, 1, 1),), "x")


def test_fingerprints_and_numbers() -> None:
    texts: tuple[dict[str, str], ...] = ({"A": "1", "B": "2"}, {"B": "2", "A": "1"}, {})
    one, other, none = ([spec_of(env=value).as_dict()] for value in texts)
    assert fingerprint(one) == fingerprint(other) != fingerprint(none)
    assert [value.name for value in numbered([spec_of(argv=("/bin/ls",))], 5)] == ["ls"]
    answer = {"first": 3, "count": 2, "print": "p"}
    assert earlier_ids(answer, "k", "p") == [3, 4]
    with pytest.raises(Conflict, match="'k'"):
        earlier_ids(answer, "k", "q")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/l/%x-%j.out", "/l/a_b-12.out"),
        ("/l/%A_%a.out", "/l/11_7.out"),
        ("/l/%u/%4a-%2j-%0a.txt", "/l/ada/0007-12-7.txt"),
        ("/l/100%%-%%4a", "/l/100%-%4a"),
        ("/l/%q", "/l/%q"),
    ],
)
def test_slurm_patterns_in_the_path_of_the_output(pattern: str, path: str) -> None:
    spec = spec_of(name="a/b", user="ada", array_index=7, stdout=pattern)
    assert filled(spec, spec.stdout, 12, 11) == path
