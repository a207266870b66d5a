"""Packages that add something broken: named on stderr and passed over, in every group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUPS = ("policies", "tuners", "collectors", "forecasters")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Install a package whose every entry point fails to import, for processes to come."""
    (tmp_path / "acme_broken.py").write_text("raise ImportError('libacme is\\nmissing')\n")
    (tmp_path / "acme_wrong.py").write_text("THING = 3\n")
    info = tmp_path / "acme_extras-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-extras\nVersion: 1.0\n")
    points = [
        f"[flyball.{group}]\nbroken = acme_broken:THING\nwrong = acme_wrong:THING\n"
        for group in GROUPS
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def flyball(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flyball", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("command", ["policies", "tuners"])
def test_listing_passes_over_what_is_broken(environment: dict[str, str], command: str) -> None:
    done = flyball(environment, command, "--json")
    assert done.returncode == 0, done.stderr
    names = {
        row[command.replace("ies", "y").rstrip("s")] for row in json.loads(done.stdout)[command]
    }
    assert names
    assert not names & {"broken", "wrong"}
    lines = done.stderr.splitlines()
    assert len(lines) == 2, done.stderr
    assert "package acme-extras" in lines[0]
    assert "ImportError: libacme is missing" in lines[0]
    assert "acme_wrong:THING is not a" in lines[1]


def test_broken_policy_by_name_is_an_error_of_one_line(environment: dict[str, str]) -> None:
    done = flyball(environment, "up", "--policy", "broken", "--state", "/nonexistent/state")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "acme-extras" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "from flyball.predict.load.registry import candidates; names = candidates([])",
        "from flyball.app import policy_settings;"
        "names = [each.name for each in policy_settings('all', [])]",
        "from flyball.tune.registry import usable; names = usable()",
    ],
)
def test_choosing_from_all_passes_over_what_is_broken(
    environment: dict[str, str], code: str
) -> None:
    check = f"{code}; assert names and not {{'broken', 'wrong'}} & set(names), names"
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("package acme-extras") == 2
    assert "Traceback" not in done.stderr


def test_broken_collector_says_why_it_is_absent(environment: dict[str, str]) -> None:
    code = (
        "from flyball.monitor.registry import get_collector, names;"
        "assert {'broken', 'wrong'} <= set(names());"
        "print(get_collector('broken').open(None).reason)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert "libacme" in done.stdout, done.stderr
