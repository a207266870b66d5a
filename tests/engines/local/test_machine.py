"""The machine as a node, what a supervisor is asked, and where memory can be limited."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.until import WAIT_S

from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Launch, LiveNode
from flyball.engines.local import cgroup, claim
from flyball.engines.local.machine import cores_per_device, describe, memory_mib
from flyball.engines.local.request import KEPT_LOGS, cores_of, request_line

ENGINES = Path(claim.__file__).parents[1]


class NoDriver(Exception):
    """What the library raises where there is none."""


def fake_nvml(names: list[str], driver: bool = True) -> Any:
    """A driver with these devices."""

    def init() -> None:
        if not driver:
            raise NoDriver

    return SimpleNamespace(
        NVMLError=NoDriver,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetName=lambda i: names[i],
        nvmlDeviceGetUUID=lambda i: f"GPU-{i}".encode(),
    )


def test_a_machine_with_accelerators() -> None:
    seen = []

    def name_device(name: str) -> str:
        seen.append(name)
        return "V100"

    node = describe(name_device, fake_nvml(["Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"]))
    assert (node.device, node.devices, node.uuids) == ("V100", 2, ("GPU-0", "GPU-1"))
    assert seen == ["Tesla V100-SXM2-16GB"]


def test_a_mixed_machine_shows_its_first_type() -> None:
    node = describe(str, fake_nvml(["A", "B", "A"]))
    assert (node.device, node.devices, node.uuids) == ("A", 2, ("GPU-0", "GPU-2"))


@pytest.mark.parametrize("nvml", [fake_nvml([]), fake_nvml([], driver=False)])
def test_a_machine_without(nvml: Any) -> None:
    node = describe(str, nvml)
    cores = len(os.sched_getaffinity(0))
    assert (node.name, node.device, node.uuids) == (socket.gethostname(), "CPU1", ())
    assert node.cpus == cores
    assert node.devices == cores // cores_per_device(cores)
    assert node.memory_mib == memory_mib()
    assert node.up


def test_memory() -> None:
    assert memory_mib("MemTotal:       24682416 kB\nMemFree: 1 kB\n") == 24103


@pytest.mark.parametrize(
    ("cores", "size", "devices"), [(1, 1, 1), (64, 1, 64), (65, 2, 32), (128, 2, 64), (200, 4, 50)]
)
def test_cores_of_a_device(cores: int, size: int, devices: int) -> None:
    assert cores_per_device(cores) == size
    assert cores // size == devices
    numbers = list(range(100, 100 + cores))
    assert cores_of([0], numbers, devices) == numbers[:size]
    assert cores_of([devices - 1], numbers, devices) == numbers[(devices - 1) * size :][:size]


def test_a_request_is_one_line(tmp_path: Path) -> None:
    spec = JobSpec(("echo", "a\nb"), env={"X": "\n"}, memory_mib=5)
    node = LiveNode("n", "CPU1", 2, 2, 10)
    launch = Launch(3, 4, spec, (Row(0, 2),))
    line = request_line(launch, tmp_path, node, [4, 5], KEPT_LOGS, (7, 8))
    assert line.count(b"\n") == 1
    name, _space, text = line.partition(b" ")
    request = json.loads(text)
    assert name == b"3.4"
    assert request["argv"] == ["echo", "a\nb"]
    assert request["cores"] == [5]
    assert request["log"] == str(tmp_path / "logs" / "3.4.out")
    assert request["log_bytes"] == 64 * 2**20
    assert (request["time_us"], request["mono_us"]) == (7, 8)


# Memory ------------------------------------------------------------------------------


def proc_folder(tmp_path: Path, mounts: str, groups: str) -> str:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "mounts").write_text(mounts)
    (folder / "cgroup").write_text(groups)
    return str(folder)


def test_memory_groups_of_version_2_are_made_beside_our_own(tmp_path: Path) -> None:
    above = tmp_path / "user.slice" / "app.slice"
    above.mkdir(parents=True)
    (above / "cgroup.procs").touch()
    mounts = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
    proc = proc_folder(tmp_path, mounts, "0::/user.slice/app.slice/flyball.service\n")
    (above / "cgroup.subtree_control").write_text("cpu pids\n")
    assert cgroup.find_place(proc) is None  # the memory controller is not handed down
    (above / "cgroup.subtree_control").write_text("cpu memory pids\n")
    place = cgroup.find_place(proc)
    assert place is not None
    assert (place.folder, place.version) == (str(above), 2)
    group = cgroup.Group(place, "flyball-1")
    assert group.make(10)
    folder = above / "flyball-1"
    assert (folder / "memory.max").read_text() == str(10 * 2**20)
    assert (folder / "memory.oom.group").read_text() == "1"
    (folder / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert group.kills() == 3
    assert group.peak_mib() == 0.0, "kernels before 5.19 do not say"
    (folder / "memory.peak").write_text("3145728\n")
    assert group.peak_mib() == 3.0


def test_no_memory_groups(tmp_path: Path) -> None:
    assert cgroup.find_place(proc_folder(tmp_path, "", "")) is None
    group = cgroup.Group(cgroup.Place("/no/such/place", 1), "x")
    assert not group.make(10)
    assert (group.pids(), group.kills(), group.peak_mib()) == ([], 0, 0.0)


WITHOUT_GROUPS = """
    import json, os, sys
    sys.path.append(sys.argv[1])
    from local import proc, signals, supervisor
    folder = os.open(sys.argv[2], os.O_RDONLY)
    os.setsid()
    wake = signals.hear()
    supervisor.supervise(json.loads(sys.argv[3]), folder, proc.boot_id(), None, wake, int, print)
"""


def test_memory_is_watched_where_groups_are_not_permitted(tmp_path: Path) -> None:
    """The sum over the tree counts, and shared pages only once."""
    mib_60 = "x = b'x' * (60 << 20); import os, time; "
    texts = {
        1: mib_60 + "os.fork(); y = b'y' * (60 << 20); time.sleep(60)",  # 60 shared + 2 x 60
        2: mib_60 + "[os.fork() for _ in range(2)]; time.sleep(1.2)",  # 60 shared by four
        3: mib_60 + "[os.fork() for _ in range(2)]; time.sleep(5)",  # far below its limit
    }
    limits_mib = {1: 150, 2: 150, 3: 1000}
    ends = {}
    for job, text in texts.items():
        argv = (sys.executable, "-I", "-S", "-c", text)
        launch = Launch(job, 1, JobSpec(argv, memory_mib=limits_mib[job]), ())
        node = LiveNode("n", "CPU1", 2, 2, 10)
        now = (0, time.monotonic_ns() // 1000)
        line = request_line(launch, tmp_path, node, [], KEPT_LOGS, now)
        command = [sys.executable, "-I", "-S", "-c", textwrap.dedent(WITHOUT_GROUPS)]
        (tmp_path / "logs").mkdir(exist_ok=True)
        request = line.partition(b" ")[2].decode()
        subprocess.run([*command, str(ENGINES), str(tmp_path), request], check=True, timeout=WAIT_S)
        folder = os.open(tmp_path, os.O_RDONLY)
        record = claim.read(folder, job, 1)
        os.close(folder)
        assert record is not None
        ends[job] = record.exit
    assert ends[1] is not None
    assert ends[2] is not None
    assert (ends[1]["why"], ends[1]["signal"]) == ("memory", 9)
    assert "of its limit of 150 MiB" in ends[1]["message"]
    assert (ends[2]["why"], ends[2]["exit_code"]) == ("exit", 0)
    assert ends[3] is not None
    assert ends[3]["peak_by"] == "looks"
    assert 60 < ends[3]["peak_mib"] < 150, "the peak counts shared pages once, as the limit does"


# What the small processes are made of ------------------------------------------------


def test_the_spawner_loads_nothing_of_flyball() -> None:
    text = "import sys; sys.path.append(sys.argv[1]); import local.spawner; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", text, str(ENGINES)]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "local.supervisor" in loaded
    heavy = {"flyball", "typing", "dataclasses", "inspect", "logging", "subprocess", "asyncio"}
    assert heavy.isdisjoint(loaded)
