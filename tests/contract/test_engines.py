"""What every engine owes: idempotent actions, ends told until acknowledged, honest recovery.

The same tests on virtual nodes, on this machine with real processes, and on real Slurm daemons.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.until import WAIT_S

from flyball.bench.engines.slurm_cluster import HOW_TO_GET, SlurmCluster, missing
from flyball.core.clock import LiveClock
from flyball.core.job_fields import FIELDS
from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Cap, Checkpoint, Launch, LiveNode, Report, Resize, Stop
from flyball.core.protocols import Engine, Receipt
from flyball.engines.local.engine import LocalEngine
from flyball.engines.slurm.engine import SlurmEngine
from flyball.engines.slurm.own_request import SlurmSettings
from flyball.twin.engine import VirtualEngine

NODE = LiveNode("here", "CPU1", 2, 2, 4096)
SHORT, LONG = 0.01, 60.0
WAITS = ("accepted", "queued", "unknown")


class Bench:
    """An engine, and the ways to do to it what happens in the world."""

    engine: Engine
    nodes: tuple[LiveNode, ...] = (NODE,)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.open()

    def open(self) -> None:
        """The engine, or after a restart of the control plane another one."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it; what runs runs on."""

    def lose(self, job: int, attempt: int = 1) -> None:
        """Kill the supervisor of an attempt."""
        raise NotImplementedError

    def began(self, job: int, attempt: int = 1) -> int:
        """How often a token really began."""
        raise NotImplementedError

    def launch(
        self, job: int = 1, attempt: int = 1, run_s: float = SHORT, code: int = 0
    ) -> Receipt:
        script = f'echo "$0" >> "$1"; sleep {run_s}; exit {code}'
        argv = ("/bin/sh", "-c", script, f"{job}.{attempt}", str(self.runs))
        spec = JobSpec(argv, estimate_s=run_s, env={"CODE": str(code)}, grace_s=1.0)
        names = (self.nodes[0].name,)
        return self.engine.apply(Launch(job, attempt, spec, (Row(0, 1),), names))

    def stop(self, job: int = 1, attempt: int = 1, why: str = "cancel") -> Receipt:
        return self.engine.apply(Stop(job, attempt, why))

    def seen(self) -> list[tuple[int, int, str]]:
        return [(report.job, report.attempt, report.what) for report in self.observe()]

    def observe(self) -> list[Report]:
        """What is reported, but for how an attempt waits; its acceptance is put on record."""
        reports = self.engine.observe()
        self.engine.acknowledge([report for report in reports if report.what == "accepted"])
        return [report for report in reports if report.what not in WAITS]

    def report(self, what: str, job: int = 1, attempt: int = 1) -> Report:
        """Wait for a report."""
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            for report in self.observe():
                if (report.job, report.attempt, report.what) == (job, attempt, what):
                    return report
            self.engine.wait(0.02)
        raise AssertionError(f"no report {what!r} of {job}.{attempt}")

    def until_begun(self, job: int = 1, attempt: int = 1) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not self.began(job, attempt):
            self.engine.acknowledge(
                [report for report in self.engine.observe() if report.what == "accepted"]
            )
            assert time.monotonic() < deadline_s, "it never began"
            time.sleep(0.005)


class VirtualBench(Bench):
    """The nodes themselves outlive a control plane: there is one engine throughout."""

    def open(self) -> None:
        if not hasattr(self, "engine"):
            clock = LiveClock()
            self.engine = VirtualEngine([NODE], clock.now_us, course)

    def lose(self, job: int, attempt: int = 1) -> None:
        assert isinstance(self.engine, VirtualEngine)
        self.engine.lose((job, attempt))

    def began(self, job: int, attempt: int = 1) -> int:
        assert isinstance(self.engine, VirtualEngine)
        return self.engine.runs.get((job, attempt), 0)


def course(spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
    return spec.estimate_s, int(spec.env["CODE"])


class LocalBench(Bench):
    """Real processes on this machine."""

    def open(self) -> None:
        self.engine = LocalEngine(self.folder / "state", LiveClock(), NODE)

    def close(self) -> None:
        assert isinstance(self.engine, LocalEngine)
        self.engine.close()

    def lose(self, job: int, attempt: int = 1) -> None:
        claim = (self.folder / "state" / "engine" / f"{job}.{attempt}").read_text()
        pid = int(claim.split('"pid": ')[1].split(",")[0])
        os.kill(pid, signal.SIGKILL)

    def began(self, job: int, attempt: int = 1) -> int:
        lines = self.runs.read_text().split() if self.runs.exists() else []
        return lines.count(f"{job}.{attempt}")


class SlurmBench(LocalBench):
    """Real daemons of Slurm on this machine."""

    slurm: SlurmCluster
    nodes = (LiveNode("n1", "CPU1", 8, 8, 1000),)

    def open(self) -> None:
        settings = SlurmSettings(beat_s=0.1, lease_s=2.0, poll_s=0.3)
        self.engine = SlurmEngine(
            self.folder / "state", LiveClock(), settings, environment=self.slurm.environment
        )

    def close(self) -> None:
        self.engine.close()

    def lose(self, job: int, attempt: int = 1) -> None:
        claim = (self.folder / "state" / "claims" / f"{job}.{attempt}").read_text()
        os.kill(int(claim.split('"pid": ')[1].split(",")[0]), signal.SIGKILL)


@pytest.fixture(scope="module")
def running_slurm() -> Iterator[SlurmCluster | None]:
    """The daemons, None where they are not installed."""
    if missing():
        yield None
        return
    with SlurmCluster(nodes=1, cpus=8, gpus=0) as cluster:
        yield cluster


@pytest.fixture(params=[VirtualBench, LocalBench, SlurmBench], ids=["virtual", "local", "slurm"])
def bench(request: Any, tmp_path: Path, running_slurm: SlurmCluster | None) -> Iterator[Bench]:
    make: Callable[[Path], Bench] = request.param
    if make is SlurmBench:
        if running_slurm is None:
            pytest.skip(f"{', '.join(missing())} not installed; {HOW_TO_GET}")
        SlurmBench.slurm = running_slurm
    bench = make(tmp_path)
    yield bench
    bench.engine.reconcile([])  # whatever still runs is nobody's any more
    bench.close()


def test_nodes(bench: Bench) -> None:
    assert list(bench.engine.nodes()) == list(bench.nodes)


def test_capabilities_are_optional_fields_of_jobs(bench: Bench) -> None:
    fields = bench.engine.capabilities().fields
    assert fields <= {row.name for row in FIELDS.values() if row.optional}
    assert bench.engine.capabilities().preempt


def test_an_attempt_starts_and_ends(bench: Bench) -> None:
    assert bench.launch(code=3) == Receipt(1, 1, accepted=True)
    started = bench.report("started")
    ended = bench.report("ended")
    assert started.values["pid"] > 0
    assert started.time_us <= ended.time_us
    assert (ended.values["exit_code"], ended.values["why"]) == (3, "exit")
    assert not ended.values["signal"]


def test_a_launch_is_idempotent(bench: Bench) -> None:
    assert [bench.launch() for _ in range(3)] == [Receipt(1, 1, accepted=True)] * 3
    bench.report("ended")
    assert bench.launch().accepted, "also when it is over"
    bench.launch(2)
    bench.report("ended", 2)
    assert (bench.began(1), bench.began(2)) == (1, 1)


def test_a_start_is_told_once(bench: Bench) -> None:
    bench.launch(run_s=LONG)
    bench.report("started")
    assert bench.seen() == []


def test_an_end_is_told_until_it_is_acknowledged(bench: Bench) -> None:
    bench.launch()
    end = bench.report("ended")
    for _ in range(3):
        assert bench.seen() == [(1, 1, "ended")]
    bench.engine.acknowledge([end])
    assert bench.seen() == []
    bench.engine.acknowledge([end])  # no matter how often
    assert bench.seen() == []


def test_attempts_are_told_apart(bench: Bench) -> None:
    bench.launch(attempt=1)
    bench.launch(attempt=2, code=1)
    assert bench.report("ended").values["exit_code"] == 0
    assert bench.report("ended", attempt=2).values["exit_code"] == 1


@pytest.mark.parametrize("why", ["cancel", "preempt"])
def test_a_stop_ends_it(bench: Bench, why: str) -> None:
    bench.launch(run_s=LONG)
    bench.until_begun()
    assert bench.stop(why=why).accepted
    assert bench.report("ended").values["why"] == "stopped"
    bench.stop(why=why)
    assert bench.seen() == [(1, 1, "ended")], "told again, ended once"


def test_a_stop_of_nothing_does_nothing(bench: Bench) -> None:
    bench.stop(9)
    assert bench.seen() == []


def test_a_lost_supervisor_is_lost(bench: Bench) -> None:
    bench.launch(run_s=LONG)
    bench.report("started")
    bench.lose(1)
    report = bench.report("lost")
    bench.engine.acknowledge([report])
    assert bench.seen() == []


def test_orders_to_what_runs_are_accepted_again_and_again(bench: Bench) -> None:
    bench.launch(run_s=LONG)
    bench.report("started")
    rows = (Row(0, 3),)
    can = bench.engine.capabilities()
    orders: dict[Resize | Cap | Checkpoint, bool] = {
        Resize(1, 1, 1, rows): can.resize,
        Cap(1, 1, 2, 0.5, rows): can.cap,
        Checkpoint(1, 1, 3): can.preempt,
    }
    for order, possible in orders.items():
        assert [bench.engine.apply(order).accepted for _ in range(3)] == [possible] * 3
    assert bench.seen() == [], "it goes on"


def test_orders_to_nobody_are_not_accepted(bench: Bench) -> None:
    for order in (Resize(9, 1, 1, (Row(0, 1),)), Cap(9, 1, 1, 0.5, ()), Checkpoint(9, 1, 1)):
        assert not bench.engine.apply(order).accepted


# After a restart ----------------------------------------------------------------------------


def restarted(bench: Bench, *expected: tuple[int, int]) -> list[tuple[int, int, str]]:
    """What another control plane hears of the attempts it knows of."""
    bench.close()
    bench.open()
    return sorted(
        (report.job, report.attempt, report.what)
        for report in bench.engine.reconcile(list(expected))
        if report.what not in WAITS
    )


def test_what_runs_is_found_running(bench: Bench) -> None:
    bench.launch(run_s=LONG)
    bench.report("started")
    assert restarted(bench, (1, 1)) == [(1, 1, "started")]
    bench.stop()
    assert bench.report("ended").values["why"] == "stopped"


def test_what_ended_meanwhile_is_found_ended(bench: Bench) -> None:
    bench.launch(code=5)
    bench.report("ended")
    assert (1, 1, "ended") in restarted(bench, (1, 1))
    assert bench.report("ended").values["exit_code"] == 5


def test_what_was_lost_meanwhile_is_found_lost(bench: Bench) -> None:
    bench.launch(run_s=LONG)
    bench.report("started")
    bench.lose(1)
    reports = restarted(bench, (1, 1))
    if (1, 1, "lost") not in reports:  # its processes may take a moment to go
        bench.report("lost")


def test_what_never_began_is_void_and_never_will_begin(bench: Bench) -> None:
    assert restarted(bench, (7, 2)) == [(7, 2, "void")]
    assert bench.seen() == [(7, 2, "void")], "until it is acknowledged"
    bench.launch(7, 2)  # comes too late
    bench.launch(8)
    bench.report("ended", 8)
    assert (bench.began(7, 2), bench.began(8)) == (0, 1)
    bench.engine.acknowledge(bench.engine.observe())
    assert bench.seen() == []


def test_calls_do_not_wait_for_what_hangs(bench: Bench) -> None:
    if not isinstance(bench, SlurmBench):
        pytest.skip("nothing here can hang")
    with bench.slurm.frozen_controller():
        began_s = time.monotonic()
        assert bench.launch().accepted
        for _ in range(20):
            bench.engine.observe()
            bench.engine.nodes()
        bench.stop()
        assert time.monotonic() - began_s < 5.0, "slurmctld alone would take longer"
    bench.report("void")
    assert bench.began(1) == 0


def test_what_is_on_record_as_over_is_forgotten(bench: Bench) -> None:
    bench.launch()
    bench.report("ended")
    bench.launch(2, run_s=LONG)
    bench.report("started", 2)
    assert restarted(bench, (2, 1)) == [(2, 1, "started")]
    assert bench.seen() == []


def test_all_of_it_at_once(bench: Bench) -> None:
    bench.launch(1)
    bench.report("ended", 1)
    bench.launch(2, run_s=LONG)
    bench.report("started", 2)
    reports = restarted(bench, (1, 1), (2, 1), (3, 1))
    assert {(1, 1, "ended"), (2, 1, "started"), (3, 1, "void")} <= set(reports)
