"""From a supervisor to the user's program: one fork and one exec. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import warnings  # noqa: F401  `os.execvpe` wants it; better loaded once than by every child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .cgroup import Group

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
OOM_SCORE = "300"
"""A machine out of memory takes a job before the supervisor or the control plane."""
NOT_STARTED = 127
GO = b"."

ALL = signal.valid_signals()
USED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGWINCH}
"""Signals that a supervisor has handlers for."""
IGNORED = {each for each in ALL if signal.getsignal(each) == signal.SIG_IGN}
"""What is ignored stays so in a new program: by Python, by whoever started us, and ..."""
RESET = frozenset({*USED, *IGNORED, signal.SIGINT, signal.SIGHUP})
"""... by spawner and supervisor."""

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(what: int, value: int | bytes) -> None:
    """Best effort: an old kernel without it is no reason not to run jobs."""
    given = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    _libc.prctl(what, given, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


class Program:
    """A program that is forked and ready, and waits to be let go: everything but the exec.

    Every signal is blocked meanwhile: one that came between fork and exec would be handled by
    the supervisor's handlers in the wrong process.
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
            outputs: what it prints to stdout and to stderr goes here.
            let_go: closes, in the fork, what is the supervisor's alone: a folder that hangs must
                not hold up other launches.

        Raises:
            OSError: no process can be made now.
        """
        self._hear, tell = os.pipe()
        gate, self._gate = os.pipe()
        supervisor = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
        try:
            self.pid = os.fork()
        except OSError:  # too many processes: not of this job's making
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for each in (self._hear, tell, gate, self._gate):
                os.close(each)
            raise
        if self.pid == 0:
            let_go()
            os.close(self._gate)  # else it would wait for itself
            _become(request, outputs, group, supervisor, tell, gate)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(tell)
        os.close(gate)

    def run(self) -> str:
        """Let it go; returns what went wrong ("" = it runs)."""
        with contextlib.suppress(BrokenPipeError):  # it has not come this far, and says why
            os.write(self._gate, GO)
        os.close(self._gate)
        problem = os.read(self._hear, 4096)  # its end: exec has closed the pipe
        os.close(self._hear)
        return problem.decode(errors="replace")

    def drop(self) -> None:
        """It is not to run: it ends as its gate is closed."""
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
    """In the child: everything the job is to have, a wait at the gate, then the program."""
    doing = "prepare"
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before we asked to die with it
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
        for each in RESET:
            signal.signal(each, signal.SIG_DFL)
        if os.read(gate, 1) != GO:
            os._exit(NOT_STARTED)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        os.write(tell, f"could not start: {doing}: {why[:1].lower()}{why[1:]}".encode()[:4096])
    finally:
        os._exit(NOT_STARTED)
