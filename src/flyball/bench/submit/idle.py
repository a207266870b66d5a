"""Measures Flyball when it is idle: memory (PSS) and CPU of its processes.

One job sleeps, so that there is a supervisor to measure.
"""

from __future__ import annotations

import time

import psutil

from flyball.bench.submit.rows import Row, SubmitSetting, at_most
from flyball.bench.submit.server import Up, running, state_folder

MB = 1e6
BARS_MB = {
    "control plane": 250.0,
    "agent": 100.0,
    "foresight": None,
    "spawner": None,
    "supervisor": 12.0,
}
AGENT, WORKER = "flyball.monitor.agent", "flyball.worker"


def idle(setting: SubmitSetting) -> list[Row]:
    """Memory of each process after a minute, then CPU of all together over half a minute."""
    settle_s, watch_s = setting.size(60, 5), setting.size(30, 5)
    with state_folder(setting.folder) as state, running(state) as up:
        up.fill()
        setting.note(f"  waiting {settle_s} s")
        time.sleep(settle_s)
        parts = control_processes(up)
        memory_mb = {name: part.memory_full_info().pss / MB for name, part in parts.items()}
        setting.note(f"  watching for {watch_s} s")
        before = {name: cpu_s(part) for name, part in parts.items()}
        began = time.monotonic()
        time.sleep(watch_s)
        span_s = time.monotonic() - began
        used = {name: 100.0 * (cpu_s(part) - before[name]) / span_s for name, part in parts.items()}
    rows = [
        at_most(f"memory of the {name}, idle", memory_mb[name], "MB (PSS)", bar)
        for name, bar in BARS_MB.items()
    ]
    about = ", ".join(f"{name} {percent:.2f} %" for name, percent in used.items())
    about = f"{about}; over {span_s:.0f} s"
    return [*rows, at_most("CPU when idle", sum(used.values()), "% of a core", 1.0, about=about)]


def control_processes(up: Up) -> dict[str, psutil.Process]:
    """Return by name the control plane, its children, and the supervisor of the running job."""
    plane = psutil.Process(up.process.pid)
    children = plane.children()
    agent, worker = (
        next(child for child in children if name in child.cmdline()) for name in (AGENT, WORKER)
    )
    engine = str(up.state / "engine")
    spawner = next(child for child in children if engine in child.cmdline())
    candidates = [process for process in psutil.process_iter() if _is_of(process, engine)]
    supervisor = next(process for process in candidates if process.pid != spawner.pid)
    return {
        "control plane": plane,
        "agent": agent,
        "foresight": worker,
        "spawner": spawner,
        "supervisor": supervisor,
    }


def _is_of(process: psutil.Process, engine: str) -> bool:
    """Return whether a process is a spawner or a supervisor of this folder."""
    try:
        return engine in process.cmdline()
    except psutil.Error:
        return False


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process and of its children that have ended."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
