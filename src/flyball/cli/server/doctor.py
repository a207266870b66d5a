"""`flyball doctor`: shows what this machine offers, what is missing and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from flyball.cli.live import State
from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table
from flyball.core.errors import FlyballError
from flyball.core.shared_data import shared_data

RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
PROBE_TIMEOUT_S = 5.0

EXAMPLES = """\b
Examples:
  flyball doctor
  flyball doctor --state ~/queue           (also its server and its sensors)
  flyball doctor --json
"""


class Finding(NamedTuple):
    """Holds the result of one check.

    Attributes:
        name: what was checked.
        state: `ok`; `absent`: missing, and only what `remedy` names needs it; or `damaged`.
        found: what is there.
        remedy: how to get what is missing, or what it is needed for.
    """

    name: str
    state: str
    found: str
    remedy: str = ""


def doctor(
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Show what this machine offers, what is missing and how to get it."""
    findings = list(examine(state))
    if as_json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        print_table("This machine", Finding._fields, findings, 4)


def examine(state: Path | None = None) -> Iterator[Finding]:
    """Yield the result of every check; no check raises or takes long."""
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()}")
    yield Finding("cores", "ok", str(len(os.sched_getaffinity(0))))
    yield _memory()
    yield _compiler()
    yield _cache()
    yield _gpu()
    yield _rapl()
    yield _state(state)
    yield from _journal(state)
    yield from _engine(state)
    yield from _control_plane(state)
    yield _cgroup()
    yield _program("slurm", ("sinfo", "--version"), "needed only to drive a Slurm cluster")
    yield _package("ray", "not needed: Ray clusters are not supported yet")
    yield _package("torch", "needed only for learning: pip install 'flyball[learn]'")
    yield _browser()
    yield _data()


def _memory() -> Finding:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Finding("memory", "ok", f"{total / 2**30:.1f} GiB")


def _compiler() -> Finding:
    return Finding("numba", "ok", f"{version('numba')} (numpy {version('numpy')})")


def _cache() -> Finding:
    from flyball.physics.compile import cache_folder

    folder = cache_folder()
    kernels = sum(1 for _ in folder.rglob("*.nbi")) if folder.is_dir() else 0
    if kernels:
        return Finding("compiled kernels", "ok", f"{kernels} in {_short_path(folder)}")
    remedy = "the first replay compiles them, once, in about half a minute"
    return Finding("compiled kernels", "absent", f"none in {_short_path(folder)}", remedy)


def _gpu() -> Finding:
    listing = _output(("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"))
    if listing:
        names = [line.strip() for line in listing.splitlines() if line.strip()]
        return Finding("nvidia gpu", "ok", f"{len(names)}: {names[0]}" if names else "0")
    remedy = "not needed for replays; to use one, install its driver (nvidia-smi)"
    return Finding("nvidia gpu", "absent", "no nvidia-smi that answers", remedy)


def _rapl() -> Finding:
    if not RAPL.exists():
        remedy = "CPU energy will be modelled, not measured (no such counter on this machine)"
        return Finding("cpu energy counter", "absent", "no RAPL", remedy)
    if not os.access(RAPL, os.R_OK):
        remedy = f"sudo chmod a+r {RAPL}"
        return Finding("cpu energy counter", "absent", "RAPL, not readable", remedy)
    return Finding("cpu energy counter", "ok", "RAPL, readable")


def _state(state: Path | None) -> Finding:
    """Check the state folder of the live system and its permissions."""
    from flyball.api.state_folder import default_state, open_state

    try:
        folder = state or default_state()
        if not folder.exists():
            return Finding("state folder", "absent", _short_path(folder), "flyball up creates it")
        return Finding("state folder", "ok", _short_path(open_state(folder)))
    except FlyballError as error:
        problem, _, remedy = str(error).partition("; ")
        return Finding("state folder", "absent", problem, remedy)


def _journal(state: Path | None) -> Iterator[Finding]:
    """Check that the journal, if there is one, is intact and of a supported version."""
    from flyball.api.state_folder import default_state
    from flyball.control.journal.history import check_intact

    try:
        path = (state or default_state()) / "journal.db"
        if path.is_file():
            jobs = check_intact(path)
            size_mib = path.stat().st_size / 2**20
            yield Finding("journal", "ok", f"{jobs:,} jobs, {size_mib:.1f} MiB")
    except FlyballError as error:
        yield Finding("journal", "damaged", error.args[0], error.remedy)


def _engine(state: Path | None) -> Iterator[Finding]:
    """Say what the engine of the last control plane can do, and what not."""
    from flyball.api.state_folder import default_state
    from flyball.control.journal.history import History
    from flyball.core.live import ABILITIES

    try:
        with History((state or default_state()) / "journal.db") as history:
            can = history.last_opened()[1].can
    except FlyballError:  # there was none
        return
    if can is None:
        yield Finding("engine", "ok", "used by an earlier version, which did not record it")
        return
    names = {name: name.replace("_", " ") for name in ABILITIES}
    cannot = ", ".join(names[name] for name in ABILITIES if name not in can)
    able = ", ".join(names[name] for name in ABILITIES if name in can)
    remedy = "tuners plan nothing that it cannot do"
    yield Finding("engine", "ok", f"can {able or 'only start jobs'}; cannot {cannot}", remedy)


def _control_plane(state: Path | None) -> Iterator[Finding]:
    """Check the server, and the sensors of its agent."""
    from flyball.sdk.client import Client
    from flyball.sdk.errors import ApiError

    try:
        with Client(state) as client:
            health = client.health()
            health_text = "answers" if health["ok"] else f"is unhealthy: {health['checks']}"
            remedy = "" if health["ok"] else "see its log"
            findings = [Finding("control plane", "absent" if remedy else "ok", health_text, remedy)]
            findings += _monitoring(client.sensors())
    except (ApiError, OSError):
        remedy = "start one: flyball up"
        findings = [Finding("control plane", "absent", "none is running", remedy)]
    yield from findings


def _monitoring(report: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the state of the agent, then one line per collector."""
    lost = f"{report['lost']} writes lost, {report['store_failures']} failures of the store"
    if report["alive"]:
        yield Finding("agent", "ok", lost)
    else:
        yield Finding("agent", "absent", "does not publish", "see agent.log in the state folder")
    for sensor in report["sensors"]:
        name = f"sensor {sensor['name']}"
        if sensor["absent"]:
            yield Finding(name, "absent", sensor["family"], sensor["absent"])
            continue
        details = f"{sensor['family']}, {sensor['kind']}, every {sensor['period_s']:g} s"
        if sensor["took_us"] is not None:
            details += f", {sensor['took_us']} us a reading"
        trouble = (
            f"failed {sensor['failures']} times: {sensor['error']}" if sensor["failures"] else ""
        )
        yield Finding(
            name, "ok", details, trouble or sensor["source"] * (sensor["kind"] != "measured")
        )


def _cgroup() -> Finding:
    roots = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]
    if any((root / "cgroup.procs").exists() and os.access(root, os.W_OK) for root in roots):
        return Finding("memory limits", "ok", "by cgroup")
    remedy = "without it, limits are enforced by checking each job twice a second"
    return Finding("memory limits", "absent", "no writable cgroup", remedy)


def _browser() -> Finding:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return Finding("browser", "ok", name)
    return Finding("browser", "absent", "no chromium", "needed only to test web pages")


def _data() -> Finding:
    """Look for public traces and measurements, which the package lacks and some checks use."""
    try:
        return Finding("trace data", "ok", _short_path(shared_data()))
    except FlyballError as error:
        problem, _, remedy = str(error).partition("; ")
        return Finding("trace data", "absent", problem, f"needed only for some checks: {remedy}")


def _program(name: str, command: tuple[str, ...], remedy: str) -> Finding:
    output = _output(command)
    return Finding(name, "ok", output) if output else Finding(name, "absent", "not found", remedy)


def _package(name: str, remedy: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "absent", "not installed", remedy)


def _output(command: tuple[str, ...]) -> str:
    """Return a program's output; "" if it is not installed, fails or hangs."""
    path = shutil.which(command[0])
    if path is None:
        return ""
    try:
        done = subprocess.run(
            (path, *command[1:]), capture_output=True, text=True, timeout=PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _short_path(path: Path) -> str:
    """Abbreviate the home folder of a path to ~."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
