"""How far long work is and how long it still takes: a bar on a terminal, else a line now and then.

Always on stderr. With `--json` nothing is shown: whoever asked for JSON is a program.
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
"""Between two lines where there is no terminal; shorter work says nothing."""

Advance = Callable[[str], None]


@dataclass
class Meter:
    """Counts what is done and estimates the rest.

    Attributes:
        label: what is being done.
        total: pieces of work in all.
        began_s: reading of the clock at the beginning.
        done: pieces done.
        last: the piece that was done last.
    """

    label: str
    total: int
    began_s: float
    done: int = 0
    last: str = ""

    def left_s(self, now_s: float) -> float | None:
        """The remaining time if the rest goes as fast as what is done; None = nothing is yet."""
        if not self.done:
            return None
        return (now_s - self.began_s) / self.done * max(self.total - self.done, 0)

    def line(self, now_s: float) -> str:
        """`replaying: 3 of 12 done (easy), 40 s gone, about 2 min left`."""
        last = f" ({self.last})" if self.last else ""
        left_s = self.left_s(now_s)
        left = "no estimate yet" if left_s is None else f"about {duration_text(left_s)} left"
        gone = duration_text(now_s - self.began_s)
        return f"{self.label}: {self.done} of {self.total} done{last}, {gone} gone, {left}"


@contextlib.contextmanager
def progress(label: str, total: int, quiet: bool = False) -> Iterator[Advance]:
    """Show how far `total` pieces of work are; call what is yielded with each that is done.

    Args:
        label: what is being done.
        total: pieces of work.
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
    # The estimate looks back over all pieces: those of replays differ a hundredfold in length.
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=86_400) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, advance=1, description=f"{label} {done}")


@contextlib.contextmanager
def _lines(label: str, total: int) -> Iterator[Advance]:
    """A thread writes the lines: a single piece may take minutes."""
    meter = Meter(label, total, time.monotonic())
    over = threading.Event()

    def advance(done: str) -> None:
        meter.done, meter.last = meter.done + 1, done

    def speak() -> None:
        while not over.wait(LINE_EVERY_S):
            typer.echo(meter.line(time.monotonic()), err=True)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield advance
    finally:
        over.set()
        speaker.join()
