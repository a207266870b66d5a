"""`flyball service` with a fake systemctl that records its calls."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.until import WAIT_S

from flyball.api.state_folder import locked, open_state
from flyball.cli.main import run
from flyball.cli.server.service_unit import unit_text

FLYBALL = (sys.executable, "-m", "flyball")
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "{calls}"
case " {failing} " in *" $2 "*) echo "Unit is masked." >&2; exit 1;; esac
"""


@dataclass
class Machine:
    """Holds a home folder, and a PATH with only what a test puts there."""

    folder: Path

    @property
    def unit(self) -> Path:
        return self.folder / "home/.config/systemd/user/flyball.service"

    @property
    def state(self) -> Path:
        return self.folder / "home/.local/state/flyball"

    def has_systemd(self, failing: str = "") -> None:
        program = self.folder / "bin/systemctl"
        program.write_text(SYSTEMCTL.format(calls=self.folder / "calls", failing=failing))
        program.chmod(0o755)

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def service(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"HOME": str(self.folder / "home"), "PATH": str(self.folder / "bin")}
        command = [*FLYBALL, "service", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("home", "bin"):
        (tmp_path / name).mkdir(mode=0o700)
    return Machine(tmp_path)


def command_of(unit: str) -> str:
    lines = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert len(lines) == 1
    return lines[0].removeprefix("ExecStart=")


def test_install_and_uninstall(machine: Machine) -> None:
    machine.has_systemd()
    done = machine.service("install", "--", "--policy", "srtf", "--port", "8700")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == [
        "--user show-environment",
        "--user daemon-reload",
        "--user enable --now flyball.service",
    ]
    text = machine.unit.read_text()
    assert shlex.split(command_of(text)) == [
        *(sys.executable, "-m", "flyball", "up", "--state", str(machine.state)),
        *("--policy", "srtf", "--port", "8700"),
    ]
    lines = text.splitlines()
    assert {"Restart=on-failure", "KillMode=process", "WantedBy=default.target"} <= set(lines)
    assert str(machine.unit) in done.stdout
    assert machine.state.stat().st_mode & 0o077 == 0

    # Installing again changes the unit, and says what is left to do.
    again = machine.service("install")
    assert again.returncode == 0, again.stderr
    assert "--policy" not in machine.unit.read_text()
    assert "systemctl --user restart flyball.service" in again.stdout

    (machine.folder / "calls").unlink()
    done = machine.service("uninstall")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == [
        "--user show-environment",
        "--user disable --now flyball.service",
        "--user daemon-reload",
    ]
    assert not machine.unit.exists()
    assert list(machine.unit.parent.iterdir()) == []
    done = machine.service("uninstall", "--json")
    assert json.loads(done.stdout) == {"unit": str(machine.unit), "removed": False}


@pytest.mark.parametrize("installed", [False, True], ids=["no systemctl", "no user manager"])
def test_without_systemd_the_unit_is_printed(machine: Machine, installed: bool) -> None:
    if installed:
        machine.has_systemd(failing="show-environment")
    done = machine.service("install")
    assert done.returncode == 0
    assert shlex.split(command_of(done.stdout))[-1] == str(machine.state)
    assert done.stdout.startswith("[Unit]\n")
    assert "systemctl --user enable --now flyball.service" in done.stderr
    assert str(machine.unit) in done.stderr
    assert not machine.unit.exists()
    answer = json.loads(machine.service("install", "--json").stdout)
    assert (answer["installed"], answer["text"]) == (False, done.stdout)


def test_print_changes_nothing(machine: Machine) -> None:
    machine.has_systemd()
    done = machine.service("install", "--print", "--state", "queue")
    assert done.returncode == 0
    assert shlex.split(command_of(done.stdout))[-1] == str(Path.cwd() / "queue")
    assert (machine.calls(), done.stderr) == ([], "")
    assert not machine.unit.exists()


def test_failure_of_systemd_is_told(machine: Machine) -> None:
    machine.has_systemd(failing="enable")
    done = machine.service("install")
    assert (done.returncode, done.stdout) == (75, "")
    assert "enable --now flyball.service failed: Unit is masked." in done.stderr
    assert done.stderr.count("\n") == 1


def test_folder_in_use_is_refused(machine: Machine) -> None:
    machine.has_systemd()
    with locked(open_state(machine.state)):
        done = machine.service("install")
    assert (done.returncode, done.stdout) == (75, "")
    assert "flyball down" in done.stderr
    assert not machine.unit.exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--prot", "8700"], "--prot"),
        (["--port", "many"], "--port"),
        (["-d"], "--detach"),
        (["--state", "/tmp/elsewhere"], "--state"),
        (["--tls-cert", "cert.pem"], "give the whole path: /"),
        (["--policy", "a\nExecStartPre=/bin/sh"], "cannot be written into a unit"),
    ],
)
def test_bad_options_of_up(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    why: str,
) -> None:
    machine.has_systemd()
    monkeypatch.chdir(machine.folder)
    (machine.folder / "cert.pem").touch()
    monkeypatch.setenv("HOME", str(machine.folder / "home"))
    monkeypatch.setenv("PATH", str(machine.folder / "bin"))
    assert run(["service", "install", "--", *options]) == 2
    assert why in capsys.readouterr().err
    assert machine.calls() == []


def test_words_are_quoted_as_systemd_reads_them() -> None:
    text = unit_text(Path('/a folder/50%/$HOME/"q"'), [])
    assert command_of(text).endswith('--state "/a folder/50%%/$$HOME/\\"q\\""')
    assert "Description=Flyball control plane of /a folder/50%%/$HOME" in text
