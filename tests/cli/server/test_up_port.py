"""`flyball up` returns to the port it had, and says so if that is taken."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cli.server.test_up import Up, starts

from flyball.cli.server.up_port import read_port

__all__ = ["starts"]


def port_of(up: Up) -> int:
    """Return the port of the endpoint file."""
    url = str(json.loads((up.state / "endpoint.json").read_text())["url"])
    port = urlsplit(url).port
    assert port is not None
    return port


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_port_is_used_again(starts: Callable[..., Up]) -> None:
    first = starts("--no-foresight")
    port = port_of(first)
    assert first.interrupt()[0] == 0
    second = starts("--no-foresight")
    assert port_of(second) == port
    second.kill()  # also after an end without any order
    assert port_of(starts("--no-foresight")) == port


def test_taken_port_is_replaced_with_a_line_that_says_so(starts: Callable[..., Up]) -> None:
    first = starts("--no-foresight")
    port = port_of(first)
    first.interrupt()
    with socket.create_server(("127.0.0.1", port)):
        second = starts("--no-foresight")
        other = port_of(second)
        assert other != port
        _code, said = second.interrupt()
    assert f"port {port} of the last start is taken; {other} is used from now on" in said
    third = starts("--no-foresight")
    assert port_of(third) == other
    assert "is taken" not in third.interrupt()[1]


def test_requested_port_wins_and_is_kept(starts: Callable[..., Up]) -> None:
    first = starts("--no-foresight")
    requested = free_port()
    assert requested != port_of(first)
    first.interrupt()
    second = starts("--no-foresight", "--port", str(requested))
    assert port_of(second) == requested
    second.interrupt()
    third = starts("--no-foresight")
    assert port_of(third) == requested
    third.interrupt()


def test_requested_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        command = [sys.executable, "-m", "flyball", "up", "--state", str(state), "--no-agent"]
        done = subprocess.run([*command, "--port", str(port)], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr.splitlines()[-1]
    assert "--port 0" in done.stderr
    assert read_port(state) == 0


@pytest.mark.parametrize("text", ["", "many", "-1", "65536", "9" * 50, "80 80", "\xff", "٣"])
def test_useless_port_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "port").write_text(text, encoding="utf-8")
    assert read_port(tmp_path) == 0
    (tmp_path / "port").write_text("8700\n")
    assert read_port(tmp_path) == 8700
