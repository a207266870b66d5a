"""Commands are found by PATH, run without a shell and within a limit, and only read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.until import until

from flyball.core.errors import DataAbsent, FlyballError, Unavailable
from flyball.engines.slurm.commands import Commands, clean_environment
from flyball.engines.slurm.poll import MAX_PAUSE_S, Poller, Site, pause_s

RECORDED = Path(__file__).parent / "recorded" / "22.05"


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def site_folder(tmp_path: Path) -> Path:
    """Programs that print what real ones printed."""
    program(tmp_path, "squeue", f"cat '{RECORDED}/squeue.txt'")
    program(
        tmp_path,
        "scontrol",
        f"""case "$*" in *node*) f=nodes;; *partition*) f=partitions;; *config*) f=config;;
        *"job 3"*) f=job3;; *) echo unknown >&2; exit 1;; esac; cat '{RECORDED}/'$f.txt""",
    )
    return tmp_path


def commands(folder: Path, limit_s: float = 400.0) -> Commands:
    return Commands({"PATH": f"{folder}:/usr/bin:/bin"}, limit_s)


def test_a_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataAbsent, match=r"no squeue in PATH; run this where"):
        Commands({"PATH": str(tmp_path)}).run("squeue", [])


def test_nothing_that_changes_a_site_can_be_run() -> None:
    with pytest.raises(AssertionError):
        Commands().run("scancel", ["1"])
    with pytest.raises(AssertionError):
        Commands().run("scontrol", ["update", "JobId=1", "Priority=1"])


def test_arguments_are_not_read_by_a_shell(tmp_path: Path) -> None:
    program(tmp_path, "squeue", 'printf "%s." "$@"')
    output = commands(tmp_path).run("squeue", ["$(touch x)", "a b", ";"])
    assert output == b"$(touch x).a b.;."


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    program(tmp_path, "squeue", "exec sleep 600")
    with pytest.raises(Unavailable, match=r"squeue did not answer within 0.2 s"):
        commands(tmp_path, 0.2).run("squeue", [])


def test_a_controller_that_is_down_is_something_to_wait_for(tmp_path: Path) -> None:
    text = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    program(tmp_path, "squeue", f"echo '{text}' >&2; exit 1")
    with pytest.raises(Unavailable, match="scontrol ping"):
        commands(tmp_path).run("squeue", [])


def test_a_column_that_a_version_lacks_is_named(tmp_path: Path) -> None:
    program(tmp_path, "squeue", "echo 'Invalid job format specification: NumTasks' >&2; exit 1")
    with pytest.raises(FlyballError, match=r"does not have a column we read: .*NumTasks"):
        commands(tmp_path).run("squeue", [])


def test_a_users_own_formats_do_not_reach_the_commands() -> None:
    given = {"SQUEUE_FORMAT2": "x", "SLURM_CLUSTERS": "other", "SLURM_CONF": "/c", "HOME": "/h"}
    cleaned = clean_environment({**given, "SLURM_TIME_FORMAT": "relative"})
    assert cleaned == {
        "SLURM_CONF": "/c", "HOME": "/h", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s",
    }  # fmt: skip


def test_a_site_is_read_and_its_places_are_asked_for_once(site_folder: Path) -> None:
    site = Site(commands(site_folder))
    reading = site.read()
    assert len(reading.jobs) == 14 and len(reading.nodes) == 4
    assert {share.node for share in reading.shares[3]} == {"n1", "n4"}
    (site_folder / "scontrol").unlink()  # nothing more is asked for within a minute
    assert site.read().shares == reading.shares


def test_a_site_without_accounts_says_so(site_folder: Path) -> None:
    program(site_folder, "sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    with pytest.raises(DataAbsent, match=r"no history of run times .*disabled"):
        Site(commands(site_folder)).ended()


def test_a_blocked_command_blocks_nobody_else(site_folder: Path) -> None:
    site = Site(commands(site_folder))
    poller = Poller(site, every_s=0.01)
    poller.start()
    try:
        seen, reading, error = poller.latest(0, wait_s=400.0)
        assert reading is not None and error == ""
        gate = site_folder / "gate"
        program(
            site_folder,
            "squeue",
            f"touch '{gate}.blocked'; while [ ! -e '{gate}' ]; do sleep 0.05; done; exit 1",
        )
        until((site_folder / "gate.blocked").exists)
        began = time.monotonic()
        _seen, during, _error = poller.latest()
        assert during is not None and time.monotonic() - began < 60.0
        seen = _seen
        gate.touch()
        _seen, after, error = poller.latest(seen, wait_s=400.0)
        assert after is not None and "squeue failed" in error
    finally:
        (site_folder / "gate").touch()
        poller.stop()
        poller.join()


def test_polls_rest_longer_when_slurm_is_slow_or_down() -> None:
    assert pause_s(10.0, 0.05, 0) == 10.0
    assert pause_s(10.0, 2.0, 0) == 40.0
    assert pause_s(10.0, 0.05, 1) == 20.0
    assert pause_s(10.0, 0.05, 3) == 80.0
    assert pause_s(10.0, 0.05, 50) == MAX_PAUSE_S
    assert pause_s(900.0, 0.05, 5) == 900.0
