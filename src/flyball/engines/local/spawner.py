"""The spawner: gives each launch to a supervisor, and ends with the control plane.

A line is `JOB.ATTEMPT {request as JSON}`, a launch; or `JOB.ATTEMPT` alone: its end is on record,
so its supervisor may be given another. The only replies are lines `JOB.ATTEMPT why` about attempts
that could not be claimed. All modules of a supervisor are loaded here once, so that starting one
takes two forks and it shares nearly all its memory with the spawner. A free supervisor is kept for
a moment: for very short jobs the forks and the pages they copy would be most of the cost. No
signals are sent for an attempt whose end is on record, so none can reach the next one by mistake.
Standard library only.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import json
import os
import select
import signal
import socket
import time

from . import cgroup, proc, program, signals, supervisor

TURN = "spawner.turn"
REST_S = 2.0
"""How long a free supervisor is kept."""
MOST_FREE = 16
MOST_USES = 100
"""Maximum number of attempts of one supervisor, which bounds its memory leaks."""
MOST_BYTES = 65536
"""Maximum size of a launch passed to a free supervisor; a longer one gets a fork."""
HELD = 3
"""Number of descriptors passed with a launch: the engine's socket and the two locks."""


def main(arguments: list[str]) -> None:
    """Serve until the engine closes the socket.

    Args:
        arguments: `FOLDER LINE PRESENCE`; the last two are descriptors.
    """
    folder = os.open(arguments[0], os.O_RDONLY | os.O_DIRECTORY)
    line, presence = int(arguments[1]), int(arguments[2])
    for descriptor in (line, presence):
        os.set_inheritable(descriptor, False)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    program.prctl(program.PR_SET_NAME, b"flyball-spawner")
    # One spawner at a time, including supervisors that have not claimed yet (they share the
    # lock): otherwise a launch resent to this one could end before the previous spawner's
    # supervisor claims the same token, and run twice.
    turn = os.open(TURN, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=folder)
    fcntl.flock(turn, fcntl.LOCK_EX)
    Spawner(folder, line, (turn, presence)).serve()


class SupervisorLink:
    """The spawner's connection to a supervisor.

    Attributes:
        socket: closed by the supervisor when it ends.
        uses: number of launches it was given.
        free_s: since when it is free.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.uses = 1
        self.free_s = 0.0

    def give(self, launch: bytes, descriptors: list[int]) -> bool:
        """Send it a launch; False if it is gone.

        Descriptors in flight in a socket count as open: the locks are held until it is claimed.
        """
        try:
            socket.send_fds(self.socket, [launch], descriptors)
        except OSError:
            return False
        self.uses += 1
        return True


class Spawner:
    """Reads launches and forks supervisors for them, or passes them to free ones.

    The locks tell others that an attempt may still be claimed: they are held until none can be.
    """

    def __init__(self, folder: int, line: int, locks: tuple[int, ...]) -> None:
        self.folder = folder
        self.line = line
        self.held = [line, *locks]
        self.boot = proc.boot_id()
        self.place = cgroup.find_place()
        self.poll = select.poll()
        self.links: dict[int, SupervisorLink] = {}
        self.busy: dict[bytes, SupervisorLink] = {}
        self.free: list[SupervisorLink] = []

    def serve(self) -> None:
        """Serve until the engine closes the socket."""
        gc.disable()
        gc.freeze()  # objects that are never collected are never written to, and stay shared
        self.poll.register(self.line, select.POLLIN)
        rest = b""
        while True:
            ready = [descriptor for descriptor, _events in self.poll.poll(self._wait_ms())]
            for descriptor in ready:
                if descriptor in self.links:  # it has ended; handled before lines that follow it
                    self._drop(self.links[descriptor])
            if self.line in ready:
                data = os.read(self.line, 65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._obey(line)
            self._dismiss()

    def _obey(self, line: bytes) -> None:
        name, _space, text = line.partition(b" ")
        if not text:
            self._set_free(name)
        elif not self._give(name, line):
            self.fork(name, text)

    # Free supervisors ---------------------------------------------------------------

    def _set_free(self, name: bytes) -> None:
        link = self.busy.pop(name, None)
        if link is None:
            return
        if link.uses >= MOST_USES or len(self.free) >= MOST_FREE:
            self._drop(link)
            return
        link.free_s = time.monotonic()
        self.free.append(link)

    def _give(self, name: bytes, launch: bytes) -> bool:
        while self.free and len(launch) <= MOST_BYTES:
            link = self.free.pop()
            if link.give(launch, self.held):
                self.busy[name] = link
                return True
            self._drop(link)
        return False

    def _wait_ms(self) -> int | None:
        if not self.free:
            return None
        return max(0, int((self.free[0].free_s + REST_S - time.monotonic()) * 1000)) + 1

    def _dismiss(self) -> None:
        """Dismiss supervisors that have been free for `REST_S`: closing the socket ends them."""
        while self.free and self.free[0].free_s + REST_S <= time.monotonic():
            self._drop(self.free[0])

    def _drop(self, link: SupervisorLink) -> None:
        self.poll.unregister(link.socket)
        del self.links[link.socket.fileno()]
        self.free = [other for other in self.free if other is not link]
        self.busy = {name: other for name, other in self.busy.items() if other is not link}
        link.socket.close()

    # New supervisors ----------------------------------------------------------------

    def fork(self, name: bytes, text: bytes) -> None:
        """Start a new supervisor for a launch."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            self.refuse(name, error.strerror or str(error))
            return
        problem = self._fork_twice(name, text, ours, theirs)
        theirs.close()
        if problem:
            ours.close()
            self.refuse(name, problem)
            return
        ours.setblocking(False)
        self.poll.register(ours, 0)
        self.links[ours.fileno()] = self.busy[name] = SupervisorLink(ours)

    def _fork_twice(
        self, name: bytes, text: bytes, ours: socket.socket, theirs: socket.socket
    ) -> str:
        """Fork twice, so that the supervisor is not our child and need not be reaped.

        Returns:
            What went wrong, "" if nothing did.
        """
        try:
            between = os.fork()
            if between == 0:
                ours.close()
                self._between(name, text, theirs)
            return "cannot fork a supervisor" if os.waitpid(between, 0)[1] else ""
        except OSError as error:
            return error.strerror or str(error)

    def _between(self, name: bytes, text: bytes, link: socket.socket) -> None:
        """Fork the supervisor, from the first fork. Never returns."""
        status = 1
        try:
            if os.fork() == 0:
                self._supervise(name, text, link)
            status = 0
        finally:
            os._exit(status)

    def _supervise(self, name: bytes, text: bytes, link: socket.socket) -> None:
        """Supervise one attempt after the other, in the second fork. Never returns."""
        status = 1
        try:
            os.setsid()
            for other in self.links.values():
                other.socket.close()
            wake = signals.hear()
            while self._attempt(name, text, wake):
                program.prctl(program.PR_SET_NAME, b"fly")
                data, self.held, _flags, _address = socket.recv_fds(
                    link, MOST_BYTES, HELD, socket.MSG_CMSG_CLOEXEC
                )
                if not data:
                    break
                self.line = self.held[0]
                name, _space, text = data.partition(b" ")
            status = 0
        except BaseException:
            import traceback  # only needed to report a bug

            traceback.print_exc()
        finally:
            os._exit(status)

    def _attempt(self, name: bytes, text: bytes, wake: int) -> bool:
        """Supervise one attempt; return whether there may be another."""
        again = supervisor.supervise(
            json.loads(text),
            self.folder,
            self.boot,
            self.place,
            wake,
            self._let_go,
            functools.partial(self.refuse, name),
        )
        self._let_go()
        return again

    def _let_go(self) -> None:
        while self.held:
            os.close(self.held.pop())

    def refuse(self, name: bytes, why: str) -> None:
        """Report that an attempt was not claimed, best effort: otherwise it times out."""
        try:
            os.write(self.line, name + b" " + why.encode() + b"\n")
        except OSError:
            return
