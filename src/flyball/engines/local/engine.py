"""The local engine: runs attempts on this machine and reports their starts and ends.

All of its state is in the folder of claims, so a new engine on the same folder continues where
the last one stopped. Not thread-safe.
"""

from __future__ import annotations

import contextlib
import math
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flyball.core.live import (
    Action,
    Cap,
    Capabilities,
    Checkpoint,
    Launch,
    LiveNode,
    Report,
    Resize,
    Stop,
)
from flyball.core.protocols import Clock, Receipt
from flyball.core.units import US_PER_S
from flyball.engines.local.attempts import Attempt, Attempts, Token
from flyball.engines.local.claim import name_of, token_of
from flyball.engines.local.health import HealthCheck
from flyball.engines.local.line import Line, no_spawner
from flyball.engines.local.machine import default_max_processes, describe, usable_cores
from flyball.engines.local.power import open_power
from flyball.engines.local.request import KEPT_LOGS, Logs, cores_of, devices_of, request_line
from flyball.engines.local.steer_file import FOLDER as ORDERS
from flyball.engines.local.watch import FolderWatch

SCAN_S = 2.0
"""Rescan interval, in case an inotify event is missed."""
POLL_S = 0.02
"""Poll interval while an attempt is about to change, or without inotify."""
START_S = 0.1
"""How long the report of a start may be delayed to go out with an end. Each batch of reports is
written to the journal, so short jobs would otherwise cost two writes. No decision needs a start."""
MAX_UNREMOVED = 100
"""Number of claims whose removal may be deferred while launches are pending."""
PATIENCE_S = 5.0
"""Timeout of a launch: counted from the last time that any launch was claimed."""
RECONCILE_S = 5.0
"""Timeout at a restart for the previous spawner to end and for strays to be gone."""


class LocalEngine:
    """Implements `core.protocols.Engine` on one machine.

    Attributes:
        quota: as in the arguments; applies to later launches.

    Args:
        state: the state folder; claims are in `engine/` below it.
        clock: the control plane's clock, which times reports.
        node: this machine; None = detect it (accelerators, else cores).
        name_device: maps a driver's device name to the catalogue's.
        nvml: replaces NVIDIA's library in tests.
        logs: how much of a job's output is kept.
        patience_s: how long a launch may stay unclaimed before it is given up.
        health: a check of this machine; while it fails, the machine takes no new jobs.
        max_processes: processes and threads of a job that states no limit; 0 = any number, None =
            a quarter of the kernel's limit.
        features: names that jobs can require this machine to have.
        quota: enforce caps by control group where permitted; otherwise the supervisor pauses and
            resumes the job.
    """

    def __init__(
        self,
        state: Path,
        clock: Clock,
        node: LiveNode | None = None,
        *,
        name_device: Callable[[str], str] = str,
        nvml: Any = None,
        logs: Logs = KEPT_LOGS,
        patience_s: float = PATIENCE_S,
        quota: bool = True,
        health: HealthCheck | None = None,
        max_processes: int | None = None,
        features: Sequence[str] = (),
    ) -> None:
        self._state = state.resolve()
        for name in ("engine", "logs", "checkpoints", ORDERS):
            (self._state / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = self._state / "engine"
        self._clock = clock
        node = node if node is not None else describe(name_device, nvml)
        self._node = node._replace(features=(*node.features, *features))
        self._cores = usable_cores()
        self._logs = logs
        self._patience_s = patience_s
        self.quota = quota
        self._max_processes = default_max_processes() if max_processes is None else max_processes
        self._power = open_power(self._folder, self._node.uuids, nvml)
        self._watch = FolderWatch(self._folder)
        self._attempts = Attempts(self._state, self._now_us)
        self._line: Line | None = None
        self._health = health
        if health is not None:
            health.start()
        self._poll = select.epoll()
        if self._watch.works:
            self._poll.register(self._watch.fileno(), select.EPOLLIN)
        self._scan_s = -math.inf
        self._progress_s = clock.now()
        self._report_s = math.inf

    def capabilities(self) -> Capabilities:
        """Return what it can do; it sets Slurm's variables for tasks."""
        return Capabilities(
            frozenset({"nodes", "tasks_per_node"}),
            resize=not self._node.uuids,
            cap=True,
            preempt=True,
            choose_devices=True,
            logs=True,
        )

    @property
    def files(self) -> Path:
        """The state folder."""
        return self._state

    def nodes(self) -> Sequence[LiveNode]:
        """Return this machine as the only node."""
        if self._health is not None and self._health.reason:
            return (self._node._replace(up=False, reason=self._health.reason),)
        return (self._node,)

    @property
    def strays(self) -> Sequence[Report]:
        """Reports of the ends of attempts that the journal did not expect."""
        return tuple(self._attempts.strays)

    # Acting ---------------------------------------------------------------------

    def apply(self, action: Action) -> Receipt:
        """Carry out an action. Repeating one has no further effect."""
        token = (action.job, action.attempt)
        if isinstance(action, Stop):
            return Receipt(*token, self._attempts.stop(token, action.why))
        if isinstance(action, Launch):
            return Receipt(*token, self._launch(action))
        return self._steer(action)

    def _launch(self, action: Launch) -> bool:
        token = (action.job, action.attempt)
        attempt = self._attempts.by_token.get(token)
        if attempt is not None and attempt.stray:
            return False  # it belongs to a history that this journal does not have; not gone yet
        if attempt is not None or self._attempts.exists(token):
            return True
        self._set_aside_log(token)
        now = (self._now_us(), time.monotonic_ns() // 1000)
        line = request_line(
            action, self._state, self._node, self._cores, self._logs, now, self.quota,
            self._max_processes,
        )  # fmt: skip
        sent = Attempt(request=line, sent_s=self._clock.now())
        self._attempts.by_token[token] = self._attempts.unclaimed[token] = sent
        self._send(sent)
        if not sent.sent:
            del self._attempts.by_token[token], self._attempts.unclaimed[token]
        return sent.sent

    def _set_aside_log(self, token: Token) -> None:
        """Rename the log of an earlier run of the same attempt, which exists only if the journal
        was restored from a backup."""
        path = self._state / "logs" / f"{name_of(*token)}.out"
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_name(f"{path.name}.before-restore"))

    def _steer(self, action: Resize | Cap | Checkpoint) -> Receipt:
        """Write an order for a running attempt, read by its supervisor and by the job."""
        token = (action.job, action.attempt)
        order: dict[str, Any] = {"sequence": action.sequence}
        how = ""
        if isinstance(action, Resize):
            devices = devices_of(action.rows)
            cores = cores_of(devices, self._cores, self._node.devices)
            order |= {"devices": len(devices), "cores": [] if self._node.uuids else cores}
        elif isinstance(action, Cap):
            order["share"] = action.share
        try:
            accepted = self._attempts.order(token, type(action).__name__.lower(), order)
        except OSError:  # the disk is full: the control plane retries
            accepted = False
        if accepted and isinstance(action, Cap):
            uuids = [self._node.uuids[i] for i in devices_of(action.rows) if self._node.uuids]
            how = self._power.cap(token, uuids, action.share)
        return Receipt(*token, accepted, how)

    def acknowledge(self, reports: Sequence[Report]) -> None:
        """Forget attempts whose ends are in the journal.

        Such an attempt is never signalled again, so its supervisor may be given another.
        """
        for report in reports:
            if (report.job, report.attempt) in self._attempts.over:
                self._attempts.forget((report.job, report.attempt))
                self._power.lift((report.job, report.attempt))
                if self._line is not None:
                    self._line.note(f"{name_of(report.job, report.attempt)}\n".encode())

    def _send(self, new: Attempt) -> None:
        """Send a launch to the spawner, or to a new one. Not marked as sent if none can start."""
        if self._line is not None:
            new.sent = True  # if the connection breaks now, it is unknown how much was read
            if self._line.send(new.request):
                return
        self._restart()

    def _restart(self) -> None:
        """Start a new spawner and resend unclaimed launches: a token can be claimed only once.

        An attempt that was sent twice keeps its claim as a fence: the second may come much later.
        """
        self._hang_up(kill=False)
        try:
            self._line = Line(self._folder)
        except OSError:
            return
        self._poll.register(self._line.fileno(), select.EPOLLIN)
        resent = [attempt for attempt in self._attempts.unclaimed.values() if not attempt.refused]
        for attempt in resent:
            attempt.fenced |= attempt.sent
            attempt.sent = True
        self._line.send(b"".join(attempt.request for attempt in resent))

    def _hang_up(self, kill: bool) -> None:
        if self._line is not None:
            self._poll.unregister(self._line.fileno())
            if kill:
                self._line.kill()
            else:
                self._line.close()
            self._line = None

    # Observing --------------------------------------------------------------------

    def listen_to(self, descriptor: int) -> None:
        """Make `wait` return when this descriptor becomes readable, too."""
        self._poll.register(descriptor, select.EPOLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until there may be something to observe; False if the time is up."""
        # Removing a claim can take as long as a sync, and blocks new claims meanwhile.
        if not self._attempts.unclaimed or len(self._attempts.forgotten) > MAX_UNREMOVED:
            self._attempts.sweep()
        if self._report_s < math.inf:
            left_s = max(0.0, self._report_s - self._clock.now())
            if left_s < timeout_s:
                self._poll_for(left_s)
                return True
        return self._poll_for(timeout_s)

    def _poll_for(self, timeout_s: float) -> bool:
        if self._line is not None:
            more = select.EPOLLOUT if self._line.waiting else 0
            self._poll.modify(self._line.fileno(), select.EPOLLIN | more)
        if self._attempts.recheck or not self._watch.works:
            return bool(self._poll.poll(min(timeout_s, POLL_S))) or timeout_s > POLL_S
        return bool(self._poll.poll(timeout_s))

    def observe(self) -> Sequence[Report]:
        """Return starts since the last call, and every end that is not acknowledged."""
        now_s = self._clock.now()
        attempts = self._attempts
        # 1. Read the events of the folder and of the spawner.
        changed = self._watch.changed()
        self._hear_spawner(now_s)
        # 2. Rescan everything at intervals, in case an event was missed.
        if changed is None or now_s >= self._scan_s:
            self._scan_s = now_s + SCAN_S
            changed = changed or {}
            for token in attempts.on_disk() | set(attempts.by_token):
                self._refresh(token, -math.inf)
            attempts.sweep()
            self._drop_fences()
        # 3. Refresh what changed, and recheck what is about to change.
        for name, closed in changed.items():
            if (named := token_of(name)) is not None:
                self._refresh(named, now_s if closed else -math.inf)
        for token, until_s in list(attempts.recheck.items()):
            attempts.refresh(token)
            if token in attempts.by_token and token not in attempts.over and now_s < until_s:
                attempts.recheck[token] = until_s
        # 4. Give up launches that were not claimed in time.
        self._give_up(now_s)
        # 5. Report.
        return [*self._starts(now_s), *attempts.over.values()]

    def _starts(self, now_s: float) -> list[Report]:
        """Return the starts to report now: with an end, or after `START_S`."""
        if self._attempts.starts:
            self._report_s = min(self._report_s, now_s + START_S)
        if not self._attempts.over and now_s < self._report_s:
            return []
        self._report_s = math.inf
        starts, self._attempts.starts = self._attempts.starts, []
        return starts

    def _refresh(self, token: Token, closed_s: float) -> None:
        waiting = len(self._attempts.unclaimed)
        self._attempts.refresh(token, closed_s)
        if len(self._attempts.unclaimed) < waiting:
            self._progress_s = self._clock.now()

    def _drop_fences(self) -> None:
        """Remove fences once no spawner can hold a duplicate launch any more."""
        if self._attempts.has_fences and not self._attempts.unclaimed:
            self._hang_up(kill=True)
            if no_spawner(self._folder):
                self._attempts.drop_fences()

    def _hear_spawner(self, now_s: float) -> None:
        if self._line is None:
            return
        self._line.flush()
        for name, why in self._line.refusals():
            if (token := token_of(name)) is not None:
                self._attempts.refuse(token, why, now_s)
        if self._line.broken:
            if self._attempts.unclaimed:
                self._restart()
            else:
                self._hang_up(kill=False)

    def _give_up(self, now_s: float) -> None:
        """Make launches void that were refused, or not claimed, for longer than the patience.

        A refused one is retried only then, since the disk may be full. Launches are served in
        order, so while others get claimed the rest only waits.
        """
        silent_s = self._progress_s
        overdue = [
            (token, attempt)
            for token, attempt in self._attempts.unclaimed.items()
            if now_s - max(attempt.sent_s, 0 if attempt.refused else silent_s) > self._patience_s
        ]
        if any(not attempt.refused for _token, attempt in overdue):
            self._hang_up(kill=True)
        for token, attempt in overdue:
            attempt.sent_s = now_s
            if not attempt.refused:
                attempt.refused = f"nothing was heard of it for {self._patience_s:g} s"
                self._attempts.make_void(token, fenced=True)
            else:
                self._attempts.make_void(token, fenced=attempt.fenced)
        waiting = self._attempts.unclaimed.values()
        if self._line is None and any(not attempt.refused for attempt in waiting):
            self._restart()

    def reconcile(self, expected: Sequence[tuple[int, int]]) -> Sequence[Report]:
        """Report, after a restart, on the attempts for which the journal has no end.

        Those that were never claimed become void. Attempts that are here and not expected have
        ended according to the journal: they are killed and removed (`strays`).
        """
        attempts = self._attempts
        expected_tokens = {(job, attempt) for job, attempt in expected}
        quiet = self._line is None and self._until(lambda: no_spawner(self._folder))
        for token in sorted(expected_tokens):
            attempts.refresh(token)
            if token not in attempts.by_token and not attempts.find_removed(token):
                sent = Attempt(refused="it was never claimed", fenced=not quiet)
                sent.sent_s = self._clock.now()
                attempts.by_token[token] = attempts.unclaimed[token] = sent
                attempts.make_void(token, fenced=not quiet)
        for token in set(attempts.unclaimed) - expected_tokens:
            attempts.make_void(token, fenced=True)
        strays = attempts.on_disk() - expected_tokens
        for token in strays:
            attempts.kill_stray(token, fenced=not quiet)
        self._until(lambda: not self._remaining(strays))
        attempts.sweep()
        self._report_s = -math.inf  # after a restart, starts are reported at once
        self._power.keep(expected_tokens)
        return self.observe()

    def _remaining(self, strays: set[Token]) -> set[Token]:
        for token in strays & set(self._attempts.by_token):
            self._attempts.refresh(token)
        return strays & set(self._attempts.by_token)

    def _until(self, done: Callable[[], bool]) -> bool:
        """Wait up to `RECONCILE_S` for a condition; return whether it was met."""
        deadline_s = self._clock.now() + RECONCILE_S
        while not done():
            if self._clock.now() >= deadline_s:
                return False
            self._clock.sleep(POLL_S)
        return True

    def close(self) -> None:
        """Release all resources. Jobs and their supervisors keep running; the spawner ends."""
        self._hang_up(kill=False)
        if self._health is not None:
            self._health.stop()
        self._power.close()
        self._poll.close()
        self._watch.close()
        self._attempts.close()

    def _now_us(self) -> int:
        return int(self._clock.now() * US_PER_S)
