"""What a control plane answers: why, when, how much, how well. It changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from flyball.control.ask import status
from flyball.control.ask.active_pages import Page, QueueQuery, in_order, page_of
from flyball.control.ask.energy import measured
from flyball.control.ask.explain_job import explain_job
from flyball.control.ask.receipts import NOT_SAMPLED, Prices, Sampled, Seen, receipt
from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.ask.tuning_receipt import NO_STEPS
from flyball.control.ask.views import node_views
from flyball.control.ask.waiting_tokens import Tokens
from flyball.control.ask.worker_client import WorkerClient
from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import Table
from flyball.control.jobs.adjustments import tuning_of
from flyball.control.jobs.live_state import Book
from flyball.control.jobs.progress import Progress
from flyball.control.jobs.request import Demand
from flyball.control.journal.store import Journal
from flyball.core.cluster import Cluster
from flyball.core.errors import NotFound, Unavailable
from flyball.core.job_facts import Steps as ReportedSteps
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import EventKind, LiveNode
from flyball.core.units import US_PER_S
from flyball.monitor.features import Features, smoothed
from flyball.monitor.states import states
from flyball.physics.catalogue import unit_of


class Sensors(Protocol):
    """What was measured: `monitor.reader.Telemetry`."""

    def latest(self) -> dict[str, Any]: ...
    def status(self) -> dict[str, Any]: ...
    def names(self) -> Sequence[str]: ...
    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...
    def features(self, name: str) -> Sequence[Features]: ...
    def states(self) -> dict[str, Any]: ...
    def ask_fast(self, seconds: float) -> None: ...


class Answers:
    """The part of `Plane` that only looks.

    Attributes:
        worker: what the worker process last reported.
        sensors: what was measured, None = nothing is.
    """

    folder: Path
    book: Book
    journal: Journal
    table: Table
    decider: Decider
    demand: Demand
    cluster: Cluster
    prices: Prices
    progress: Progress
    forecaster: StartForecaster
    tokens: Tokens
    worker: WorkerClient
    pulse: status.Pulse
    nodes_: tuple[LiveNode, ...]
    now_us: Callable[[], int]
    sensors: Sensors | None
    _news: threading.Condition

    def job(self, job: int) -> Job:
        """A job, active or not.

        Raises:
            NotFound: no such job.
        """
        found = self.book.get(job) or self.journal.job(job)
        if found is None:
            raise NotFound(f"no job {job}", "see flyball queue --all")
        return found

    def queue(self, query: QueueQuery | None = None) -> list[Job]:
        """Active jobs: what runs, then what waits, by priority and time of submission.

        Args:
            query: only what it asks for, however many these are; None = all.
        """
        jobs = self._active()
        return in_order(jobs if query is None else filter(query.wants, jobs))

    def queue_page(self, query: QueueQuery) -> tuple[Page, dict[int, str]]:
        """A page of the same, and why each of its jobs waits, as a token.

        Raises:
            BadInput: a cursor that no page gave.
        """
        page = page_of(self._active(), query)
        return page, self.waiting_tokens(page.jobs)

    def waiting_tokens(self, jobs: Sequence[Job]) -> dict[int, str]:
        """Why each of these jobs waits, as a token; those that do not wait are left out."""
        return self.tokens.of(jobs, self.now_us())

    def _active(self) -> list[Job]:
        with self.book.lock:
            return list(self.book.jobs.values())

    def why(self, job: int) -> dict[str, Any]:
        """Why a job waits, what would help, and when it starts; and what tuning did to it."""
        found = self.job(job)
        answer = explain_job(found, self.book, self.decider, self.forecaster, self.now_us())
        return answer | {"tuning": tuning_of(found)}

    def receipt(self, job: int) -> dict[str, Any]:
        """What a job took."""
        found, now_us = self.job(job), self.now_us()
        seen = Seen(
            self._reported(found, now_us),
            self._sampled(found, now_us),
            measured(found, self.nodes_, self.sensors, now_us),
            self.progress.of(found) or {},
        )
        return receipt(found, self.cluster, self.prices, now_us, seen)

    def _sampled(self, job: Job, now_us: int) -> Sampled:
        """The memory that the agent saw, which is what `show` and `top` showed of the job."""
        if self.sensors is None or not job.first_start_us:
            return NOT_SAMPLED
        since_s = (now_us - job.first_start_us) / US_PER_S
        _times, sizes = self.sensors.series(f"jobs.{job.id}.memory_bytes", since_s)
        return Sampled(float(max(sizes)) / 2**20, len(sizes)) if len(sizes) else NOT_SAMPLED

    def _reported(self, job: Job, now_us: int) -> ReportedSteps:
        """The steps that a tuned job reported, as far as they were measured."""
        if self.sensors is None or not job.first_start_us or tuning_of(job) is None:
            return NO_STEPS
        since_s = (now_us - job.first_start_us) / US_PER_S
        times, steps = self.sensors.series(f"application.{job.id}.step", since_s)
        return times.tolist(), steps.tolist()

    def forecast(self) -> dict[str, Any]:
        """When each pending job is expected to start, how loaded the cluster will be, and how good
        such forecasts have been."""
        now_us = self.now_us()
        starts = self.forecaster.starts(now_us)
        pending = [job for job in self.queue() if job.state == JobState.PENDING]
        rows = [{"id": job.id, **asdict(starts[job.id])} for job in pending if job.id in starts]
        return {"starts": rows, "note": self.forecaster.note(now_us), **self.worker.forecasts()}

    def _dry_run(self, spec: JobSpec) -> dict[str, Any]:
        """Whether and when a job that can run here would start if it were submitted now."""
        now_us = self.now_us()
        free = replace(spec, hold=False, begin_time=0.0)
        found = None if spec.hold else self.forecaster.if_submitted(free, now_us)
        if found is not None:  # it starts when it may begin and there is room
            ahead_s = max(0.0, spec.begin_time - now_us / US_PER_S)
            p50_s, p90_s = max(found.p50_s, ahead_s), max(found.p90_s, ahead_s)
            found = replace(found, p50_s=p50_s, p90_s=p90_s)
        asks = self.demand.of(spec)
        device = self.cluster.groups[0].device
        return {
            "would_start": found is not None,
            "devices": asks.devices,
            "device": device,
            "unit": unit_of(self.cluster.groups),
            **(asdict(found) if found else {"p50_s": None, "p90_s": None, "method": ""}),
        }

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, and who is on them."""
        with self.book.lock:
            return node_views(self.nodes_, list(self.table.running.values()), self.book.down)

    def decisions(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Recorded decisions with a number above `after`."""
        return [{"seq": seq, **event} for seq, event in self.journal.decisions(after, limit)]

    def events(
        self, after: int, limit: int, kinds: Sequence[str] = (), job: int = 0
    ) -> list[dict[str, Any]]:
        """Recorded events numbered above `after`."""
        found = self.journal.events(after, limit, kinds, job)
        return [{"seq": seq, **event} for seq, event in found]

    def wait_events(self, after: int, timeout_s: float) -> int:
        """The newest event's number, as soon as it is above `after` or the time is up."""
        with self._news:
            self._news.wait_for(lambda: self.book.seq > after, timeout_s)
        return self.book.seq

    def health(self) -> dict[str, Any]:
        """Whether the queue works, tried out."""
        return status.health(self.journal, self.pulse, self.now_us)

    def metrics(self) -> list[status.Metric]:
        """Numbers for Prometheus."""
        return status.metrics(self.book, self.journal, self.pulse, self.nodes_, self.decider.number)

    def telemetry(self) -> dict[str, Any]:
        """The latest of everything that is measured."""
        return self.sensors.latest() if self.sensors else {}

    def series(
        self,
        name: str,
        seconds: float,
        smooth: str = "none",
        window_s: float = 1.0,
        features: bool = False,
    ) -> dict[str, Any]:
        """One measured series over the last so many seconds.

        Args:
            smooth: against noise: `none`, `median`, `mean` or `exponential`.
            window_s: over which it is smoothed.
            features: also what it was like over the last 1, 10 and 60 s.

        Raises:
            NotFound: nothing of that name is measured.
        """
        if self.sensors is None or name not in self.sensors.names():
            raise NotFound(f"nothing called {name!r} is measured", "see /api/v1/telemetry")
        times, values = self.sensors.series(name, seconds)
        values = smoothed(times, values, smooth, window_s)
        found = {"name": name, "times": times.tolist(), "values": values.tolist()}
        if features:
            found["features"] = [each._asdict() for each in self.sensors.features(name)]
        return found

    def sensor_states(self) -> dict[str, Any]:
        """The monitoring agent and each of its sensors."""
        return states({}, float("inf")) if self.sensors is None else self.sensors.states()

    def fast(self, seconds: float) -> dict[str, Any]:
        """Have everything sampled at the fastest rates for so many seconds.

        Raises:
            Unavailable: nobody samples.
        """
        if self.sensors is None or not self.sensors.states()["alive"]:
            raise Unavailable("no monitoring agent runs", "see agent.log in the state folder")
        try:
            self.sensors.ask_fast(seconds)
        except OSError as error:
            raise Unavailable(f"the agent cannot be told: {error}", "mend the disk") from error
        return {"seconds": seconds}

    def log_path(self, job: int, attempt: int = 0, stream: str = "stdout") -> Path:
        """Where a job's output is; of its last attempt if none is named.

        Args:
            stream: `stdout` or `stderr`; both are in one file unless the job asked for two.

        Raises:
            NotFound: no such job or attempt.
        """
        found = self.job(job)
        attempt = attempt or found.attempt
        if not 1 <= attempt <= found.attempt:
            raise NotFound(f"job {job} has no attempt {attempt}", "it has not started yet")
        if stream == "stderr" and found.spec.separate_stderr:
            return Path(found.spec.stderr)
        if found.spec.stdout:
            return Path(found.spec.stdout)
        return self.folder / "logs" / f"{job}.{attempt}.out"

    def audit(self, what: str, who: str) -> None:
        """Put something on record that is not about a job."""
        event = {"kind": EventKind.AUDIT, "time_us": self.now_us(), "what": what, "who": who}
        self.journal.append([event])
