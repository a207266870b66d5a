"""From a supervisor to the user's program: one fork and one exec. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import warnings  # noqa: F401  `os.execvpe` imports it; better once here than in every child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .cgroup import Group

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
OOM_SCORE = "300"
"""Makes the kernel kill a job before the supervisor or the control plane when memory runs out."""
NOT_STARTED = 127
GO = b"."

ALL = signal.valid_signals()
USED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGWINCH}
"""Signals that a supervisor has handlers for."""
IGNORED = {number for number in ALL if signal.getsignal(number) == signal.SIG_IGN}
"""Signals that Python or our parent ignores: a new program would inherit that."""
RESET = frozenset({*USED, *IGNORED, signal.SIGINT, signal.SIGHUP})
"""Signals to reset in a new program, including those that spawner and supervisor ignore."""

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(what: int, value: int | bytes) -> None:
    """Call prctl(2), best effort: jobs also run on an old kernel that lacks an option."""
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    _libc.prctl(what, argument, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


class Program:
    """A forked program that is ready and waits before its exec until `run` is called.

    Every signal is blocked until the exec: otherwise the supervisor's handlers would handle it in
    the wrong process.
    """

    def __init__(
        self,
        request: dict[str, Any],
        outputs: tuple[int, int],
        group: Group | None,
        let_go: Callable[[], None],
    ) -> None:
        """
        Args:
            outputs: descriptors for its stdout and stderr.
            let_go: closes, in the child, descriptors that only the supervisor needs: a working
                folder that hangs must not hold up other launches.

        Raises:
            OSError: the fork failed.
        """
        self._hear, tell = os.pipe()
        gate, self._gate = os.pipe()
        supervisor = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
        try:
            self.pid = os.fork()
        except OSError:  # too many processes, which is not this job's fault
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for descriptor in (self._hear, tell, gate, self._gate):
                os.close(descriptor)
            raise
        if self.pid == 0:
            let_go()
            os.close(self._gate)  # otherwise it would never see the end of the pipe
            _become(request, outputs, group, supervisor, tell, gate)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(tell)
        os.close(gate)

    def run(self) -> str:
        """Start the program; returns what went wrong ("" = it runs)."""
        with contextlib.suppress(BrokenPipeError):  # it failed before; the reason is read below
            os.write(self._gate, GO)
        os.close(self._gate)
        problem = os.read(self._hear, 4096)  # empty: exec has closed the pipe
        os.close(self._hear)
        return problem.decode(errors="replace")

    def drop(self) -> None:
        """End the child without running the program: it exits when its gate is closed."""
        os.close(self._gate)
        os.close(self._hear)
        os.waitpid(self.pid, 0)


def _become(
    request: dict[str, Any],
    outputs: tuple[int, int],
    group: Group | None,
    supervisor: int,
    tell: int,
    gate: int,
) -> NoReturn:
    """Set up the child, wait at the gate, then exec the program. Never returns."""
    doing = "prepare"
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before the death signal was set
            os._exit(NOT_STARTED)
        if group is not None:
            group.join()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(OOM_SCORE)
        if request["cores"]:
            os.sched_setaffinity(0, request["cores"])
        os.nice(request["nice"])
        doing = f"folder {request['cwd']}"
        os.chdir(request["cwd"])
        for stream, output in enumerate(outputs, start=1):
            os.dup2(output, stream)
        doing = str(request["argv"][0])
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        if os.read(gate, 1) != GO:
            os._exit(NOT_STARTED)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        os.write(tell, f"could not start: {doing}: {why[:1].lower()}{why[1:]}".encode()[:4096])
    finally:
        os._exit(NOT_STARTED)
