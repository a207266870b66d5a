"""A fake machine: hand-written files of /proc and /sys, copied so that tests may change them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from flyball.monitor import registry
from flyball.monitor.sensor import HostPower, Null, Site

TREE = Path(__file__).parent / "trees" / "server"
BOOT = "11111111-2222-3333-4444-555555555555"
HOST = HostPower(60.0, 200.0, "as stated")


def frozen(folder: Path, **more: Any) -> Site:
    """The machine of `trees/server`, with a state folder beside it."""
    root = folder / "root"
    shutil.copytree(TREE, root, symlinks=True)
    (folder / "state" / "engine").mkdir(parents=True)
    return Site(root=root, state=folder / "state", **more)


def bare(folder: Path, **more: Any) -> Site:
    """A machine without any of the files."""
    (folder / "bare" / "proc").mkdir(parents=True)
    return Site(root=folder / "bare", **more)


def opened(name: str, site: Site) -> Any:
    """The collector, which must not be a null object."""
    collector = registry.get_collector(name).open(site)
    assert not isinstance(collector, Null), collector.reason
    return collector


def absent(name: str, site: Site) -> str:
    """Why there is no such collector."""
    null = registry.get_collector(name).open(site)
    assert isinstance(null, Null)
    assert null.collect(5.0) == (name, 5.0, {})
    return null.reason


def claim(
    site: Site, name: str, pid: int, start: int, boot: str = BOOT, end: str = "", **more: float
) -> Path:
    """An engine's claim file, as docs/concept/control.md describes it."""
    assert site.state is not None
    job, attempt = map(int, name.split("."))
    first = {"job": job, "attempt": attempt, "pid": pid, "start": start, "boot": boot}
    first |= {"child": pid + 1, "time_us": 1, **more}
    path = site.state / "engine" / name
    path.write_text(json.dumps(first).ljust(1023) + "\n" + end.ljust(3071) + "\n")
    return path
