"""Everything the worker process learns from the journal's jobs, behind `core.learning.Learner`.

| message | holds |
|---|---|
| `runs` | (job, number of like jobs that ended, *quantiles of its run time) of new jobs |
| `scaled` | (job, parallel part of a step, resizes it was measured by) |
| `loads` | forecasts of load, to be shown |
| `outlook` | forecasts for policies and tuners |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flyball.core.forecast import outlook_as_json
from flyball.core.job_facts import RunTime, SizeChange
from flyball.core.jobs import Job, JobSpec
from flyball.core.learning import Message
from flyball.core.units import US_PER_S
from flyball.learn import fit_process
from flyball.learn.loads import ClusterLoads
from flyball.learn.run_times import RunTimeLearner
from flyball.learn.scalings import ScalingLearner, TelemetrySeries

MAX_RUNS_PER_MESSAGE = 500
"""Largest number of predictions in one message, since each is written to the journal."""


class JournalLearner:
    """Run times, scalings and loads of one cluster.

    Attributes:
        run_times, scalings, loads: the parts.
        fits: grows trees in a process of its own.
    """

    def __init__(
        self,
        folder: Path,
        telemetry: TelemetrySeries | None = None,
        fits: fit_process.FitProcess | None = None,
    ) -> None:
        """
        Args:
            folder: where models are kept.
            telemetry: the monitor's series; None if there is no monitor.
        """
        self._folder, self._telemetry = folder, telemetry
        self.fits = fits or fit_process.FitProcess(folder)
        self.run_times = RunTimeLearner(folder / fit_process.CURRENT)
        self.scalings = ScalingLearner(telemetry)
        self.loads = ClusterLoads(lambda _spec: 0, telemetry)
        self._unsent: list[list[Any]] = []
        self._ended: dict[int, Job] = {}

    def begin(self, jobs: Sequence[Job], devices_of: Callable[[JobSpec], int], now_us: int) -> None:
        """Learn from the latest jobs, in order of submission.

        Args:
            devices_of: devices that a job holds while it runs, in thousandths.
        """
        self.run_times.begin(jobs)
        self.loads = ClusterLoads(devices_of, self._telemetry)
        self.loads.begin(jobs, now_us)
        self.scalings.begin(jobs)

    def observe(self, changes: Mapping[int, Job], now_us: int) -> list[Message]:
        """Learn from changed jobs; return predictions of new ones."""
        messages: list[Message] = []
        self._fit(now_us)
        self._ended |= {job.id: job for job in changes.values() if job.state.final}
        predictions = self.run_times.observe(changes)
        self._unsent += [[job, run.like, *run.quantiles] for job, run in predictions.items()]
        if rows := self._unsent[:MAX_RUNS_PER_MESSAGE]:
            self._unsent = self._unsent[MAX_RUNS_PER_MESSAGE:]
            messages.append({"runs": rows})
        if scaled := self.scalings.observe(changes):
            messages.append({"scaled": scaled})
        return messages

    def measure(self, resized: Sequence[SizeChange], now_us: int) -> list[Message]:
        """Measure how resized jobs scale."""
        scaled = self.scalings.measure(resized, now_us / US_PER_S)
        return [{"scaled": scaled}] if scaled else []

    def _fit(self, now_us: int) -> None:
        trees = self.fits.poll()
        if trees is not None:
            self.run_times.run_times.trees = trees
            fit_process.keep(self.run_times.run_times, self._folder)
        elif not self.fits.busy and self.run_times.fit_due:
            self.fits.start(self.run_times.training_rows(now_us))

    def every_minute(self, active: Iterable[Job], now_us: int) -> list[Message]:
        """Bring the load series up to now; return their forecasts."""
        self.loads.extend([*active, *self._ended.values()], now_us)
        self._ended = {
            number: job
            for number, job in self._ended.items()
            if job.end_us / US_PER_S >= self.loads.earliest_step_s
        }
        outlook = outlook_as_json(self.loads.outlook())
        return [{"loads": self.loads.messages(), "outlook": outlook}]

    def predict(self, spec: JobSpec, now_us: int) -> RunTime:
        """Predict the run time of a job that might be submitted."""
        return self.run_times.predict(spec, now_us)

    def status(self) -> dict[str, Any]:
        """Return how good predictions of load and run time have been."""
        return {
            "loads": self.loads.status(),
            "run_times": {**self.run_times.status(), "fit_error": self.fits.last_error},
        }

    def close(self) -> None:
        """Stop a fit that is under way."""
        self.fits.stop()
