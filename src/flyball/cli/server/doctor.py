"""`flyball doctor`: what this machine offers, what is missing and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table
from flyball.cli.server.live_options import State
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
    """One thing looked for.

    Attributes:
        state: `ok`; `absent`: not here, and only what is named in `remedy` needs it; or `damaged`.
    """

    name: str
    state: str
    found: str
    remedy: str = ""


def doctor(
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Say what this machine offers, what is missing and how to get it."""
    findings = list(examine(state))
    if as_json:
        print_json({"findings": [each._asdict() for each in findings]})
    else:
        print_table("This machine", Finding._fields, findings, 4)


def examine(state: Path | None = None) -> Iterator[Finding]:
    """Look at everything, one after the other; nothing here raises or takes long."""
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()}")
    yield Finding("cores", "ok", str(len(os.sched_getaffinity(0))))
    yield _memory()
    yield _compiler()
    yield _cache()
    yield _gpu()
    yield _rapl()
    yield _state(state)
    yield from _journal(state)
    yield from _control_plane(state)
    yield _cgroup()
    yield _program("slurm", ("sinfo", "--version"), "needed only to drive a Slurm cluster")
    yield _package("ray", "needed only for Ray clusters: pip install 'flyball[ray]'")
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
        return Finding("compiled kernels", "ok", f"{kernels} in {_homely(folder)}")
    remedy = "made by the first replay, once, in about half a minute"
    return Finding("compiled kernels", "absent", f"none in {_homely(folder)}", remedy)


def _gpu() -> Finding:
    found = _output(("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"))
    if found:
        names = [line.strip() for line in found.splitlines() if line.strip()]
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
    """The folder of the live system, and whether it can be trusted."""
    from flyball.api.state_folder import default_state, open_state

    try:
        folder = state or default_state()
        if not folder.exists():
            return Finding("state folder", "absent", _homely(folder), "made by flyball up")
        return Finding("state folder", "ok", _homely(open_state(folder)))
    except FlyballError as error:
        found, _, remedy = str(error).partition("; ")
        return Finding("state folder", "absent", found, remedy)


def _journal(state: Path | None) -> Iterator[Finding]:
    """The journal, if there is one: whether it is whole, and of a version that can be read."""
    from flyball.api.state_folder import default_state
    from flyball.control.journal.history import check_whole

    try:
        path = (state or default_state()) / "journal.db"
        if path.is_file():
            jobs = check_whole(path)
            size_mib = path.stat().st_size / 2**20
            yield Finding("journal", "ok", f"{jobs:,} jobs, {size_mib:.1f} MiB")
    except FlyballError as error:
        yield Finding("journal", "damaged", error.args[0], error.remedy)


def _control_plane(state: Path | None) -> Iterator[Finding]:
    """The server, and the sensors of its agent."""
    from flyball.sdk.client import Client
    from flyball.sdk.errors import ApiError

    try:
        with Client(state) as client:
            well = client.health()
            found = "answers" if well["ok"] else f"is not well: {well['checks']}"
            remedy = "" if well["ok"] else "see what it printed"
            findings = [Finding("control plane", "absent" if remedy else "ok", found, remedy)]
            findings += _monitoring(client.sensors())
    except (ApiError, OSError):
        remedy = "start one: flyball up"
        findings = [Finding("control plane", "absent", "none is running", remedy)]
    yield from findings


def _monitoring(told: Mapping[str, Any]) -> Iterator[Finding]:
    """The agent, then one line for each collector."""
    lost = f"{told['lost']} writes lost, {told['store_failures']} failures of the store"
    if told["alive"]:
        yield Finding("agent", "ok", lost)
    else:
        yield Finding("agent", "absent", "does not publish", "see agent.log in the state folder")
    for each in told["sensors"]:
        name = f"sensor {each['name']}"
        if each["absent"]:
            yield Finding(name, "absent", each["family"], each["absent"])
            continue
        found = f"{each['family']}, {each['kind']}, every {each['period_s']:g} s"
        if each["took_us"] is not None:
            found += f", {each['took_us']} us a reading"
        trouble = f"failed {each['failures']} times: {each['error']}" if each["failures"] else ""
        yield Finding(name, "ok", found, trouble or each["source"] * (each["kind"] != "measured"))


def _cgroup() -> Finding:
    roots = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]
    if any((root / "cgroup.procs").exists() and os.access(root, os.W_OK) for root in roots):
        return Finding("memory limits", "ok", "by cgroup")
    remedy = "limits of jobs are kept by watching them twice a second, which also works"
    return Finding("memory limits", "absent", "no cgroup that may be written", remedy)


def _browser() -> Finding:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return Finding("browser", "ok", name)
    return Finding("browser", "absent", "no chromium", "needed only to test web pages")


def _data() -> Finding:
    """Public traces and measurements are not part of the package; some checks use them."""
    try:
        return Finding("trace data", "ok", _homely(shared_data()))
    except FlyballError as absent:
        found, _, remedy = str(absent).partition("; ")
        return Finding("trace data", "absent", found, f"needed only for some checks: {remedy}")


def _program(name: str, command: tuple[str, ...], remedy: str) -> Finding:
    found = _output(command)
    return Finding(name, "ok", found) if found else Finding(name, "absent", "not found", remedy)


def _package(name: str, remedy: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "absent", "not installed", remedy)


def _output(command: tuple[str, ...]) -> str:
    """What a program prints, or "" if it is not there, fails or hangs."""
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


def _homely(path: Path) -> str:
    """A path with ~ for the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
