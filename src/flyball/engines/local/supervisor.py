"""The supervisor of one attempt: claims it, runs it, ends it, records its end.

It is a fork of the spawner and the leader of a session, and outlives the control plane. It depends
on no other process: its input is the request, signals, and the file of orders that a signal tells
it to read. While the job prints nothing and has no limits, the supervisor wakes only to count the
job's processes. When the attempt is over and its end is on disk, the same process may be given
another one. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from . import cgroup, claim, proc, program
from .log import Outputs
from .process_limit import ProcessLimit
from .signals import CANCEL, DOWN, ORDERS, PREEMPT, send, warn, warning_s
from .steering import Steering
from .usage import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RUNNING, CHECKPOINT, TERM, KILL = range(4)
MEMORY_EVERY_S = 0.5
KILL_EVERY_S = 0.02
TERMINATED = (signal.SIGTERM, (128 + signal.SIGTERM) << 8)
"""Wait statuses of a process killed by SIGTERM, and of a shell that reports it."""
TOLD_LATE_S = 0.1
"""Time in which a machine that shuts down signals all processes, from the first to the last."""
NEVER = float("inf")


def supervise(
    request: dict[str, Any],
    folder: int,
    boot: str,
    place: cgroup.Place | None,
    wake: int,
    let_go: Callable[[], None],
    refuse: Callable[[str], None],
) -> bool:
    """Run an attempt; returns when it is over and its end is on disk.

    Args:
        request: the launch request, from `request.py`.
        folder: descriptor of the folder of claims.
        boot: the machine's boot id.
        place: where memory groups can be created.
        wake: the pipe of `signals.hear`.
        let_go: called when the claim is durable: the end of the spawner is harmless from then on.
        refuse: called with the reason if the claim cannot be made.

    Returns:
        False if the machine shuts down, so that no other attempt may follow.
    """
    with contextlib.suppress(BlockingIOError):
        os.read(wake, 4096)  # discard signals for the previous attempt
    process = proc.stat(os.getpid())
    assert process is not None
    clock = request["time_us"] - request["mono_us"]
    head = {
        "job": request["job"],
        "attempt": request["attempt"],
        "pid": process.pid,
        "start": process.start,
        "boot": boot,
        "child": 0,
        "time_us": clock + _mono_us(),
        "cpu_s": round(sum(os.times()[:4]), 2),
    }
    try:
        file = claim.make(folder, head)
    except FileExistsError:
        return True
    except OSError as error:
        refuse(error.strerror or str(error))
        return True

    def settle(unable: OSError | None) -> bool:
        """Make the claim durable; return whether it is, since only then may anything run."""
        try:
            if unable is not None:
                claim.take_back(folder, head, file)
                raise unable
            claim.make_durable(folder, head, file)
        except OSError as error:
            refuse(error.strerror or str(error))
            return False
        let_go()
        return True

    program.prctl(program.PR_SET_NAME, f"fly {head['job']}.{head['attempt']}".encode())
    name = cgroup.group_name(folder, request["job"], request["attempt"])
    group = cgroup.Group(place, name) if place else None
    attempt = _Attempt(request, folder, file, head, clock, group, name, wake)
    return attempt.run(settle, let_go)


class _Attempt:
    """Runs one claimed attempt."""

    def __init__(
        self, request: dict[str, Any], folder: int, file: int, head: dict[str, Any], clock: int,
        group: cgroup.Group | None, name: str, wake: int,
    ) -> None:  # fmt: skip
        self.request = request
        self.folder, self.file = folder, file
        self.head = head
        self.clock = clock
        self.group = group
        self.program: program.Program | None = None
        self.steering = Steering(request, name)
        self.process_limit = ProcessLimit(request["max_processes"], name)
        self.wake = wake
        self.child = 0
        self.status: int | None = None
        self.alone = False
        self.phase = RUNNING
        self.why, self.message = "exit", ""
        self.shutting_down = self.got_shutdown = False
        self.usage = Usage()
        self.phase_ends_s = self.limit_s = self.memory_s = self.rewrite_s = self.signal_s = NEVER

    def run(self, settle: Callable[[OSError | None], bool], let_go: Callable[[], None]) -> bool:
        """Start the program, wait, end what is left, record; False if the machine shuts down.

        Everything is prepared before `settle` syncs the claim, and nothing runs before that.
        """
        program.prctl(program.PR_SET_CHILD_SUBREAPER, 1)
        limit_mib = self.request["memory_mib"]
        if self.group is not None and not (limit_mib and self.group.make(limit_mib)):
            self.group = None
        unable = self._prepare(let_go)
        settled = settle(unable)
        if settled and self._start():
            self._watch()
        elif not settled and self.program is not None:
            self.program.drop()
            self.outputs.finish()
        self.tuned = self.steering.close()
        self.usage.close(self.group)
        if self.group is not None:
            if self.why == "exit" and self.status and self.group.kills():
                self.why = "memory"
                self.message = f"killed at its limit of {limit_mib} MiB"
            self.group.remove()
        message = self.process_limit.close()
        if message and self.why == "exit" and self.status:
            self.why, self.message = "processes", message
        with contextlib.suppress(OSError):  # most jobs leave nothing there
            os.rmdir(self.request["checkpoint_dir"])
        if settled and not self.shutting_down:
            self._record()
        return not self.shutting_down

    # Starting -------------------------------------------------------------------

    def _prepare(self, let_go: Callable[[], None]) -> OSError | None:
        """Fork the program, ready to run; return the error if no program can run at present."""
        request = self.request
        try:
            os.makedirs(request["checkpoint_dir"], mode=0o700, exist_ok=True)
            self.outputs = Outputs(request)
        except OSError as error:
            self._cannot_start(f"could not start: cannot make {error.filename!r}: {error.strerror}")
            return None
        try:
            self.program = program.Program(request, self.outputs.into, self.group, let_go)
        except OSError as error:
            self.outputs.finish()
            return error
        self.outputs.close_into()
        return None

    def _start(self) -> bool:
        if self.program is None:
            return False
        request, pid = self.request, self.program.pid
        problem = self.program.run()
        if problem:
            os.waitpid(pid, 0)
            self._cannot_start(problem)
            self.outputs.complain(f"flyball: {problem}\n")
            self.outputs.finish()
            return False
        self.child = self.head["child"] = pid
        self.head["time_us"] = self._now_us()
        now_s = time.monotonic()
        self._write_start(now_s)
        if request["limit_s"]:
            self.limit_s = now_s + request["limit_s"]
            self.signal_s = warning_s(request, now_s)
        if request["memory_mib"] and (self.group is None or pid not in self.group.pids()):
            self.memory_s = now_s + MEMORY_EVERY_S
        self.steering.began(pid, now_s)
        self.process_limit.began(now_s)
        return True

    def _write_start(self, now_s: float) -> None:
        """Record the start in the claim; a failed write is retried, and the job runs on."""
        try:
            claim.write_head(self.file, self.head)
            self.rewrite_s = NEVER
        except OSError:
            self.rewrite_s = now_s + claim.AGAIN_S

    def _cannot_start(self, message: str) -> None:
        self.why, self.message = "boot", message
        self.status = program.NOT_STARTED << 8

    # Waiting --------------------------------------------------------------------

    def _watch(self) -> None:
        """Loop until the job is gone: sleep, move output, reap, obey signals, act on timers."""
        poller = select.poll()
        poller.register(self.wake, select.POLLIN)
        while True:
            now_s = time.monotonic()
            listening = self.outputs.listening(now_s)
            for pump in listening:
                poller.register(pump.out, select.POLLIN)
            timers = (self.phase_ends_s, self.limit_s, self.memory_s, self.rewrite_s, self.signal_s)
            others = (self.outputs.due_s(now_s), self.steering.due_s, self.process_limit.due_s)
            due_s = min(*timers, *others)
            wait_ms = None if due_s == NEVER else max(0, int((due_s - now_s) * 1000) + 1)
            ready = [descriptor for descriptor, _events in poller.poll(wait_ms)]
            now_s = time.monotonic()
            for pump in listening:
                poller.unregister(pump.out)
                if pump.out in ready:
                    pump.move(now_s)
            # Signals after this read wake the loop again, so no end is missed. Reap before
            # obeying: a job that has ended by itself was not stopped.
            signals = os.read(self.wake, 4096) if self.wake in ready else b""
            self.got_shutdown = self.got_shutdown or DOWN in signals
            self._reap()
            if self.alone:
                self._check_shutdown()
                break
            self._obey(signals, now_s)
            if now_s >= self.process_limit.due_s or self.process_limit.alarm in ready:
                self._check_processes(now_s, poller)
            self._act(now_s)
        self.outputs.finish()
        if lost := self.outputs.lost():
            self.message = f"{self.message}; {lost}" if self.message else lost

    def _reap(self) -> None:
        """Reap every process that has ended, including the job's orphans."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self.alone = True
                return
            if ended is None:
                return
            # Checked before it is reaped: afterwards its children cannot be known.
            several = ended.si_pid != self.child or proc.had_children(self.child)
            pid, status, used = os.wait4(ended.si_pid, 0)
            self.usage.add(used, several)
            self.steering.ended(pid, used.ru_utime + used.ru_stime)
            if pid == self.child:
                self.status = status

    def _check_shutdown(self) -> None:
        """Recognise a job that was killed by the machine's shutdown, which signals all processes:
        then the supervisor gets SIGTERM as well, possibly a moment later."""
        if self.why != "exit" or self.status not in TERMINATED:
            return
        until_s = time.monotonic() + TOLD_LATE_S
        while not self.got_shutdown and (left_s := until_s - time.monotonic()) > 0:
            if select.select([self.wake], (), (), left_s)[0]:
                self.got_shutdown = DOWN in os.read(self.wake, 4096)
        self.shutting_down = self.got_shutdown

    def _obey(self, signals: bytes, now_s: float) -> None:
        """Handle signals. A request to stop counts once; a cancel shortens a checkpoint."""
        if ORDERS in signals:  # also sent by an engine that does not find the claim
            self.file = claim.restore(self.folder, self.head, self.file)
        if self.phase == RUNNING and not {CANCEL, PREEMPT, DOWN}.isdisjoint(signals):
            self.why = "stopped"
            self.shutting_down = {CANCEL, PREEMPT}.isdisjoint(signals)
            softly = CANCEL not in signals and self.request["checkpoint_signal"]
            self._enter(CHECKPOINT if softly else TERM, now_s)
        elif self.phase == CHECKPOINT and CANCEL in signals:
            self.shutting_down = False
            self._enter(TERM, now_s)
        elif self.phase == RUNNING and self.status is None and ORDERS in signals:
            self.steering.obey(now_s)

    def _act(self, now_s: float) -> None:
        """Do what is due by the timers and the phase."""
        if now_s >= self.rewrite_s:
            self._write_start(now_s)
        if self.phase == RUNNING:
            if self.status is not None:  # it ended by itself and left processes behind
                self._enter(KILL, now_s)
            elif now_s >= self.limit_s:
                self.why = "limit"
                self.message = f"reached its limit of {self.request['limit_s']:g} s"
                self._enter(TERM, now_s)
            elif now_s >= self.signal_s:
                self.signal_s = NEVER
                warn(self.child, self.request)
            elif now_s >= self.memory_s:
                self._check_memory(now_s)
            if self.phase == RUNNING:
                self.steering.turn(now_s)
        elif now_s >= self.phase_ends_s:
            self._enter(min(self.phase + 1, KILL), now_s)
        elif self.status is not None and self.phase == CHECKPOINT:
            self._enter(TERM, now_s)
        elif self.status is not None and self.phase == TERM and not self._group():
            self._enter(KILL, now_s)

    def _check_memory(self, now_s: float) -> None:
        limit_mib = self.request["memory_mib"]
        self.memory_s = now_s + MEMORY_EVERY_S
        used_mib = self.usage.measure(proc.descendants(os.getpid()), limit_mib, now_s)
        if used_mib > limit_mib:
            self.why = "memory"
            self.message = f"used {used_mib:.0f} MiB of its limit of {limit_mib} MiB"
            self._enter(KILL, now_s)

    def _check_processes(self, now_s: float, poller: select.poll) -> None:
        """End a job with too many processes; register the kernel's alarm once there is one."""
        message = self.process_limit.check(now_s)
        if message and self.phase != KILL:
            if self.phase == RUNNING:
                self.why, self.message = "processes", message
            self._enter(KILL, now_s)
        if self.process_limit.alarm >= 0:
            poller.register(self.process_limit.alarm, select.POLLPRI)

    # Ending ---------------------------------------------------------------------

    def _enter(self, phase: int, now_s: float) -> None:
        """Enter a phase of ending the job: ask for a checkpoint, ask it to end, kill it."""
        self.phase = phase
        self.limit_s = self.memory_s = self.signal_s = NEVER
        self.phase_ends_s = now_s + self.request["grace_s"]
        self.steering.release()
        if phase == CHECKPOINT:
            if self.status is None:
                send(self.child, self.request["checkpoint_signal"])
        elif phase == TERM:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process handles no signal
                self._signal_group(number)
        else:
            if self.process_limit.over:
                self.process_limit.stop_all()
            for pid in proc.descendants(os.getpid()):
                send(pid, signal.SIGKILL)
            self.phase_ends_s = now_s + KILL_EVERY_S  # again, for those just being forked

    def _signal_group(self, number: int) -> None:
        """Signal the process group; by pid once the leader is reaped and its id may be reused."""
        if self.status is None:
            send(-self.child, number)
            return
        for pid in self._group():
            send(pid, number)

    def _group(self) -> list[int]:
        """Return the live processes of the job's process group."""
        processes = (proc.stat(pid) for pid in proc.descendants(os.getpid()))
        members = (process for process in processes if process and process.group == self.child)
        return [process.pid for process in members if not process.gone]

    def _record(self) -> None:
        code = self.status or 0
        ended_by = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
        end = {
            "exit_code": 128 + ended_by if ended_by else os.WEXITSTATUS(code),
            "signal": ended_by,
            "why": self.why,
            "message": self.message,
            "time_us": self._now_us(),
            **self.usage.record(),
            **self.tuned,
        }
        self.file = claim.restore(self.folder, self.head, self.file)
        claim.write_exit(self.file, end)
        os.close(self.file)

    def _now_us(self) -> int:
        return int(self.clock) + _mono_us()


def _mono_us() -> int:
    return time.monotonic_ns() // 1000
