"""The greeting of `flyball up`: correct sizes, commands to copy, no secret in files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from flyball.cli.server.up import _tuner_names
from flyball.cli.server.up_greeting import greeting, path_line
from flyball.core.live import LiveNode

URL = "http://127.0.0.1:8700"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([LiveNode("a", "CPU1", 64, 128, 8192)], "1 node, 128 cores; policy easy"),
        ([LiveNode("a", "V100", 8, 64, 8192)], "1 node, 8 GPUs, 64 cores; policy easy"),
        ([LiveNode("a", "CPU1", 1, 1, 8192)] * 2, "2 nodes, 2 cores; policy easy"),
    ],
)
def test_how_large_it_is(tmp_path: Path, nodes: list[LiveNode], said: str) -> None:
    assert f"  {said}" in greeting(URL, tmp_path, None, "easy", nodes, "")


def test_the_line_for_curl_can_be_copied(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "token").write_text("secret")
    lines = list(greeting(URL, folder, folder, "easy", [], ""))
    line = next(text for text in lines if "curl -H" in text)
    script = f'curl() {{ printf "%s|" "$@"; }}; {line}'
    out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == f"-H|Authorization: Bearer secret|{URL}/api/v1/queue|"
    assert "secret" not in "".join(lines)
    assert f"  export FLYBALL_STATE='{folder}'" in lines
    assert "  token secret" in greeting(URL, folder, None, "easy", [], "secret")
    assert "--cacert /c.pem " in "".join(greeting(URL, folder, None, "", [], "", Path("/c.pem")))


def test_flyball_means_this_program(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    (tmp_path / "bin").mkdir()
    assert path_line(None, python) == f"alias flyball='{python} -m flyball'"
    own = tmp_path / "bin" / "flyball"
    own.write_text("#!/bin/sh\necho this one\n")
    own.chmod(0o755)
    assert path_line(str(own), python) == ""
    line = path_line(None, python)
    environment = {"PATH": os.defpath}
    done = subprocess.run(
        ["sh", "-c", f"{line}; flyball"], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "this one\n"
    other = tmp_path / "flyball"
    other.write_text("")
    assert path_line(str(other), python) == line


def test_no_tuner() -> None:
    assert _tuner_names("none") == _tuner_names("") == []
    assert _tuner_names("elastic, power") == ["elastic", "power"]
