"""The local engine: runs attempts on this machine and tells what became of them.

It holds nothing that is not in the folder of claims: a new one on the same folder goes on where
the last one stopped. Not for several threads at a time.
"""

from __future__ import annotations

import contextlib
import math
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flyball.core.live import Action, Cap, Checkpoint, Launch, LiveNode, Report, Resize, Stop
from flyball.core.protocols import Clock, Receipt
from flyball.core.units import US_PER_S
from flyball.engines.local.attempts import Attempt, Attempts, Token
from flyball.engines.local.claim import name_of, token_of
from flyball.engines.local.line import Line, nobody_spawns
from flyball.engines.local.machine import default_max_processes, describe, own_cores
from flyball.engines.local.power import open_power
from flyball.engines.local.request import KEPT_LOGS, Logs, cores_of, devices_of, request_line
from flyball.engines.local.steer_file import FOLDER as ORDERS
from flyball.engines.local.watch import FolderWatch

SCAN_S = 2.0
"""Between two looks at everything, should a word have been lost."""
SOON_S = 0.02
START_S = 0.1
"""How long a start may be kept back, to be told with an end: what is told is put on record, and of
short jobs that would be twice as often. Nothing is decided on a start."""
MOST_LEFT = 100
"""Claims that may wait to be removed while others are being made."""
PATIENCE_S = 5.0
"""How long nothing may be heard of a launch, or of any launched after it, before it is given up."""
RECONCILE_S = 5.0
"""For the last control plane's spawner, and for strays, to be gone."""


class LocalEngine:
    """Fulfils `core.protocols.Engine` on one machine.

    Attributes:
        quota: as given; counts for what is launched from now on.

    Args:
        state: the state folder; claims are in `engine/` below it.
        clock: the control plane's; times in reports are by it.
        node: this machine; None = look (accelerators, else cores).
        name_device: the catalogue's name for what a driver calls a device.
        nvml: stands in for NVIDIA's library when looking.
        logs: how much of a job's output is kept.
        patience_s: how long nothing may be heard of a launch before it is given up.
        max_processes: processes and threads of a job that states no limit; 0 = any number, None =
            a quarter of what the kernel has numbers for.
        quota: leave caps to the kernel where that is permitted; else jobs are paused and go on.
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
        max_processes: int | None = None,
    ) -> None:
        self._state = state.resolve()
        for name in ("engine", "logs", "checkpoints", ORDERS):
            (self._state / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = self._state / "engine"
        self._clock = clock
        self._node = node if node is not None else describe(name_device, nvml)
        self._cores = own_cores()
        self._logs = logs
        self._patience_s = patience_s
        self.quota = quota
        self._max_processes = default_max_processes() if max_processes is None else max_processes
        self._power = open_power(self._folder, self._node.uuids, nvml)
        self._watch = FolderWatch(self._folder)
        self._attempts = Attempts(self._state, self._now_us)
        self._line: Line | None = None
        self._poll = select.epoll()
        if self._watch.works:
            self._poll.register(self._watch.fileno(), select.EPOLLIN)
        self._scan_s = -math.inf
        self._progress_s = clock.now()
        self._tell_s = math.inf

    def nodes(self) -> Sequence[LiveNode]:
        """This machine."""
        return (self._node,)

    @property
    def strays(self) -> Sequence[Report]:
        """Attempts that were found although nobody expected them, as they ended."""
        return tuple(self._attempts.strays)

    # Acting ---------------------------------------------------------------------

    def apply(self, action: Action) -> Receipt:
        """Pass an action on. What was launched or said before is not launched or said again."""
        token = (action.job, action.attempt)
        if isinstance(action, Stop):
            return Receipt(*token, self._attempts.stop(token, action.why))
        if isinstance(action, Launch):
            return Receipt(*token, self._launch(action))
        return self._steer(action)

    def _launch(self, action: Launch) -> bool:
        token = (action.job, action.attempt)
        known = self._attempts.known.get(token)
        if known is not None and known.stray:
            return False  # of a history that this journal does not have, and not gone yet
        if known is not None or self._attempts.exists(token):
            return True
        self._set_aside_log(token)
        now = (self._now_us(), time.monotonic_ns() // 1000)
        line = request_line(
            action, self._state, self._node, self._cores, self._logs, now, self.quota,
            self._max_processes,
        )  # fmt: skip
        sent = Attempt(request=line, sent_s=self._clock.now())
        self._attempts.known[token] = self._attempts.unheard[token] = sent
        self._send(sent)
        if not sent.sent:
            del self._attempts.known[token], self._attempts.unheard[token]
        return sent.sent

    def _set_aside_log(self, token: Token) -> None:
        """A log of an attempt that was never launched is of a history that is no longer told: the
        journal was put back from a backup."""
        path = self._state / "logs" / f"{name_of(*token)}.out"
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_name(f"{path.name}.before-restore"))

    def _steer(self, action: Resize | Cap | Checkpoint) -> Receipt:
        """Tell a running attempt something, its supervisor and itself."""
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
            said = self._attempts.order(token, type(action).__name__.lower(), order)
        except OSError:  # no room on the disk: it is said again
            said = False
        if said and isinstance(action, Cap):
            uuids = [self._node.uuids[i] for i in devices_of(action.rows) if self._node.uuids]
            how = self._power.cap(token, uuids, action.share)
        return Receipt(*token, said, how)

    def acknowledge(self, reports: Sequence[Report]) -> None:
        """These ends are in the journal: they need not be told again.

        Nobody signals such an attempt any more, and its supervisor may have another.
        """
        for each in reports:
            if (each.job, each.attempt) in self._attempts.over:
                self._attempts.forget((each.job, each.attempt))
                self._power.lift((each.job, each.attempt))
                if self._line is not None:
                    self._line.note(f"{name_of(each.job, each.attempt)}\n".encode())

    def _send(self, new: Attempt) -> None:
        """To the spawner there is, or to a new one. Not marked as sent if none can be started."""
        if self._line is not None:
            new.sent = True  # should it break now, nobody knows how much it had read
            if self._line.send(new.request):
                return
        self._restart()

    def _restart(self) -> None:
        """A new spawner, told again what nothing was heard of: a token can be claimed only once.

        What is sent twice keeps its claim when it is over, for the second may come much later.
        """
        self._hang_up(kill=False)
        try:
            self._line = Line(self._folder)
        except OSError:
            return
        self._poll.register(self._line.fileno(), select.EPOLLIN)
        again = [each for each in self._attempts.unheard.values() if not each.refused]
        for each in again:
            each.fenced |= each.sent
            each.sent = True
        self._line.send(b"".join(each.request for each in again))

    def _hang_up(self, kill: bool) -> None:
        if self._line is not None:
            self._poll.unregister(self._line.fileno())
            if kill:
                self._line.kill()
            else:
                self._line.close()
            self._line = None

    # Seeing ---------------------------------------------------------------------

    def fileno(self) -> int:
        """Readable when there may be something to observe. Observe each second all the same."""
        return self._poll.fileno()

    def listen_to(self, descriptor: int) -> None:
        """Let `wait` end also when this becomes readable."""
        self._poll.register(descriptor, select.EPOLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until there may be something to observe; False if the time is up."""
        # To remove a claim can take as long as a sync, and nobody can make one meanwhile.
        if not self._attempts.unheard or len(self._attempts.left) > MOST_LEFT:
            self._attempts.sweep()
        if self._tell_s < math.inf:
            tell_s = max(0.0, self._tell_s - self._clock.now())
            if tell_s < timeout_s:
                self._poll_for(tell_s)
                return True
        return self._poll_for(timeout_s)

    def _poll_for(self, timeout_s: float) -> bool:
        if self._line is not None:
            more = select.EPOLLOUT if self._line.waiting else 0
            self._poll.modify(self._line.fileno(), select.EPOLLIN | more)
        if self._attempts.again or not self._watch.works:
            return bool(self._poll.poll(min(timeout_s, SOON_S))) or timeout_s > SOON_S
        return bool(self._poll.poll(timeout_s))

    def observe(self) -> Sequence[Report]:
        """Starts since the last time, and every end that is not acknowledged."""
        now_s = self._clock.now()
        attempts = self._attempts
        # 1. What the folder and the spawner say.
        changed = self._watch.changed()
        self._hear_spawner(now_s)
        # 2. Now and then everything is looked at, whatever was said.
        if changed is None or now_s >= self._scan_s:
            self._scan_s = now_s + SCAN_S
            changed = changed or {}
            for token in attempts.on_disk() | set(attempts.known):
                self._look(token, -math.inf)
            attempts.sweep()
            self._drop_fences()
        # 3. Look at what changed, and again at what is about to.
        for name, closed in changed.items():
            if (found := token_of(name)) is not None:
                self._look(found, now_s if closed else -math.inf)
        for token, until_s in list(attempts.again.items()):
            attempts.look(token)
            if token in attempts.known and token not in attempts.over and now_s < until_s:
                attempts.again[token] = until_s
        # 4. Give up what nothing is heard of.
        self._give_up(now_s)
        # 5. Tell.
        return [*self._starts(now_s), *attempts.over.values()]

    def _starts(self, now_s: float) -> list[Report]:
        """Starts that are to be told now: with an end, or when they have been kept long enough."""
        if self._attempts.news:
            self._tell_s = min(self._tell_s, now_s + START_S)
        if not self._attempts.over and now_s < self._tell_s:
            return []
        self._tell_s = math.inf
        news, self._attempts.news = self._attempts.news, []
        return news

    def _look(self, token: Token, closed_s: float) -> None:
        waiting = len(self._attempts.unheard)
        self._attempts.look(token, closed_s)
        if len(self._attempts.unheard) < waiting:
            self._progress_s = self._clock.now()

    def _drop_fences(self) -> None:
        """Claims kept only against launches on their way go once no spawner can have one."""
        if self._attempts.has_fences and not self._attempts.unheard:
            self._hang_up(kill=True)
            if nobody_spawns(self._folder):
                self._attempts.drop_fences()

    def _hear_spawner(self, now_s: float) -> None:
        if self._line is None:
            return
        self._line.flush()
        for name, why in self._line.refusals():
            if (token := token_of(name)) is not None:
                self._attempts.refuse(token, why, now_s)
        if self._line.broken:
            if self._attempts.unheard:
                self._restart()
            else:
                self._hang_up(kill=False)

    def _give_up(self, now_s: float) -> None:
        """What was refused is tried anew only after a while: the disk may be full.

        Launches are served in order, so as long as others are heard of, the rest only waits.
        """
        silent_s = self._progress_s
        overdue = [
            (token, each)
            for token, each in self._attempts.unheard.items()
            if now_s - max(each.sent_s, 0 if each.refused else silent_s) > self._patience_s
        ]
        if any(not each.refused for _token, each in overdue):
            self._hang_up(kill=True)
        for token, each in overdue:
            each.sent_s = now_s
            if not each.refused:
                each.refused = f"nothing was heard of it for {self._patience_s:g} s"
                self._attempts.make_void(token, fenced=True)
            else:
                self._attempts.make_void(token, fenced=each.fenced)
        if self._line is None and any(not e.refused for e in self._attempts.unheard.values()):
            self._restart()

    def reconcile(self, expected: Sequence[tuple[int, int]]) -> Sequence[Report]:
        """What became of attempts of which the journal knows no end, after a restart.

        Those never claimed are void: the engine takes their tokens. What is here and not expected
        has ended as far as the journal knows: it is killed and removed (`strays`).
        """
        attempts = self._attempts
        wanted = {(job, attempt) for job, attempt in expected}
        quiet = self._line is None and self._until(lambda: nobody_spawns(self._folder))
        for token in sorted(wanted):
            attempts.look(token)
            if token not in attempts.known and not attempts.find_removed(token):
                sent = Attempt(refused="it was never claimed", fenced=not quiet)
                sent.sent_s = self._clock.now()
                attempts.known[token] = attempts.unheard[token] = sent
                attempts.make_void(token, fenced=not quiet)
        for token in set(attempts.unheard) - wanted:
            attempts.make_void(token, fenced=True)
        strays = attempts.on_disk() - wanted
        for token in strays:
            attempts.kill_stray(token, fenced=not quiet)
        self._until(lambda: not self._left(strays))
        attempts.sweep()
        self._tell_s = -math.inf  # whoever begins anew wants to know all at once
        self._power.keep(wanted)
        return self.observe()

    def _left(self, strays: set[Token]) -> set[Token]:
        for token in strays & set(self._attempts.known):
            self._attempts.look(token)
        return strays & set(self._attempts.known)

    def _until(self, done: Callable[[], bool]) -> bool:
        """Wait a little for something that is about to happen."""
        deadline_s = self._clock.now() + RECONCILE_S
        while not done():
            if self._clock.now() >= deadline_s:
                return False
            self._clock.sleep(SOON_S)
        return True

    def close(self) -> None:
        """Let go. Jobs and their supervisors go on; the spawner ends."""
        self._hang_up(kill=False)
        self._power.close()
        self._poll.close()
        self._watch.close()
        self._attempts.close()

    def _now_us(self) -> int:
        return int(self._clock.now() * US_PER_S)
