"""The spawner: finds a supervisor for each launch it reads, and ends with the control plane.

A line is `JOB.ATTEMPT {request as JSON}`, a launch; or `JOB.ATTEMPT` alone: its end is on record,
and whoever supervised it may have another. What comes back is only `JOB.ATTEMPT why` of attempts
that could not be claimed. Everything a supervisor needs is loaded here once, so that a supervisor
is two forks and shares nearly all its memory with the spawner. One that is free is kept for a
moment: of a very short job the forks and the pages they copy would be the larger part. Nobody
sends a signal on account of an attempt whose end is on record, so none can reach the next one.
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
"""Attempts of one supervisor: what it may lose of its memory with each is bounded."""
MOST_BYTES = 65536
"""Of a launch that is passed to a free supervisor; a longer one gets a fork."""
HELD = 3
"""Descriptors that come with it: the line and the two locks."""


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


class Hand:
    """A supervisor, as the spawner knows it.

    Attributes:
        socket: to it; closed by the other side when it ends.
        uses: launches it was given.
        free_s: since when it has nothing to do.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.uses = 1
        self.free_s = 0.0

    def give(self, launch: bytes, descriptors: list[int]) -> bool:
        """Pass a launch on; False if it is gone.

        What is on its way in a socket counts as open: the locks are held until it is claimed.
        """
        try:
            socket.send_fds(self.socket, [launch], descriptors)
        except OSError:
            return False
        self.uses += 1
        return True


class Spawner:
    """Reads requests, forks supervisors or passes requests to those that are free.

    The locks say that something may still be claimed: they are held until nothing will.
    """

    def __init__(self, folder: int, line: int, locks: tuple[int, ...]) -> None:
        self.folder = folder
        self.line = line
        self.held = [line, *locks]
        self.boot = proc.boot_id()
        self.place = cgroup.find_place()
        self.poll = select.poll()
        self.hands: dict[int, Hand] = {}
        self.busy: dict[bytes, Hand] = {}
        self.free: list[Hand] = []

    def serve(self) -> None:
        """Until the end of what comes."""
        gc.disable()
        gc.freeze()  # what is never collected is never written to, and stays shared
        self.poll.register(self.line, select.POLLIN)
        rest = b""
        while True:
            ready = [each for each, _events in self.poll.poll(self._wait_ms())]
            for each in ready:
                if each in self.hands:  # it has ended; this is known before what its end led to
                    self._drop(self.hands[each])
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
        hand = self.busy.pop(name, None)
        if hand is None:
            return
        if hand.uses >= MOST_USES or len(self.free) >= MOST_FREE:
            self._drop(hand)
            return
        hand.free_s = time.monotonic()
        self.free.append(hand)

    def _give(self, name: bytes, launch: bytes) -> bool:
        while self.free and len(launch) <= MOST_BYTES:
            hand = self.free.pop()
            if hand.give(launch, self.held):
                self.busy[name] = hand
                return True
            self._drop(hand)
        return False

    def _wait_ms(self) -> int | None:
        if not self.free:
            return None
        return max(0, int((self.free[0].free_s + REST_S - time.monotonic()) * 1000)) + 1

    def _dismiss(self) -> None:
        """Let those go who have been free for long: they end as their socket is closed."""
        while self.free and self.free[0].free_s + REST_S <= time.monotonic():
            self._drop(self.free[0])

    def _drop(self, hand: Hand) -> None:
        self.poll.unregister(hand.socket)
        del self.hands[hand.socket.fileno()]
        self.free = [each for each in self.free if each is not hand]
        self.busy = {name: each for name, each in self.busy.items() if each is not hand}
        hand.socket.close()

    # New ones -----------------------------------------------------------------------

    def fork(self, name: bytes, text: bytes) -> None:
        """A new supervisor for a launch."""
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
        self.hands[ours.fileno()] = self.busy[name] = Hand(ours)

    def _fork_twice(
        self, name: bytes, text: bytes, ours: socket.socket, theirs: socket.socket
    ) -> str:
        """So that the supervisor is nobody's child and nobody need wait for it.

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

    def _between(self, name: bytes, text: bytes, hand: socket.socket) -> None:
        """In the first fork. Never returns."""
        status = 1
        try:
            if os.fork() == 0:
                self._supervise(name, text, hand)
            status = 0
        finally:
            os._exit(status)

    def _supervise(self, name: bytes, text: bytes, hand: socket.socket) -> None:
        """In the second fork: one attempt after the other. Never returns."""
        status = 1
        try:
            os.setsid()
            for each in self.hands.values():
                each.socket.close()
            wake = signals.hear()
            while self._attempt(name, text, wake):
                program.prctl(program.PR_SET_NAME, b"fly")
                data, self.held, _flags, _address = socket.recv_fds(
                    hand, MOST_BYTES, HELD, socket.MSG_CMSG_CLOEXEC
                )
                if not data:
                    break
                self.line = self.held[0]
                name, _space, text = data.partition(b" ")
            status = 0
        except BaseException:
            import traceback  # only if there is a bug to tell of

            traceback.print_exc()
        finally:
            os._exit(status)

    def _attempt(self, name: bytes, text: bytes, wake: int) -> bool:
        """The whole life of one; whether there may be another."""
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
        """Best effort: who hears nothing finds out by waiting."""
        try:
            os.write(self.line, name + b" " + why.encode() + b"\n")
        except OSError:
            return
