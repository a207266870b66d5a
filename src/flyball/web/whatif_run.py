"""Replays a span of a live system's own history under other policies, tuners and hardware.

Run as `python -m flyball.web.whatif_run` beside the control plane: it reads the request as JSON
from its standard input, and prints a line of JSON for each run that is done, then one with the
result.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from flyball.app import policy_settings
from flyball.control.jobs.request import cluster_of, nodes_of
from flyball.control.journal.export import demand_of, to_workload
from flyball.control.journal.history import History
from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput, FlyballError
from flyball.core.events import Opened
from flyball.core.jobs import Job
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.experiments.replay import Run, run_all
from flyball.experiments.report import policy_rows, report_json
from flyball.experiments.request import Reading, ReplayOptions, prepare
from flyball.experiments.tuning.options import TuningOptions

FEW_JOBS = 20


@dataclass(frozen=True)
class Question:
    """What a user wants to know.

    Attributes:
        journal: the file of the journal.
        since_s, until_s: jobs submitted within this span; 0 = without limit.
        policies: separated by commas; the first one is compared with.
        tuners: separated by commas; "" = none.
        device: another type of device; "" = the nodes' own.
        nodes: the number of nodes, relative to the present one.
        budget_w: limit of the power of all nodes; 0 = none.
        seeds: runs per policy; more than one gives intervals where something is random.
        noise: spread of the errors of estimates (sigma of their logarithm); 0 = as stated.
    """

    journal: str
    since_s: float = 0.0
    until_s: float = 0.0
    policies: str = "easy"
    tuners: str = ""
    device: str = ""
    nodes: float = 1.0
    budget_w: float = 0.0
    seeds: int = 1
    noise: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def changed_cluster(cluster: Cluster, question: Question) -> Cluster:
    """Return the cluster with the hardware and the budget that are asked about."""
    groups = tuple(
        replace(
            group,
            device=question.device or group.device,
            count=max(1, round(group.count * question.nodes)),
        )
        for group in cluster.groups
    )
    return replace(cluster, groups=groups, power_budget_w=question.budget_w)


def history_of(question: Question, notes: list[str]) -> tuple[Cluster, Workload]:
    """Return the present nodes as a cluster, and the jobs of the span.

    Raises:
        BadInput: no job ran in the span.
    """
    since_us, until_us = to_us(question.since_s), to_us(question.until_s)

    def is_within(job: Job) -> bool:
        return job.submit_us >= since_us and (not until_us or job.submit_us < until_us)

    with History(question.journal) as history:
        opened: Opened = history.last_opened()[1]
        demand = demand_of(opened)
        jobs = [job for job in history.every_job() if is_within(job)]
    try:
        workload = to_workload(jobs, demand.device, demand.of, notes)
    except BadInput as error:
        raise BadInput("no job ran and ended in this span", "choose a longer one") from error
    return cluster_of(nodes_of(opened), opened.cluster, opened.budget_w), workload


def answer(question: Question) -> dict[str, Any]:
    """Replay, print the progress, and return the result."""
    notes: list[str] = []
    cluster, workload = history_of(question, notes)
    policies = policy_settings(question.policies, [])
    tuning = TuningOptions(tune=question.tuners or None)
    reading = Reading(estimates=f"noisy:{question.noise:g}" if question.noise else "trace")
    options = ReplayOptions(reading, tuning, question.seeds, skip_unfit=True)
    other = changed_cluster(cluster, question)
    case = prepare(workload, other, policies, options).case
    count = len(case.tasks())
    done = 0

    def report(run: Run) -> None:
        nonlocal done
        done += 1
        _print({"done": done, "of": count, "policy": run.policy})

    _print({"done": 0, "of": count, "policy": ""})
    runs = run_all(case, 1, report)
    result = report_json(runs, case)
    result["rows"] = policy_rows(runs, case)
    result["notes"] = [*notes, *result.get("notes", [])]
    if len(workload) < FEW_JOBS:
        result["notes"].append(f"only {len(workload)} jobs: differences say little")
    return result


def _print(row: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, default=float) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Answer the question on the standard input; return the exit code."""
    try:
        _print({"result": answer(Question(**json.load(sys.stdin)))})
    except FlyballError as error:
        _print({"error": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
