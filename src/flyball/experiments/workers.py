"""Worker processes: run the tasks of one runner on every core; all end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from flyball.app import warm
from flyball.core.errors import DataAbsent, FlyballError

POOL_PAYS_S = 4.0
"""Least remaining work for which workers pay: starting them costs about two seconds of imports."""

Result = TypeVar("Result")
Shown = TypeVar("Shown", covariant=True)


class Runner(Protocol[Shown]):
    """Runs tasks and can be sent to another process, as a `replay.ReplayCase` can."""

    @property
    def run(self) -> Callable[..., Shown]: ...


class Workers(Generic[Result]):
    """Processes that run tasks of one runner; started when needed, kept until the end.

    Use it in a `with` statement: leaving with an error ends them at once.

    Args:
        runner: sent to each worker once; its `run` is called with a task's parts.
        most: processes at most; None = as many as cores.
    """

    def __init__(self, runner: Runner[Result], most: int | None = None) -> None:
        self._runner, self._most = runner, most or usable_cores()
        self._pool: ProcessPoolExecutor | None = None
        self._timed, self._spent_s = 0, 0.0

    def run(self, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[tuple[Any, ...], Result]]:
        """Yield each task and its result as they end: here while that is quick, else in workers."""
        left = list(tasks)
        while left and not self._pays(len(left)):
            task = left.pop(0)
            began = time.perf_counter()
            result = self._runner.run(*task)
            # The first task includes what is loaded only once, so it is not representative.
            self._spent_s += time.perf_counter() - began if self._timed else 0.0
            self._timed += 1
            yield task, result
        yield from self.send(left)

    def _pays(self, tasks: int) -> bool:
        if self._most == 1 or self._pool is not None:
            return self._pool is not None
        return self._timed > 1 and self._spent_s / (self._timed - 1) * tasks >= POOL_PAYS_S

    def send(self, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, Result]]:
        """Yield each task and its result as they end, all from workers.

        Raises:
            DataAbsent: a worker died.
            FlyballError: the error of the first task that failed.
        """
        if not tasks:
            return
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._most, spawn, initializer=_start_worker, initargs=(self._runner,)
            )
        try:
            waiting = {self._pool.submit(_work, task): task for task in tasks}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool:
            raise DataAbsent(
                "a worker process died, perhaps for lack of memory", "try again with --workers 1"
            ) from None

    def __enter__(self) -> Workers[Result]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is None:
            return
        if error is not None:
            for child in multiprocessing.active_children():
                child.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_runner: Runner[Any] | None = None  # in a worker process; sent once, not with every task


def _start_worker(runner: Runner[Any]) -> None:
    global _runner
    _runner = runner
    sys.stdout = sys.stderr  # the parent's output is its own; policies of users may print
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    warm()


def _leave_with_parent() -> None:
    """Exit when the parent ends, however it does; else a worker would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(task: Any) -> Any:
    assert _runner is not None
    try:
        return _runner.run(*task)
    except FlyballError as error:  # as one that can be pickled
        plain = FlyballError(str(error))
        plain.details = error.details
        raise plain from None
