"""The spawner: forks a supervisor for each line it reads, and ends with the control plane.

A line is `JOB.ATTEMPT {request as JSON}`. What comes back is only `JOB.ATTEMPT why` of attempts
that could not be claimed. Everything a supervisor needs is loaded here once, so that a supervisor
is two forks and shares nearly all its memory with the spawner. Standard library only.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal

from . import cgroup, proc, program, supervisor

TURN = "spawner.turn"


def main(arguments: list[str]) -> None:
    """Serve until the other end is closed: `FOLDER LINE PRESENCE`, the last two descriptors."""
    folder = os.open(arguments[0], os.O_RDONLY | os.O_DIRECTORY)
    line, presence = int(arguments[1]), int(arguments[2])
    for each in (line, presence):
        os.set_inheritable(each, False)
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    program.prctl(program.PR_SET_NAME, b"flyball-spawner")
    # One spawner at a time, counting supervisors that have not claimed yet (they share the
    # lock): else a launch sent again to this one could end before the last one's supervisor
    # asks for the same token, and run twice.
    turn = os.open(TURN, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=folder)
    fcntl.flock(turn, fcntl.LOCK_EX)
    Spawner(folder, line, (turn, presence)).serve()


class Spawner:
    """Reads requests, forks supervisors.

    The locks say that something may still be claimed: they are held until nothing will.
    """

    def __init__(self, folder: int, line: int, locks: tuple[int, ...]) -> None:
        self.folder = folder
        self.line = line
        self.locks = locks
        self.boot = proc.boot_id()
        self.place = cgroup.find_place()

    def serve(self) -> None:
        """Until the end of what comes."""
        gc.disable()
        gc.freeze()  # what is never collected is never written to, and stays shared
        rest = b""
        while data := os.read(self.line, 65536):
            *lines, rest = (rest + data).split(b"\n")
            for each in lines:
                name, _space, text = each.partition(b" ")
                self.fork(name, text)

    def fork(self, name: bytes, text: bytes) -> None:
        """Twice, so that the supervisor is nobody's child and nobody need wait for it."""
        try:
            between = os.fork()
            if between == 0:
                self._between(name, text)
            failed = os.waitpid(between, 0)[1]
        except OSError as error:
            self.refuse(name, error.strerror or str(error))
            return
        if failed:
            self.refuse(name, "cannot fork a supervisor")

    def _between(self, name: bytes, text: bytes) -> None:
        """In the first fork. Never returns."""
        status = 1
        try:
            if os.fork() == 0:
                self._supervise(name, text)
            status = 0
        finally:
            os._exit(status)

    def _supervise(self, name: bytes, text: bytes) -> None:
        """In the second fork. Never returns."""
        status = 1
        try:
            os.setsid()
            supervisor.supervise(
                json.loads(text),
                self.folder,
                self.boot,
                self.place,
                self._let_go,
                lambda why: self.refuse(name, why),
            )
            status = 0
        except BaseException:
            import traceback  # only if there is a bug to tell of

            traceback.print_exc()
        finally:
            os._exit(status)

    def _let_go(self) -> None:
        for each in (*self.locks, self.line):
            os.close(each)

    def refuse(self, name: bytes, why: str) -> None:
        """Best effort: who hears nothing finds out by waiting."""
        try:
            os.write(self.line, name + b" " + why.encode() + b"\n")
        except OSError:
            return
