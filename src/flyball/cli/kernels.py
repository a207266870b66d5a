"""`flyball compile`: make the compiled kernels now, so that nothing has to wait for them later."""

from __future__ import annotations

import subprocess
import sys
import time

from flyball.cli.output import note

EXAMPLES = """\b
Examples:
  flyball compile
"""

PARTS = (
    "from flyball.app import warm; warm()",
    "from flyball.twin.live import warm; warm()",
)
"""What replays need, and what live decisions need: a process each."""


def compile_kernels() -> None:
    """Compile the kernels ahead of their first use; about a minute on two cores, once."""
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", part]) for part in PARTS]
    codes = [each.wait() for each in running]
    assert not any(codes), "a kernel does not compile"
    note(f"compiled in {time.monotonic() - began:.0f} s")
