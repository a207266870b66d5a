"""The engine on a Slurm site: our queue in front; Slurm starts what we decided, where we decided.

All calls return at once. One thread runs Slurm's commands, which may hang for as long as slurmctld
is down, another reads the shared folder. Truth is in the shared folder (`own_attempts.py`); a new
engine on the same folder continues where the last one stopped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flyball.core.errors import BadInput
from flyball.core.live import (
    Action,
    Capabilities,
    Checkpoint,
    Launch,
    LiveNode,
    Receipt,
    Report,
    Stop,
)
from flyball.core.protocols import Clock
from flyball.core.units import US_PER_S
from flyball.engines.local import claim, steer_file
from flyball.engines.slurm.own_attempts import (
    ADOPTING,
    HELD,
    RELEASE,
    OwnAttempt,
    OwnAttempts,
)
from flyball.engines.slurm.own_jobs import OwnJobs, Token
from flyball.engines.slurm.own_nodes import OwnNodes
from flyball.engines.slurm.own_queue import OwnQueue
from flyball.engines.slurm.own_request import SlurmSettings
from flyball.engines.slurm.shared_folder import SharedFolder

FOLDER_S = 0.1
"""Interval at which the shared folder is read while something may change there."""
FENCES_S = 7 * 86_400.0
"""How long claims of ended attempts are kept: slurmctld may bring a cancelled job back."""
ADOPT_S = 5.0
"""How long a restart waits for Slurm's first answer."""

logger = logging.getLogger("flyball.engine")


def no_access(_token: Token) -> Mapping[str, str]:
    """Return no variables: jobs do not report over HTTP."""
    return {}


class SlurmEngine:
    """Implements `core.protocols.Engine` on a Slurm site, as a plain user.

    Attributes:
        access: returns the variables with which a job reports over HTTP.

    Args:
        shared: a folder that all nodes see under the same path; ours is a folder in it.
        clock: the control plane's clock, which times reports.
        name_device: maps a site's name of a GPU type to the catalogue's.
        environment: where PATH and SLURM_CONF are taken from; None = that of this process.

    Raises:
        DataAbsent: Slurm's commands are not installed.
        BadInput: the folder cannot be shared, or there is no such partition.
    """

    def __init__(
        self,
        shared: Path,
        clock: Clock,
        settings: SlurmSettings | None = None,
        *,
        name_device: Callable[[str], str] = str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._clock, self._settings = clock, settings or SlurmSettings()
        self._shared = SharedFolder(shared)
        try:
            self._shared.take()
            self._shared.probe()
        except BadInput:
            self._shared.close()
            raise
        self.access: Callable[[Token], Mapping[str, str]] = no_access
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.epoll()
        self._poll.register(self._news, select.EPOLLIN)
        self._stopping = False
        self._attempts = OwnAttempts(self._shared, self._now_us, self._settings.lease_s)
        jobs = OwnJobs(self._shared.cluster(), environment)
        self._nodes = OwnNodes(self._settings, name_device, environment, jobs)
        self._queue = OwnQueue(self, jobs, self._nodes, self._shared, self._settings)
        self._nodes.read()
        self._threads = [
            threading.Thread(target=self._follow_folder, name="slurm-folder", daemon=True),
            threading.Thread(target=self._follow_slurm, name="slurm-queue", daemon=True),
        ]
        self._reconciled = threading.Event()
        for thread in self._threads:
            thread.start()

    def capabilities(self) -> Capabilities:
        """Return what it can do: Slurm gives a job its devices, and keeps them until it ends."""
        return Capabilities(frozenset(), preempt=True, logs=True, see_others=True)

    @property
    def files(self) -> Path:
        """The shared folder."""
        return self._shared.path

    def nodes(self) -> Sequence[LiveNode]:
        """Return the site's nodes as last read."""
        return self._nodes.latest()

    # For the threads ---------------------------------------------------------------------

    @property
    def lock(self) -> threading.RLock:
        """Held while attempts change."""
        return self._lock

    @property
    def attempts(self) -> OwnAttempts:
        """The attempts."""
        return self._attempts

    @property
    def id_reuses(self) -> int:
        """How often Slurm gave the number of a job of ours to another one."""
        return self._queue.id_reuses

    def tell_loop(self) -> None:
        """Make `wait` return: there is something to observe."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._news, 1)

    def _now_us(self) -> int:
        return int(self._clock.now() * US_PER_S)

    def _follow_folder(self) -> None:
        while not self._stopping:
            try:
                self.refresh()
            except OSError as error:
                logger.warning("the shared folder cannot be read: %s", error)
            time.sleep(FOLDER_S)

    def refresh(self) -> None:
        """Read what the shared folder says of every attempt."""
        with self._lock:
            before = len(self._attempts.news), len(self._attempts.over)
            for attempt in list(self._attempts.by_token.values()):
                self._attempts.refresh(attempt)
            changed = before != (len(self._attempts.news), len(self._attempts.over))
        if changed:
            self.tell_loop()

    def _follow_slurm(self) -> None:
        self._reconciled.wait()
        while not self._stopping:
            pause_s = self._queue.turn()
            with self._changed:
                if not self._stopping and not self._queue.has_work():
                    self._changed.wait(pause_s)
            if self._queue.failures:
                time.sleep(min(pause_s, 1.0))

    # Acting ------------------------------------------------------------------------------

    def apply(self, action: Action) -> Receipt:
        """Enqueue an action; False for those that an attempt on Slurm cannot obey."""
        token = (action.job, action.attempt)
        with self._changed:
            attempt = self._attempts.by_token.get(token)
            if isinstance(action, Launch):
                if attempt is None:
                    new = OwnAttempt(token, action, since_us=self._now_us())
                    self._attempts.by_token[token] = new
                self._reconciled.set()
                self._changed.notify_all()
                return Receipt(*token, attempt is None or not attempt.stray)
            if attempt is None:
                return Receipt(*token, accepted=False)
            if isinstance(action, Stop):
                if attempt.stop != "cancel":
                    attempt.stop = action.why
                self._changed.notify_all()
                return Receipt(*token, accepted=True)
        if not isinstance(action, Checkpoint):
            return Receipt(*token, accepted=False, how="Slurm gives a job fixed devices")
        try:
            path = steer_file.path_of(str(self._shared.path), *token)
            steer_file.put(path, "checkpoint", {"sequence": action.sequence})
        except OSError:  # the disk is full: the control plane retries
            return Receipt(*token, accepted=False)
        return Receipt(*token, accepted=True)

    def acknowledge(self, reports: Sequence[Report]) -> None:
        """Let what is on record go on: accepted attempts are released, ended ones forgotten."""
        with self._changed:
            for report in reports:
                token = (report.job, report.attempt)
                attempt = self._attempts.by_token.get(token)
                if report.what == "accepted" and attempt is not None and attempt.phase == HELD:
                    attempt.phase = RELEASE
                end = self._attempts.over.get(token)
                if end is not None and end.what == report.what:
                    self._attempts.forget(token)
            self._changed.notify_all()

    # Observing ---------------------------------------------------------------------------

    def listen_to(self, descriptor: int) -> None:
        """Make `wait` return when this descriptor becomes readable, too."""
        self._poll.register(descriptor, select.EPOLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until there may be something to observe; False if the time is up."""
        ready = bool(self._poll.poll(timeout_s))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._news)
        return ready

    def observe(self) -> Sequence[Report]:
        """Return what is new, acceptances that wait for their record, and every end."""
        with self._lock:
            news, self._attempts.news = self._attempts.news, []
            accepted = [
                Report(*attempt.token, "accepted", attempt.since_us, _reference(attempt))
                for attempt in self._attempts.by_token.values()
                if attempt.phase == HELD
            ]
            return [*accepted, *news, *self._attempts.over.values()]

    def reconcile(self, expected: Sequence[tuple[int, int]]) -> Sequence[Report]:
        """Report, after a restart, on the attempts for which the journal has no end.

        Those that were not claimed are looked for in Slurm's queue: they wait there, or are void.
        Other attempts of ours that still run are ended.
        """
        tokens = {(job, attempt) for job, attempt in expected}
        with self._lock:
            for token in tokens:
                number = int(self._shared.read("slurm", claim.name_of(*token)) or 0)
                attempt = OwnAttempt(token, None, ADOPTING, number)
                self._attempts.by_token.setdefault(token, attempt)
            self._attempts.over = {
                token: report for token, report in self._attempts.over.items() if token in tokens
            }
            self._adopt_strays(tokens)
        self.refresh()
        self._reconciled.set()
        with self._changed:
            self._changed.notify_all()
        deadline_s = time.monotonic() + ADOPT_S
        while self._is_adopting() and time.monotonic() < deadline_s:
            self.wait(0.05)
        return self.observe()

    def _is_adopting(self) -> bool:
        with self._lock:
            return any(
                attempt.phase == ADOPTING and not attempt.claimed
                for attempt in self._attempts.by_token.values()
            )

    def _adopt_strays(self, expected: set[Token]) -> None:
        """End attempts that still run and are over by the journal; drop claims of long ago."""
        for attempt in self._attempts.by_token.values():
            if attempt.token not in expected:
                attempt.stray, attempt.stop = True, "cancel"
        old_s = time.time() - FENCES_S
        for name in os.listdir(self._shared.claims):
            token = claim.token_of(name)
            if token is None or token in expected or token in self._attempts.by_token:
                continue
            record = claim.read(self._shared.claims, *token)
            if record is None or record.void or record.exit is not None:
                with contextlib.suppress(OSError):
                    if os.stat(name, dir_fd=self._shared.claims).st_mtime < old_s:
                        os.unlink(name, dir_fd=self._shared.claims)
                continue
            stray = OwnAttempt(token, None, ADOPTING, stop="cancel", stray=True)
            self._attempts.by_token[token] = stray

    def close(self) -> None:
        """Release all resources. Jobs and their keepers run on."""
        with self._changed:
            self._stopping = True
            self._reconciled.set()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._poll.close()
        os.close(self._news)
        self._shared.close()


def _reference(attempt: OwnAttempt) -> dict[str, str]:
    return {"reference": str(attempt.number)}
