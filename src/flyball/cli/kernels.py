"""`flyball compile`: make the compiled kernels now, so that nothing has to wait for them later."""

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
    "from flyball.app import warm; warm()",
    "from flyball.app import warm_live; warm_live()",
)
"""What replays need, and what a live system needs: a process each, and its memory goes with it."""


class CannotCompile(FlyballError):
    """A kernel does not compile here."""


def compile_kernels() -> None:
    """Compile the kernels ahead of their first use; about a minute on two cores, once."""
    ensure_compiled(again=True)


def ensure_compiled(again: bool = False) -> None:
    """Compile all that is not in the cache, in processes of their own.

    Args:
        again: look at everything, even if it was all compiled before.

    Raises:
        CannotCompile: it did not work.
    """
    from flyball.physics.compile import compiled_mark

    mark = compiled_mark()
    if mark.exists() and not again:
        return
    if not mark.exists():
        note("compiling the kernels (first run only, about a minute)")
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", part]) for part in PARTS]
    codes = [each.wait() for each in running]
    if any(codes):
        raise CannotCompile("the kernels do not compile", "see the messages above")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    if again:
        note(f"all compiled ({time.monotonic() - began:.0f} s)")
