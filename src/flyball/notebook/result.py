"""The result of `flyball.replay`: tables, figures, and why jobs waited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flyball.core.errors import BadInput, UnknownName
from flyball.core.metrics import without_nan
from flyball.core.units import US_PER_S, duration_text
from flyball.experiments.record_report import record_json
from flyball.experiments.replay import ReplayCase, Run, changes, differences
from flyball.experiments.report import (
    CHANGED,
    TIMES,
    USES,
    change_text,
    job_rows,
    policy_rows,
    report_json,
    title,
)
from flyball.experiments.timeline import MAX_SPANS, follow
from flyball.experiments.tuning.tuned import Arms, tuned_json
from flyball.experiments.tuning.tuned import rows as arm_rows
from flyball.notebook.inputs import in_python, python_errors, seconds
from flyball.notebook.table import Column, Row, Table, flat, pandas, plain, words
from flyball.notebook.why import Why, why

if TYPE_CHECKING:
    from flyball.experiments.figures import Picture

SHOWN = (
    *("completion_s", "completion_p50_s", "completion_p95_s", "wait_s", "slowdown_p95"),
    *("preemptions", "utilisation", "work_per_window", "energy_per_work", "cost"),
)
"""Metrics that `summary` shows; its rows have all."""
JOB_COLUMNS = (
    words("policy"),
    plain("seed"),
    words("job"),
    plain("submit_s", duration_text, "submitted"),
    plain("start_s", duration_text, "started"),
    plain("end_s", duration_text, "ended"),
    plain("wait_s", duration_text, "wait"),
    plain("devices"),
    words("pool", "device type"),
    plain("preemptions", str, "preempted (times)"),
    words("status"),
)


class Replay:
    """What came of a replay: every policy under every seed.

    Attributes:
        case: the cluster, the workloads, the policies and the effects that were run.
        runs: one per policy and seed, with its `summary` and its raw `results`.
    """

    def __init__(self, case: ReplayCase, runs: Sequence[Run], arms: Arms | None = None) -> None:
        self.case, self.runs = case, tuple(runs)
        self._arms = arms

    def __repr__(self) -> str:
        return repr(self.summary)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()

    @property
    def policies(self) -> list[str]:
        """Return the names of the policies, in order."""
        return [policy.name for policy in self.case.policies]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was left out, assumed or scaled when the trace was read."""
        return tuple(map(in_python, self.case.notes))

    # Tables ---------------------------------------------------------------------------

    @cached_property
    def summary(self) -> Table:
        """Return a row per policy: the metrics of `flyball replay`, as means over the seeds."""
        rows = policy_rows(self.runs, self.case)
        shown = [
            plain(metric.key, metric.text, metric.heading)
            for metric in (*TIMES, *USES)
            if metric.key in SHOWN
        ]
        return Table(title(self.case), rows, (words("policy"), *shown), self.notes)

    @cached_property
    def differences(self) -> Table:
        """Return the change of each policy in percent, paired by seed, with a 95 % interval.

        Tuned policies are compared with the same without tuners, others with the first one.

        Raises:
            BadInput: there is one policy only.
        """
        if len(self.case.policies) < 2:
            raise BadInput("one policy has nothing to differ from", "replay two or more")
        if self._arms is not None:
            gaps = changes(self.runs, self._arms.against)
        else:
            gaps = differences(self.runs)
        shown = [Column(heading, _change_cell, _interval(key)) for key, heading in CHANGED.items()]
        head = "Change in percent, paired by seed" + (
            ", with a 95 % interval" if self.case.seeds > 1 else "; one seed gives no interval"
        )
        return Table(
            head, list(map(_change_row, gaps)), (words("policy"), words("against"), *shown)
        )

    @cached_property
    def jobs(self) -> Table:
        """Return a row per policy, seed and job: times in seconds, as in `--per-job`."""
        rows = [
            _job_row(row)
            for run in self.runs
            if run.results is not None
            for row in job_rows(run, self.case)
        ]
        return Table(f"Jobs of {self.case.workloads[0].name}", rows, JOB_COLUMNS)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per policy and seed, and all metrics.

        Raises:
            DataAbsent: pandas is not installed.
        """
        rows = [flat(run.as_dict()) for run in self.runs]
        return pandas().DataFrame(rows)

    @property
    def recorded(self) -> dict[str, Any] | None:
        """Return what the trace recorded and how close each policy comes; None without that."""
        return record_json(self.runs, self.case, None)

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as `flyball replay --json` prints it."""
        if self._arms is None:
            report = report_json(self.runs, self.case)
        else:
            rows = arm_rows(self.runs, self._arms)
            report = {**tuned_json(self.runs, self.case), "rows": rows}
        as_json: dict[str, Any] = without_nan(report)
        return as_json

    # Figures --------------------------------------------------------------------------

    def plot(self) -> Picture:
        """Draw completion times, the queue, energy and cost of the first seed."""
        from flyball.experiments.figures import replay_drawing

        runs = [run for run in self.runs if run.seed == 0]
        return replay_drawing(runs, f"{self.case.workloads[0].name} on {self.case.cluster.name}")

    def gantt(
        self, policy: Any = None, *, seed: int = 0, begin: Any = 0, end: Any = None
    ) -> Picture:
        """Draw which job held which devices when; the policy is run once more for it.

        Args:
            policy: its name, or as it was given; None = the first one.
            seed: which run.
            begin, end: the span of time since the first submission: seconds, or e.g. `"6h"`;
                None = up to the end of the run.

        Raises:
            UnknownName: there is no such policy.
            BadInput: a span that cannot be drawn.
        """
        from flyball.experiments.gantt import gantt_figure

        with python_errors():
            run = self._run(policy, seed)
            index = self.policies.index(run.policy)
            twin = self.case.build(index, seed)
            start_us, outages = int(twin.state.clock[0].start_us), twin.state.outages
            end = run.summary.makespan_s if end is None else end
            begin_us, end_us = (
                start_us + round(seconds(instant, name) * US_PER_S)
                for instant, name in ((begin, "begin"), (end, "end"))
            )
            if end_us <= begin_us:
                raise BadInput(f"begin={begin!r} is not before end={end!r}", "widen the span")
            timeline = follow(twin, self.case.policies[index].decider, end_us)
            if timeline.full:
                raise BadInput(
                    f"more than {MAX_SPANS:,} starts cannot be drawn",
                    "draw a shorter span: gantt(begin='0h', end='12h')",
                )
        workload = self.case.workload(seed)
        return gantt_figure(
            timeline.spans,
            self.case.cluster,
            workload.ids.tolist(),
            f"{run.policy}: {workload.name} on {self.case.cluster.name}",
            (begin_us, end_us),
            start_us,
            [(int(outage.node), int(outage.down_us), int(outage.up_us)) for outage in outages],
        )

    # Reasons --------------------------------------------------------------------------

    def why(self, job: Any, policy: Any = None, *, seed: int = 0, at: Any = None) -> Why:
        """Explain why a job waited, as `flyball explain` does.

        Args:
            job: its name.
            policy: whose run; None = the first policy.
            seed: which run.
            at: an instant since the first submission: seconds, or e.g. `"6h"`; None = when the job
                was submitted, and half way to its start.

        Raises:
            BadInput: there is no such job, or the policy has tuners.
            UnknownName: there is no such policy.
        """
        with python_errors():
            run = self._run(policy, seed)
            return why(self.case, run, str(job), None if at is None else seconds(at, "at"))

    def _run(self, policy: Any, seed: int) -> Run:
        """Return the run of a policy, by its name or as it was given, and a seed."""
        label = getattr(policy, "name", None) or getattr(policy, "__name__", policy)
        name = self.policies[0] if policy is None else str(label)
        if name not in self.policies:
            raise UnknownName("policy of this replay", name, self.policies)
        if not 0 <= seed < self.case.seeds:
            raise BadInput(f"seed={seed} was not run", f"use 0 to {self.case.seeds - 1}")
        return self.runs[self.policies.index(name) * self.case.seeds + seed]


def _change_row(gap: dict[str, Any]) -> Row:
    """Return the change of every metric in percent, with its interval; None = not known."""
    row: Row = {"policy": gap["policy"], "against": gap["against"]}
    for key in CHANGED:
        parts = without_nan(gap[key].get("percent", [None] * 3))
        row |= dict(zip(_interval(key), parts, strict=True))
    return row


def _interval(key: str) -> tuple[str, str, str]:
    name = key.removesuffix("_s").removesuffix("_kwh")
    return f"{name}_percent", f"{name}_low", f"{name}_high"


def _change_cell(mean: float | None, low: float | None, high: float | None) -> str:
    parts = [math.nan if part is None else part for part in (mean, low, high)]
    return change_text({} if mean is None else {"percent": parts})


def _job_row(row: Any) -> Row:
    """Return a row of a job with its times in seconds."""
    return {
        name.removesuffix("_us") + "_s" if name.endswith("_us") else name: (
            value / US_PER_S if name.endswith("_us") and value is not None else value
        )
        for name, value in row._asdict().items()
    }
