"""`flyball compile`: compile the kernels now, so that later commands need not wait for it."""

from __future__ import annotations

import subprocess
import sys
import time

from flyball.cli.output import note
from flyball.core.errors import FlyballError

EXAMPLES = """\b
Examples:
  flyball compile
"""

PARTS = (
    "from flyball.app import warm; warm();"
    " from flyball.experiments.explain import warm_explain; warm_explain()",
    "from flyball.live import warm_live; warm_live()",
)
"""Programs that compile what replays and `explain` need, and what a live system needs.

Each runs in its own process, which returns its memory when it ends.
"""


class CannotCompile(FlyballError):
    """A kernel does not compile on this machine."""


def compile_kernels() -> None:
    """Compile the kernels before their first use; about a minute on two cores, once."""
    ensure_compiled(again=True)


def ensure_compiled(again: bool = False) -> None:
    """Compile every kernel that is not in the cache, in separate processes.

    Args:
        again: check every kernel, even if all were compiled before.

    Raises:
        CannotCompile: a kernel failed to compile.
    """
    from flyball.physics.compile import compiled_mark

    mark = compiled_mark()
    if mark.exists() and not again:
        return
    if not mark.exists():
        note("compiling the kernels (first run only, about a minute)")
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", part]) for part in PARTS]
    codes = [process.wait() for process in running]
    if any(codes):
        raise CannotCompile("the kernels do not compile", "see the messages above")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    if again:
        note(f"all compiled ({time.monotonic() - began:.0f} s)")
