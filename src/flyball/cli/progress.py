"""Progress and remaining time of long work: a bar on a terminal, else a line at intervals.

Always on stderr. With `--json` nothing is shown, since the caller is a program.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import typer

from flyball.core.units import duration_text

LINE_EVERY_S = 15.0
"""Interval between lines where there is no terminal; shorter work prints nothing."""

Advance = Callable[[str], None]


@dataclass
class Meter:
    """Counts finished tasks and estimates the remaining time.

    Attributes:
        label: what is being done.
        total: number of tasks.
        began_s: reading of the clock at the start.
        done: number of finished tasks.
        last: name of the task that finished last.
    """

    label: str
    total: int
    began_s: float
    done: int = 0
    last: str = ""

    def left_s(self, now_s: float) -> float | None:
        """Return the remaining time at the mean speed so far; None = no task has finished."""
        if not self.done:
            return None
        return (now_s - self.began_s) / self.done * max(self.total - self.done, 0)

    def line(self, now_s: float) -> str:
        """Return `replaying: 3 of 12 done (easy), 40 s gone, about 2 min left`."""
        last = f" ({self.last})" if self.last else ""
        left_s = self.left_s(now_s)
        left = "no estimate yet" if left_s is None else f"about {duration_text(left_s)} left"
        gone = duration_text(now_s - self.began_s)
        return f"{self.label}: {self.done} of {self.total} done{last}, {gone} gone, {left}"


@contextlib.contextmanager
def progress(label: str, total: int, quiet: bool = False) -> Iterator[Advance]:
    """Show progress over `total` tasks; call the yielded function with each finished task.

    Args:
        label: what is being done.
        total: number of tasks.
        quiet: show nothing, as with `--json`.
    """
    if quiet:
        yield lambda _done: None
    elif sys.stderr.isatty():
        with _bar(label, total) as advance:
            yield advance
    else:
        with _lines(label, total) as advance:
            yield advance


@contextlib.contextmanager
def _bar(label: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
    )
    # The estimate averages over all tasks, since replays differ a hundredfold in length.
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=86_400) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, advance=1, description=f"{label} {done}")


@contextlib.contextmanager
def _lines(label: str, total: int) -> Iterator[Advance]:
    """Print lines from a thread, since a single task may take minutes."""
    meter = Meter(label, total, time.monotonic())
    over = threading.Event()

    def advance(done: str) -> None:
        meter.done, meter.last = meter.done + 1, done

    def print_lines() -> None:
        while not over.wait(LINE_EVERY_S):
            typer.echo(meter.line(time.monotonic()), err=True)

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield advance
    finally:
        over.set()
        printer.join()
