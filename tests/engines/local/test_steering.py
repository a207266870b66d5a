"""Orders to running jobs: other cores, caps, checkpoints; with real processes."""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.rig import SLEEP, Rig
from tests.monitor.fake_nvml import FakeNvml
from tests.until import until

from flyball.core.jobs import Row
from flyball.core.live import Cap, Checkpoint, LiveNode, Resize
from flyball.engines.local import cgroup, proc, steer_file
from flyball.engines.local.governor import KEPT_S, NEVER, PERIOD_S, Governor
from flyball.engines.local.machine import usable_cores
from flyball.engines.local.power import NoPower

TWO = len(usable_cores()) > 1
BUSY = "print('go', flush=True)\nwhile True: pass"
TWO_BUSY = "import os, sys\nos.fork()\nprint('go', flush=True)\nwhile True: pass"
ONE, BOTH = (Row(0, 1),), (Row(0, 3),)
LOW = 0.1
"""A cap below what even a busy machine leaves a job; `flyball bench tune` measures higher ones."""
WAYS = pytest.mark.parametrize("quota", [True, False], ids=["quota", "pauses"])


Make = Callable[..., Rig]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Build engines on one folder, one after the other; jobs that still run are ended."""
    rigs: list[Rig] = []

    def rig_of(**options: Any) -> Rig:
        if rigs:
            rigs[-1].engine.close()
        rigs.append(Rig(tmp_path / "state", **options))
        return rigs[-1]

    yield rig_of
    rigs[-1].close()


def used_s(rig: Rig, job: int = 1) -> float:
    """Return the processor time of all processes of a job."""
    pids = proc.descendants(rig.claim(job).pid)
    return sum(map(proc.cpu_s, pids))


def measured_share(rig: Rig, window_s: float) -> float:
    """Return the processor time over the elapsed time, for this long."""
    began_s, before_s = time.monotonic(), used_s(rig)
    time.sleep(window_s)
    return (used_s(rig) - before_s) / (time.monotonic() - began_s)


def affinities(rig: Rig, job: int = 1) -> set[frozenset[int]]:
    pids = proc.descendants(rig.claim(job).pid)
    return {frozenset(os.sched_getaffinity(t)) for pid in pids for t in proc.threads(pid)}


# Caps -----------------------------------------------------------------------------------


@WAYS
def test_a_cap_is_obeyed(make: Make, quota: bool) -> None:
    if quota and cgroup.find_place(controller="cpu") is None:
        pytest.skip("no control groups for processor time here")
    rig = make(quota=quota)
    rig.python(BUSY, mask=1)
    rig.until_prints("go")
    rig.order(Cap(1, 1, 1, LOW, ONE))
    until(lambda: measured_share(rig, 0.5) <= LOW + 0.05)
    shares = [measured_share(rig, 1.5) for _ in range(3)]
    assert max(shares) <= LOW + 0.05, shares
    assert statistics.median(shares) >= LOW - 0.05, shares
    rig.order(Cap(1, 1, 2, 1.0, ONE))
    until(lambda: measured_share(rig, 0.5) > LOW + 0.05)
    rig.stop()
    end = rig.ended()
    assert end["cap_by"] == ("quota" if quota else "pauses")
    assert end["capped_core_s"] == end["capped_s"]
    assert end["capped_cpu_s"] / end["capped_s"] == pytest.approx(LOW, abs=0.05)


@pytest.mark.skipif(not TWO, reason="one core only")
def test_a_cap_is_of_all_cores_and_all_processes(make: Make) -> None:
    rig = make(quota=False)
    rig.python(TWO_BUSY, mask=3)
    rig.until_prints("go\ngo")
    rig.order(Cap(1, 1, 1, 0.25, BOTH))
    until(lambda: measured_share(rig, 0.5) <= 2 * 0.30)
    assert measured_share(rig, 3.0) <= 2 * 0.30
    rig.stop()
    rig.ended()


@WAYS
def test_a_capped_job_can_end(make: Make, quota: bool) -> None:
    """A paused job must still get SIGTERM, and not be killed because it cannot react."""
    rig = make(quota=quota)
    rig.python(BUSY, mask=1, grace_s=10.0)
    rig.until_prints("go")
    rig.order(Cap(1, 1, 1, 0.05, ONE))
    until(lambda: measured_share(rig, 0.3) <= 0.2)
    rig.stop()
    assert rig.ended()["signal"] == signal.SIGTERM


def test_a_cap_is_there_from_the_start(make: Make) -> None:
    """It may be ordered before the supervisor has begun."""
    rig = make(quota=False)
    rig.python(BUSY, mask=1)
    assert rig.order(Cap(1, 1, 1, 0.2, ONE)).accepted
    rig.until_prints("go")
    until(lambda: measured_share(rig, 0.5) <= 0.25)
    assert measured_share(rig, 1.5) <= 0.25
    rig.stop()
    rig.ended()


def test_a_cap_outlives_the_control_plane(make: Make) -> None:
    rig = make(quota=False)
    rig.python(BUSY, mask=1)
    rig.until_prints("go")
    rig.order(Cap(1, 1, 1, 0.2, ONE))
    until(lambda: measured_share(rig, 0.5) <= 0.25)
    assert measured_share(rig, 1.5) <= 0.25
    again = make(quota=False)
    again.engine.reconcile([(1, 1)])
    assert again.order(Cap(1, 1, 1, 0.2, ONE)).accepted, "said before: nothing changes"
    assert measured_share(again, 1.5) <= 0.25
    again.stop()
    again.ended()


def test_what_is_paused_is_killed_with_its_supervisor(make: Make) -> None:
    rig = make(quota=False)
    rig.python(BUSY, mask=1)
    rig.until_prints("go")
    rig.order(Cap(1, 1, 1, 0.05, ONE))
    until(lambda: measured_share(rig, 0.3) <= 0.2)
    os.kill(rig.claim().pid, signal.SIGKILL)
    rig.report("lost")


def test_nothing_is_left_of_a_quota(make: Make) -> None:
    place = cgroup.find_place(controller="cpu")
    if place is None:
        pytest.skip("no control groups for processor time here")
    rig = make()
    before = set(os.listdir(place.folder))
    for job in (1, 2):
        rig.python(BUSY, mask=1, job=job)
        rig.until_prints("go", job)
        rig.order(Cap(job, 1, 1, 0.1, ONE))
    until(lambda: len(set(os.listdir(place.folder)) - before) == 2)
    rig.stop()
    rig.ended()
    os.kill(rig.claim(2).pid, signal.SIGKILL)
    rig.report("lost", 2)
    assert set(os.listdir(place.folder)) <= before


# Sizes ----------------------------------------------------------------------------------


@pytest.mark.skipif(not TWO, reason="one core only")
def test_a_resize_moves_every_thread(rig: Rig) -> None:
    cores = usable_cores()
    text = (
        "import threading, time, os\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "os.fork()\nprint('go', flush=True)\ntime.sleep(3600)"
    )
    rig.python(text, mask=3)
    rig.until_prints("go\ngo")
    assert affinities(rig) == {frozenset(cores[:2])}
    rig.order(Resize(1, 1, 1, ONE))
    until(lambda: affinities(rig) == {frozenset(cores[:1])})
    rig.order(Resize(1, 1, 2, BOTH))
    until(lambda: affinities(rig) == {frozenset(cores[:2])})
    orders = steer_file.read(steer_file.path_of(str(rig.state.resolve()), 1, 1))
    assert orders["resize"] == {"sequence": 2, "devices": 2, "cores": cores[:2]}


@pytest.mark.skipif(not TWO, reason="one core only")
def test_what_comes_late_changes_nothing(rig: Rig) -> None:
    rig.launch(*SLEEP, mask=3)
    rig.claim()
    assert rig.order(Resize(1, 1, 5, ONE)).accepted
    assert rig.order(Resize(1, 1, 4, BOTH)).accepted
    assert rig.order(Resize(1, 1, 5, BOTH)).accepted
    until(lambda: affinities(rig) == {frozenset(usable_cores()[:1])})
    time.sleep(0.1)
    assert affinities(rig) == {frozenset(usable_cores()[:1])}


def test_an_order_to_nobody_is_not_accepted(rig: Rig) -> None:
    assert not rig.order(Checkpoint(7, 1, 1)).accepted


def test_a_job_finds_its_orders_and_they_go_with_it(rig: Rig) -> None:
    text = (
        "import json, os, time\n"
        "path = os.environ['FLYBALL_ORDERS']\n"
        "while not os.path.exists(path): time.sleep(0.01)\n"
        "print(open(path).read(), os.environ['FLYBALL_DEVICES'])"
    )
    rig.python(text, mask=1)
    assert rig.order(Checkpoint(1, 1, 3)).accepted
    end = rig.report("ended")
    assert json.loads(rig.output().rsplit(" ", 1)[0]) == {"checkpoint": {"sequence": 3}}
    assert rig.output().split()[-1] == "1"
    rig.engine.acknowledge([end])
    assert os.listdir(rig.state / steer_file.FOLDER) == []


# The governor's account -----------------------------------------------------------------


class Machine:
    """A simulated job that uses all it gets, on a virtual clock."""

    def __init__(self, cores: int, speed: float = 1.0, late_s: float = 0.0) -> None:
        self.now_s = self.used_s = 0.0
        self.runs, self.cores, self.speed, self.late_s = True, cores, speed, late_s
        self.governor = Governor(lambda: self.used_s, self.set)

    def set(self, paused: bool) -> None:
        self.runs = not paused

    def go(self, seconds: float) -> float:
        """Run for this long; return the share of its cores that it used."""
        end_s, before_s = self.now_s + seconds, self.used_s
        while self.now_s < end_s:
            step_s = max(self.governor.due_s + self.late_s - self.now_s, 1e-4)
            step_s = min(step_s, end_s - self.now_s + 1e-9)
            self.used_s += step_s * self.cores * self.speed * self.runs
            self.now_s += step_s
            self.governor.turn(self.now_s)
        return (self.used_s - before_s) / seconds / self.cores


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.95])
@pytest.mark.parametrize("late_s", [0.0, 0.03])
def test_the_account_is_exact(share: float, late_s: float) -> None:
    machine = Machine(2, late_s=late_s)
    machine.governor.keep_to(share, 2, 0.0)
    assert machine.go(20.0) == pytest.approx(share, abs=0.01)


def test_credit_that_is_not_wanted_is_lost() -> None:
    machine = Machine(1, speed=0.0)
    machine.governor.keep_to(0.5, 1, 0.0)
    machine.go(60.0)
    machine.speed = 1.0
    before_s = machine.used_s
    machine.go(2.0)
    assert machine.used_s - before_s <= 0.5 * (2.0 + KEPT_S) + PERIOD_S


def test_no_cap_costs_nothing() -> None:
    machine = Machine(1)
    machine.governor.keep_to(0.5, 1, 0.0)
    machine.go(1.0)
    machine.governor.keep_to(1.0, 1, machine.now_s)
    assert machine.governor.due_s == NEVER
    assert machine.runs


def test_another_cap_takes_over_the_account() -> None:
    machine = Machine(1)
    machine.governor.keep_to(0.8, 1, 0.0)
    machine.go(5.0)
    machine.governor.keep_to(0.2, 1, machine.now_s)
    assert machine.go(10.0) == pytest.approx(0.2, abs=0.02)


# Quotas in version 2 --------------------------------------------------------------------


def test_a_quota_of_version_two(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "cgroup.procs").touch()
    group = cgroup.Quota(cgroup.Place(str(tmp_path), 2), "job")

    def joined() -> list[int]:
        written = (tmp_path / "job" / "cgroup.procs").read_text().split()
        return [int(pid) for pid in written] or [17]

    assert group.keep_to(0.5, joined)
    assert (tmp_path / "job" / "cpu.max").read_text() == "50000 100000"
    assert (tmp_path / "job" / "cgroup.procs").read_text() == "17"
    assert group.keep_to(0.0, joined)
    assert (tmp_path / "job" / "cpu.max").read_text() == "max 100000"


def test_no_quota_where_none_is_permitted() -> None:
    group = cgroup.Quota(cgroup.Place("/proc/self", 2), "job")
    assert not group.keep_to(0.5, list)


# Power limits ---------------------------------------------------------------------------


def gpu_rig(make: Make, nvml: FakeNvml) -> Rig:
    uuids = tuple(f"GPU-0000000{i}-aaaa-bbbb-cccc-dddddddddddd" for i in range(2))
    node = LiveNode("here", "H100-SXM", 2, 2, 4096, uuids)
    return make(node=node, nvml=nvml)


def test_a_cap_of_accelerators_is_a_power_limit(make: Make) -> None:
    nvml = FakeNvml()
    rig = gpu_rig(make, nvml)
    rig.launch(*SLEEP, mask=2)
    rig.claim()
    assert rig.order(Cap(1, 1, 1, 0.6, (Row(0, 2),))).how == "power limit 420 W on 1 devices"
    assert nvml.limits_mw == {1: 420_000}
    rig.order(Cap(1, 1, 2, 0.1, (Row(0, 2),)))
    assert nvml.limits_mw == {1: 200_000}, "no lower than the driver takes"
    rig.stop()
    rig.engine.acknowledge([rig.report("ended")])
    assert nvml.limits_mw == {1: 700_000}, "the next job has all of it"


def test_a_limit_is_lifted_by_whoever_comes_after(make: Make) -> None:
    nvml = FakeNvml()
    rig = gpu_rig(make, nvml)
    rig.launch(*SLEEP, mask=1)
    rig.claim()
    rig.order(Cap(1, 1, 1, 0.5, ONE))
    again = gpu_rig(make, nvml)
    again.engine.reconcile([(1, 1)])
    assert nvml.limits_mw == {0: 350_000}
    again.engine.reconcile([])
    assert nvml.limits_mw == {0: 700_000}


def test_a_driver_that_refuses_is_reported(make: Make) -> None:
    nvml = FakeNvml()
    nvml.permits = False
    rig = gpu_rig(make, nvml)
    rig.launch(*SLEEP, mask=1)
    rig.claim()
    receipt = rig.order(Cap(1, 1, 1, 0.5, ONE))
    assert (receipt.accepted, receipt.how) == (True, "no power limit: Insufficient Permissions")


@pytest.mark.parametrize("ask", [lambda p: p.cap((1, 1), ["GPU-1"], 0.5)])
def test_no_accelerator_is_no_error(ask: Callable[[NoPower], str]) -> None:
    assert ask(NoPower("no driver")) == "no power limit: no driver"
