"""Answers questions about a running cluster: why, when, how much, how well. Changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from flyball.control.ask import status
from flyball.control.ask.active_pages import Page, QueueQuery, in_order, page_of
from flyball.control.ask.bills import Prices
from flyball.control.ask.brief_queue import brief_queue
from flyball.control.ask.energy import measured
from flyball.control.ask.explain_job import explain_job
from flyball.control.ask.past import HISTORY_PARTS, Past
from flyball.control.ask.receipts import NOT_SAMPLED, Sampled, Seen, receipt
from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.ask.tuning_receipt import NO_STEPS
from flyball.control.ask.views import heading, job_view, node_views
from flyball.control.ask.waiting_tokens import WaitingTokens
from flyball.control.ask.worker_client import WorkerClient
from flyball.control.decide.decider import Decider
from flyball.control.jobs.adjustments import tuning_of
from flyball.control.jobs.progress import Progress
from flyball.control.jobs.request import Demand
from flyball.control.journal.store import JobQuery, Journal
from flyball.control.notify import notices
from flyball.core.errors import NotFound, Unavailable
from flyball.core.job_facts import Steps as ReportedSteps
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S
from flyball.monitor.features import Features, smoothed
from flyball.monitor.states import states
from flyball.physics.catalogue import unit_of


class Sensors(Protocol):
    """Returns what was measured, as `monitor.reader.Telemetry` does."""

    def latest(self) -> dict[str, Any]: ...
    def status(self) -> dict[str, Any]: ...
    def names(self) -> Sequence[str]: ...
    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...
    def features(self, name: str) -> Sequence[Features]: ...
    def states(self) -> dict[str, Any]: ...
    def ask_fast(self, seconds: float) -> None: ...


class Queries:
    """Answers questions about one cluster and its jobs.

    Attributes:
        sensors: what is measured; None if nothing is.
    """

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        nodes: Sequence[LiveNode],
        prices: Prices,
        decider: Decider,
        demand: Demand,
        forecaster: StartForecaster,
        worker: WorkerClient,
        progress: Progress,
        pulse: status.Pulse,
        cap_means: Callable[[Job], str],
        now_us: Callable[[], int],
    ) -> None:
        """
        Args:
            cap_means: returns by which means the engine keeps a job to its cap; empty if none.
        """
        self._folder, self._journal, self._nodes, self._prices = folder, journal, nodes, prices
        self._decider, self._forecaster, self._worker = decider, forecaster, worker
        self._live_state, self._columns = decider.live_state, decider.columns
        self._demand, self._progress, self._pulse = demand, progress, pulse
        self._cap_means, self._now_us = cap_means, now_us
        self._tokens = WaitingTokens(decider.live_state, decider)
        self._past = Past(journal, nodes, decider, prices, self._active, now_us)
        self._new_events = threading.Condition()
        self.sensors: Sensors | None = None
        self.files: Path | None = None

    def job(self, job: int) -> Job:
        """Return a job, active or ended.

        Raises:
            NotFound: no such job.
        """
        record = self._live_state.get(job) or self._journal.job(job)
        if record is None:
            raise NotFound(f"no job {job}", "see flyball queue --all")
        return record

    def jobs(self, query: JobQuery) -> list[Job]:
        """Return a page of jobs, newest first."""
        return self._journal.jobs(query).jobs

    def view(self, job: Job) -> dict[str, Any]:
        """Return a job as the API shows it."""
        more = {
            "progress": self._progress.of(job),
            "notify": notices.view(job),
            "class": self._demand.classes.view(job.spec),
        }
        return job_view(job, self._nodes, self._cap_means(job)) | more

    def queue(self, query: QueueQuery | None = None) -> list[Job]:
        """Return active jobs: running ones, then pending ones by priority and time of submission.

        Args:
            query: selects jobs; None selects all.
        """
        jobs = self._active()
        chosen = jobs if query is None else filter(query.wants, jobs)
        return in_order(chosen, self._demand.classes.priority)

    def queue_page(self, query: QueueQuery) -> tuple[Page, dict[int, str]]:
        """Return a page of the queue, and the token of each job in it that waits.

        Raises:
            BadInput: a cursor that is not from a page.
        """
        page = page_of(self._active(), query, self._demand.classes.priority)
        return page, self.waiting_tokens(page.jobs)

    def waiting_tokens(self, jobs: Sequence[Job]) -> dict[int, str]:
        """Return why each of these jobs waits, as a token; jobs that do not wait are left out."""
        return self._tokens.of(jobs, self._now_us())

    def brief_queue(self) -> dict[str, Any]:
        """Return all active jobs in short, in the order of `queue`, and the last event's number."""
        seq, jobs = self._live_state.seq, self.queue()
        return {"seq": seq, **brief_queue(jobs, self.waiting_tokens(jobs), self._nodes)}

    def queue_jobs(self) -> list[Job]:
        """Return the active jobs in no order, which costs less than `queue`."""
        return self._active()

    def _active(self) -> list[Job]:
        with self._live_state.lock:
            return list(self._live_state.jobs.values())

    def why(self, job: int) -> dict[str, Any]:
        """Return why a job waits, what would help, when it starts, its class, and its tuning."""
        record = self.job(job)
        answer = heading(record, self._nodes) | explain_job(
            record, self._live_state, self._decider, self._forecaster, self._now_us()
        )
        of_class = self._demand.classes.view(record.spec) | {"cluster": self._decider.lead.view()}
        more = {"tuning": tuning_of(record), "class": of_class, "learned": self.learned()}
        return answer | more

    def learned(self) -> dict[str, Any] | None:
        """Return what the learned policy chose last, and how often it fell back; None = none."""
        governor = self._decider.governor
        return None if governor is None else governor.view()

    def receipt(self, job: int) -> dict[str, Any]:
        """Return what a job used."""
        record = self.job(job)
        return heading(record, self._nodes) | self._costs(record)

    def _costs(self, record: Job) -> dict[str, Any]:
        now_us = self._now_us()
        seen = Seen(
            self._reported(record, now_us),
            self._sampled(record, now_us),
            measured(record, self._nodes, self.sensors, now_us),
            self._progress.of(record) or {},
        )
        return receipt(record, self._decider.cluster, self._prices, now_us, seen)

    def _sampled(self, job: Job, now_us: int) -> Sampled:
        """Return the memory that the agent sampled, as `show` and `top` show it."""
        if self.sensors is None or not job.first_start_us:
            return NOT_SAMPLED
        since_s = (now_us - job.first_start_us) / US_PER_S
        _times, sizes = self.sensors.series(f"jobs.{job.id}.memory_bytes", since_s)
        return Sampled(float(max(sizes)) / 2**20, len(sizes)) if len(sizes) else NOT_SAMPLED

    def _reported(self, job: Job, now_us: int) -> ReportedSteps:
        """Return the recorded steps of a tuned job."""
        if self.sensors is None or not job.first_start_us or tuning_of(job) is None:
            return NO_STEPS
        since_s = (now_us - job.first_start_us) / US_PER_S
        times, steps = self.sensors.series(f"application.{job.id}.step", since_s)
        return times.tolist(), steps.tolist()

    def forecast(self) -> dict[str, Any]:
        """Return forecasts of starts and of load, and how good forecasts have been."""
        return {"starts": self.expected_starts(), **self.outlook()}

    def expected_starts(self) -> list[dict[str, Any]]:
        """Return when each pending job starts, in the order of the queue, by roll-outs."""
        starts = self._forecaster.starts(self._now_us())
        pending = [job for job in self.queue() if job.state == JobState.PENDING]
        return [{"id": job.id, **asdict(starts[job.id])} for job in pending if job.id in starts]

    def outlook(self) -> dict[str, Any]:
        """Return forecasts without those of starts, which take roll-outs."""
        left_out = list(self._decider.tuning.left_out)
        about = {"note": self._forecaster.note(self._now_us()), "left_out": left_out}
        return {**about, "learned": self.learned(), **self._worker.forecasts()}

    def would_start(self, spec: JobSpec) -> dict[str, Any]:
        """Return whether and when a job that passed admission would start if submitted now."""
        now_us = self._now_us()
        free = replace(spec, hold=False, begin_time=0.0)
        start = None if spec.hold else self._forecaster.if_submitted(free, now_us)
        if start is not None:  # it starts when it may begin and there is room
            ahead_s = max(0.0, spec.begin_time - now_us / US_PER_S)
            p50_s, p90_s = max(start.p50_s, ahead_s), max(start.p90_s, ahead_s)
            start = replace(start, p50_s=p50_s, p90_s=p90_s)
        asks = self._demand.of(spec)
        groups = self._decider.cluster.groups
        device = groups[0].device
        return {
            "would_start": start is not None,
            "devices": asks.devices,
            "device": device,
            "unit": unit_of(groups),
            **(asdict(start) if start else {"p50_s": None, "p90_s": None, "method": ""}),
        }

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes, and the jobs on each."""
        with self._live_state.lock:
            running = list(self._columns.running.values())
            live = self._live_state
            return node_views(self._nodes, running, live.node_notes, live.others)

    def signals(self) -> dict[str, Any]:
        """Return the present price and carbon intensity; empty where there are none."""
        return self._prices.now(self._now_us())

    def decisions(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return recorded decisions with a number above `after`."""
        return [{"seq": seq, **event} for seq, event in self._journal.decisions(after, limit)]

    def last_decision(self) -> int:
        """Return the number of the last decision, 0 = none."""
        return self._journal.last_decision()

    def history(
        self, since_s: float, until_s: float, limit: int, parts: Set[str] = HISTORY_PARTS
    ) -> dict[str, Any]:
        """Return what ran where within a span, and what it came to; see `Past`."""
        return self._past.history(since_s, until_s, limit, parts)

    def today(self) -> dict[str, Any]:
        """Return the energy of the running day, and what it has used of the budgets."""
        return self._past.today()

    def events(
        self, after: int, limit: int, kinds: Sequence[str] = (), job: int = 0
    ) -> list[dict[str, Any]]:
        """Return recorded events numbered above `after`."""
        rows = self._journal.records(after, limit, kinds, job)
        return [{"seq": seq, **event} for seq, event in rows]

    def announce_events(self) -> None:
        """Wake those that wait for events."""
        with self._new_events:
            self._new_events.notify_all()

    def wait_events(self, after: int, timeout_s: float) -> int:
        """Return the newest event's number, once it is above `after` or after the timeout."""
        with self._new_events:
            self._new_events.wait_for(lambda: self._live_state.seq > after, timeout_s)
        return self._live_state.seq

    def health(self) -> dict[str, Any]:
        """Return whether journal and loop work, by trying them."""
        return status.health(self._journal, self._pulse, self._now_us)

    def metrics(self) -> list[status.Metric]:
        """Return the metrics for Prometheus."""
        number = self._decider.number
        rows = status.metrics(self._live_state, self._journal, self._pulse, self._nodes, number)
        now = self.signals()
        rows += status.learned_metrics(self.learned())
        return rows + [
            (f"flyball_{name}", {}, float(now[name]))
            for name in ("price_per_kwh", "carbon_g_per_kwh")
            if name in now
        ]

    def telemetry(self) -> dict[str, Any]:
        """Return the latest value of everything that is measured."""
        return self.sensors.latest() if self.sensors else {}

    def series(
        self,
        name: str,
        seconds: float,
        smooth: str = "none",
        window_s: float = 1.0,
        features: bool = False,
    ) -> dict[str, Any]:
        """Return one measured series over the last seconds.

        Args:
            smooth: noise filter: `none`, `median`, `mean` or `exponential`.
            window_s: width of the filter.
            features: adds statistics over the last 1, 10 and 60 s.

        Raises:
            NotFound: nothing of that name is measured.
        """
        if self.sensors is None or name not in self.sensors.names():
            raise NotFound(f"nothing called {name!r} is measured", "see /api/v1/telemetry")
        times, values = self.sensors.series(name, seconds)
        values = smoothed(times, values, smooth, window_s)
        series = {"name": name, "times": times.tolist(), "values": values.tolist()}
        if features:
            series["features"] = [span._asdict() for span in self.sensors.features(name)]
        return series

    def sensor_states(self) -> dict[str, Any]:
        """Return the state of the monitoring agent and of each sensor."""
        return states({}, float("inf")) if self.sensors is None else self.sensors.states()

    def fast(self, seconds: float) -> dict[str, Any]:
        """Have everything sampled at the fastest rates for some seconds.

        Raises:
            Unavailable: no agent runs.
        """
        if self.sensors is None or not self.sensors.states()["alive"]:
            raise Unavailable("no monitoring agent runs", "see agent.log in the state folder")
        try:
            self.sensors.ask_fast(seconds)
        except OSError as error:
            raise Unavailable(f"the agent cannot be notified: {error}", "check the disk") from error
        return {"seconds": seconds}

    def log_path(self, job: int, attempt: int = 0, stream: str = "stdout") -> Path:
        """Return where a job's output is; that of its last attempt if none is given.

        Args:
            stream: `stdout` or `stderr`; both are in one file unless the job requested two.

        Raises:
            NotFound: no such job or attempt.
        """
        record = self.job(job)
        attempt = attempt or record.attempt
        if not 1 <= attempt <= record.attempt:
            raise NotFound(f"job {job} has no attempt {attempt}", "it has not started yet")
        if stream == "stderr" and record.spec.separate_stderr:
            return Path(record.spec.stderr)
        if record.spec.stdout:
            return Path(record.spec.stdout)
        return (self.files or self._folder) / "logs" / f"{job}.{attempt}.out"
