"""Executes the command of a notification in place of itself: `PARENT PROGRAM [ARGUMENT...]`.

It is killed when the control plane dies, so that the next one, which runs the command again, does
not run it twice at a time. Standard library only: a new interpreter runs this file by its path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_STARTED = 127


def main(parent: int, argv: list[str]) -> None:
    """Execute the command. Never returns."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:  # otherwise the parent died before prctl took effect
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(argv[0], argv)  # noqa: S606
    finally:
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
