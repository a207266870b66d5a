"""The screens of one job: its state, progress and log, and the question before it is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, ProgressBar, RichLog, Sparkline, Static

from flyball.cli.formats import Job, clean, clock_text, heading, size_text, span_s
from flyball.cli.jobs.show import progress_text
from flyball.cli.jobs.why import lines as why_lines
from flyball.cli.top.poll import JobMoment, LogPlace, Poll
from flyball.core.jobs import ACTIVE, JobState
from flyball.sdk.errors import ApiError

MOST_POINTS = 200
"""Number of reported losses that the line of the loss shows."""


class ConfirmScreen(ModalScreen[bool]):
    """Asks a question whose answer is yes or no; no is the default."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,enter", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Static(Text(self._question))
            yield Static(Text("y = yes, n = no", "bold"))

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


def cancel_question(job: Job) -> str:
    """Return the question before a job is cancelled, with what would be lost."""
    ran = f", running for {clock_text(span_s(job, time.time()))}" if job["start_time"] else ""
    owner = f" of {clean(job['user'])}" if job["user"] else ""
    tasks = " Its other tasks go on." if job["array_id"] else ""
    return f"Cancel job {clean(job['label'])} ({clean(job['name'])}){owner}{ran}?{tasks}"


class JobScreen(Screen[None]):
    """Shows one job until it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "back"),
        Binding("c", "cancel", "cancel job"),
        Binding("f", "follow", "follow log"),
    ]

    def __init__(self, poll: Poll, job_id: int, every_s: float) -> None:
        super().__init__()
        self._poll, self._job_id, self._every_s = poll, job_id, every_s
        self._job: Job | None = None
        self._place, self._asking = LogPlace(), threading.Lock()
        self._losses: list[float] = []
        self._last_report: Mapping[str, Any] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="job-head")
        yield ProgressBar(id="job-progress", show_eta=False)
        yield Sparkline([], id="job-loss")
        yield Static(id="job-facts")
        yield RichLog(id="job-log", highlight=False, markup=False, wrap=True, max_lines=10_000)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#job-progress").display = False
        self.query_one("#job-loss").display = False
        self.query_one("#job-log").border_title = "log"
        self._refresh_job()
        self.set_interval(self._every_s, self._refresh_job)

    @work(thread=True, group="job", exit_on_error=False)
    def _refresh_job(self) -> None:
        """Ask the server, unless an earlier question is still open."""
        if not self._asking.acquire(blocking=False):
            return
        try:
            moment = self._poll.job(self._job_id, self._place)
        except ApiError as error:
            self.app.call_from_thread(self._say, f"{error.detail}")
        else:
            self.app.call_from_thread(self._show, moment)
        finally:
            self._asking.release()

    def _write(self, line: str) -> None:
        """Add a line to the log; it keeps its colours and cannot control the terminal."""
        text = Text.from_ansi(line.rstrip("\r"))
        text.plain = "".join(c if c.isprintable() or c == "\t" else "?" for c in text.plain)
        self.query_one("#job-log", RichLog).write(text)

    def _say(self, message: str) -> None:
        if self.is_attached:
            self.query_one("#job-head", Static).update(Text(f"no answer: {message}", "bold red"))

    def _show(self, moment: JobMoment) -> None:
        if not self.is_attached:
            return
        job = self._job = moment.job
        self.query_one("#job-head", Static).update(Text(heading(job), "bold"))
        self.query_one("#job-facts", Static).update(Text("\n".join(facts(moment, time.time()))))
        self._show_progress(job)
        for line in moment.lines:
            self._write(line)

    def _show_progress(self, job: Job) -> None:
        bar, share = self.query_one("#job-progress", ProgressBar), progress_share(job, time.time())
        bar.display = share is not None
        if share is not None:
            bar.update(total=100.0, progress=100.0 * share)
        report = job.get("progress") or {}
        loss = report.get("loss")
        if report != self._last_report and isinstance(loss, int | float):
            self._losses = [*self._losses, float(loss)][-MOST_POINTS:]
            line = self.query_one("#job-loss", Sparkline)
            line.data, line.display = self._losses, len(self._losses) > 1
        self._last_report = report

    def action_follow(self) -> None:
        """Keep the log at its end, or leave it where it is."""
        log = self.query_one("#job-log", RichLog)
        log.auto_scroll = not log.auto_scroll
        log.border_title = "log" if log.auto_scroll else "log (not following)"

    @work
    async def action_cancel(self) -> None:
        """Cancel the job, after a question."""
        if self._job is not None:
            await ask_and_cancel(self, self._poll, self._job)


async def ask_and_cancel(screen: Screen[Any], poll: Poll, job: Job) -> None:
    """Cancel a job if the token may and the user says yes; say how it went."""
    if job["state"] not in ACTIVE:
        screen.notify(f"job {job['label']} has ended: {job['state']}", severity="warning")
        return
    try:
        if why_not := await in_thread(screen, poll.may_change, str(job["user"])):
            screen.notify(why_not, severity="warning", markup=False)
            return
        if not await screen.app.push_screen_wait(ConfirmScreen(cancel_question(job))):
            return
        stopped = await in_thread(screen, poll.cancel, int(job["id"]))
    except ApiError as error:
        screen.notify(f"{error.detail}; {error.remedy}", severity="error", markup=False)
        return
    said = "is being stopped" if stopped else "had ended already"
    screen.notify(f"job {clean(job['label'])} {said}", markup=False)


async def in_thread(screen: Screen[Any], function: Any, *args: Any) -> Any:
    """Return what a function returns that waits for the server."""
    import asyncio

    return await asyncio.to_thread(function, *args)


def progress_share(job: Job, now: float) -> float | None:
    """Return how far a running job is: by the steps that it reports, else by its expected time.

    None if neither is known.
    """
    if job["state"] not in (JobState.RUNNING, JobState.COMPLETING):
        return None
    report, spec = job.get("progress") or {}, job.get("spec") or {}
    for total in ("steps", "total_steps", "max_steps"):
        if isinstance(report.get("step"), int | float) and report.get(total):
            return min(1.0, float(report["step"]) / float(report[total]))
    expected_s = spec.get("estimate_s") or spec.get("limit_s")
    ran_s = span_s(job, now)
    return min(1.0, ran_s / expected_s) if expected_s and ran_s is not None else None


def facts(moment: JobMoment, now: float) -> Iterator[str]:
    """Yield what is worth knowing of a job in a few lines."""
    job = moment.job
    size = f"{job['gpus']} GPUs" if job["gpus"] else f"{job['cpus']} cores"
    memory = f", {size_text(job['memory_mib'])}" if job["memory_mib"] else ""
    where = f" on {clean(job['node'])}" if job["node"] else ""
    owner = f"{clean(job['user'])}, " if job["user"] else ""
    yield f"{owner}{size}{memory}{where}, {clock_text(span_s(job, now))}, attempt {job['attempts']}"
    if progress := progress_text(job):
        yield progress
    if job["reason"]:
        yield clean(job["reason"])
    if moment.why:
        yield from (clean(line) for line in list(why_lines({**job, **moment.why}))[1:])
