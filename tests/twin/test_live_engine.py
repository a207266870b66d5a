"""The virtual engine: attempts on its clock, and the same starts as the twin."""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from tests.control.live_cases import START_US, TWO_NODES, Rig, env

from flyball.control.jobs.request import cluster_of
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.jobs import JobSpec
from flyball.core.live import Launch, LiveNode, Report, Stop
from flyball.core.units import FOREVER_US
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.engine import VirtualEngine, estimated, nodes_of
from flyball.twin.twin import Twin

S = 1_000_000


class World:
    """An engine and its clock."""

    def __init__(self) -> None:
        self.now = 100 * S
        self.engine = VirtualEngine([LiveNode("a", "CPU1", 4, 4, 100)], lambda: self.now, course)

    def launch(self, job: int = 1, attempt: int = 1, **asked: object) -> None:
        self.engine.apply(Launch(job, attempt, JobSpec(("x",), **asked), ()))  # type: ignore[arg-type]

    def seen(self) -> list[tuple[str, int]]:
        return [(report.what, report.time_us // S) for report in self.engine.observe()]


def course(spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
    return spec.estimate_s, job - 1


@pytest.fixture
def world() -> World:
    return World()


def test_an_attempt_from_start_to_end(world: World) -> None:
    world.launch(job=4, estimate_s=10.0)
    assert world.engine.alive == [(4, 1)]
    assert world.engine.next_us == 110 * S
    assert world.seen() == [("started", 100)]
    assert world.seen() == [], "a start is reported once"
    world.now = 110 * S
    (report,) = world.engine.observe()
    assert report == Report(4, 1, "ended", 110 * S, {"exit_code": 3, "signal": 0, "why": "exit"})
    assert world.engine.alive == []
    world.engine.acknowledge([report])
    assert (world.seen(), world.engine.next_us) == ([], FOREVER_US)


def test_a_limit_ends_it(world: World) -> None:
    world.launch(estimate_s=10.0, limit_s=4.0)
    world.now = 200 * S
    report = world.engine.observe()[1]
    assert (report.time_us, report.values["why"]) == (104 * S, "limit")


def test_stopping(world: World) -> None:
    world.launch(estimate_s=10.0)
    world.now += S
    world.engine.apply(Stop(1, 1, "preempt"))
    world.now += S
    world.engine.apply(Stop(1, 1, "cancel"))  # too late: it is gone
    report = world.engine.observe()[1]
    assert (report.time_us, report.values["why"]) == (101 * S, "stopped")


def test_a_late_launch(world: World) -> None:
    world.engine.launch_delay_us = 5 * S
    world.launch(estimate_s=10.0)
    assert (world.engine.alive, world.seen()) == ([], [])
    assert world.engine.next_us == 105 * S
    assert world.engine.reconcile([(1, 1)]) == [], "it is on its way"
    world.now = 105 * S
    assert (world.engine.alive, world.seen()) == ([(1, 1)], [("started", 105)])


def test_a_lost_supervisor(world: World) -> None:
    world.launch(estimate_s=10.0)
    world.now += S
    world.engine.lose((1, 1))
    world.engine.lose((9, 9))
    world.engine.apply(Stop(1, 1, "cancel"))
    assert world.seen() == [("started", 100), ("lost", 101)]


def test_waiting_ends_when_a_descriptor_is_readable(world: World) -> None:
    assert world.engine.wait(0.0) is False
    descriptor = os.eventfd(1)
    world.engine.listen_to(descriptor)
    assert world.engine.wait(60.0) is True
    os.close(descriptor)
    world.engine.close()


def test_nodes_of_a_cluster() -> None:
    cluster = Cluster("c", (NodeGroup("v", 2, "V100", 4, 16, 64.0), NodeGroup("k", 1, "K80", 8)))
    nodes = nodes_of(cluster)
    assert [(node.name, node.device, node.devices) for node in nodes] == [
        ("v0", "V100", 4), ("v1", "V100", 4), ("k0", "K80", 8),
    ]  # fmt: skip
    assert (nodes[0].cpus, nodes[0].memory_mib) == (16, 65_536)


def test_jobs_take_about_what_is_expected() -> None:
    spec = JobSpec(("x",), estimate_s=100.0)
    run_s, code = estimated(spec, 1, 1)
    assert estimated(spec, 1, 1) == (run_s, code) != estimated(spec, 1, 2)
    assert code == 0
    assert all(20 < estimated(spec, job, 1)[0] < 500 for job in range(50))
    assert estimated(JobSpec(("x",)), 1, 1)[0] == pytest.approx(36 * run_s)


# The same decisions as the twin -------------------------------------------------------------


def small_workload(seed: int, jobs: int = 30) -> Workload:
    """Jobs for two nodes of four cores; no two events are at the same instant."""
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.choice(4000, jobs, replace=False)) / 10 + 0.0001
    run_s = rng.choice(2000, jobs, replace=False) / 10 + rng.permutation(jobs) * 0.00013 + 1.00003
    return Workload.of(
        "small", submit_s, run_s, rng.choice((1, 1, 2, 3, 4), jobs),
        estimate_us=run_s * 1e6, kind=0, device=0, device_names=("CPU1",),
        priority=rng.choice((0.0, 0.0, 1.0), jobs),
        host_mib=rng.choice((0, 0, 3000, 6000), jobs),
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "easy", "sjf", "saf"])
def test_live_jobs_start_when_the_twin_says(tmp_path: Path, policy: str) -> None:
    work = small_workload(7)
    twin = Twin(cluster_of(TWO_NODES, "live"), work, get_policy(policy).knobs)
    expected = twin.replay().first_start_us / 1e6
    rig = Rig(tmp_path, policy, nodes=TWO_NODES)
    for at in range(len(work)):
        due = START_US + int(work.submit_us[at])
        while (following := rig.engine.next_us) < due:
            rig.now = following
            rig.settle()
        rig.now = due
        rig.submit(
            cpus=int(work.devices[at]), memory_mib=int(work.host_mib[at]),
            estimate_s=float(work.estimate_us[at]) / 1e6, priority=float(work.priority[at]),
            kind="compute-intensive", env=env(float(work.duration_us[at]) / 1e6),
        )  # fmt: skip
        rig.settle()
    rig.finish()
    assert rig.engine.next_us == FOREVER_US
    starts = np.array([rig.start_s(job) for job in range(1, len(work) + 1)])
    assert np.abs(starts - expected).max() < 1e-5
    assert (expected - work.submit_us / 1e6).max() > 10, "some job had to wait"
    assert rig.verdict().differing == []


def test_high_descriptors_can_be_listened_to(world: World) -> None:
    """A process with many connections has descriptors beyond what select() takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip(f"at most {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    event = os.eventfd(1)
    high = fcntl.fcntl(event, fcntl.F_DUPFD, 1500)
    try:
        world.engine.listen_to(high)
        assert world.engine.wait(60.0) is True
    finally:
        os.close(high)
        os.close(event)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
