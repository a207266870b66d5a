"""What importing costs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["flyball", "flyball.cli.main"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = ("torch", "numba", "numpy", "matplotlib", "scipy", "yaml", "rich")
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
