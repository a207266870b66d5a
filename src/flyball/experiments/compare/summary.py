"""Summarises the runs of scenarios x policies x seeds, and reads and writes the summary.

`compare.json` is a JSON object (see `docs/guide/compare.md`); `load_comparison` reads it again.
Completion times are averaged as logarithms, over seeds and over scenarios: a scenario with long
jobs then weighs as much as one with short jobs, and "10 % better" counts the same everywhere.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from flyball.core.errors import BadInput, UnknownName
from flyball.core.intervals import paired
from flyball.core.metrics import Spread, Summary, without_nan
from flyball.experiments.compare.fairness import fairness_rows
from flyball.experiments.compare.runs import ComparePlan, code_version
from flyball.experiments.replay import Run, differences
from flyball.experiments.run_file import Record

FORMAT = 1
BASELINE = "fifo-skip"
MEANS = (
    *("makespan_s", "slowdown_p95", "utilisation", "energy_kwh", "cost", "preemptions"),
    *("fairness_jain", "finish_fairness_p95", "moves"),
)


@dataclass(frozen=True)
class Comparison:
    """Holds the content of `compare.json`, key by key.

    Attributes:
        format: of the file.
        code: version of the package and digest of the sources that ran.
        baseline: the policy that comes first in `against`.
        against: the policies that every other is compared with, where present: the
            baseline, strict FIFO, EASY and tuned heuristics.
        seeds: of each scenario.
        scenarios: by name: about, cluster, devices, jobs, `bounds` with a row a seed, and where
            unfit jobs were skipped `left_out`, their number by reason.
        policies: by name: the knobs.
        results: a row per scenario, policy and seed: every metric, and `regret`.
        means: a row per scenario and policy: means over the seeds; `relative` is the completion
            time over that of the scenario's best policy.
        changes: a row per scenario, policy and policy of `against`: paired differences with 95 %
            intervals, as in `flyball replay --json`.
        overall: a row per policy, best first: `relative` and `regret` over all scenarios, and
            `change` in percent (mean, low, high) from each policy of `against`, paired by seed.
        fairness: a row per policy: finish-time fairness of the jobs of all runs together, and
            preemptions and moves of single jobs; empty in files of older versions.
    """

    format: int
    code: str
    baseline: str
    against: list[str]
    seeds: list[int]
    scenarios: dict[str, dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    results: list[dict[str, Any]]
    means: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    overall: list[dict[str, Any]]
    fairness: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes None."""
        plain: dict[str, Any] = without_nan(asdict(self))
        return plain

    def mean(self, scenario: str, policy: str) -> dict[str, Any]:
        """Return the row of `means`."""
        rows = self.means
        return next(r for r in rows if r["scenario"] == scenario and r["policy"] == policy)


def load_comparison(path: Path | str) -> Comparison:
    """Read the comparison in a file, or in the `compare.json` of a folder.

    Raises:
        BadInput: no such file, or not one of this layout.
    """
    path = Path(path)
    path = path / "compare.json" if path.is_dir() else path
    remedy = "make one with `flyball bench compare`"
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", remedy) from None
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}", remedy) from None
    names = [item.name for item in fields(Comparison)]
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(f"{path} is not a comparison of format {FORMAT}", remedy)
    missing = [name for name in names if name not in content and name != "fairness"]
    if missing:
        raise BadInput(f"{path} has no {missing[0]!r}", remedy)
    return Comparison(**{name: content[name] for name in names if name in content})


def compare(plan: ComparePlan, records: Sequence[Record], baseline: str = BASELINE) -> Comparison:
    """Summarise the runs of a plan.

    Args:
        plan: that was run.
        records: of all its runs.
        baseline: a policy of the plan.

    Raises:
        UnknownName: the baseline is not one of the plan's policies.
    """
    names = [policy.name for policy in plan.policies]
    against = baselines(names, baseline)
    runs = {scenario.name: _runs(scenario.name, names, records) for scenario in plan.scenarios}
    bounds = {
        (record["scenario"], record["seed"]): record["bounds"]
        for record in records
        if "bounds" in record
    }
    logs = _Logs(runs)
    return Comparison(
        format=FORMAT,
        code=code_version(),
        baseline=baseline,
        against=against,
        seeds=list(plan.seeds),
        scenarios=_scenarios(plan, records),
        policies={policy.name: policy.knobs.as_dict() for policy in plan.policies},
        results=_results(runs, bounds),
        means=_means(runs, bounds, logs),
        changes=_changes(runs, against),
        overall=_overall(names, against, runs, bounds, logs),
        fairness=fairness_rows(names, records),
    )


def baselines(policies: Sequence[str], baseline: str) -> list[str]:
    """Return what every policy is compared with: the baseline, strict FIFO, EASY and tuned ones.

    Raises:
        UnknownName: the baseline is not one of the policies.
    """
    if baseline not in policies:
        raise UnknownName("baseline among the policies compared:", baseline, policies)
    others = [name for name in policies if name in ("fifo", "easy") or name.startswith("tuned")]
    return [baseline, *(name for name in others if name != baseline)]


Runs = dict[str, dict[str, list[Run]]]  # by scenario and policy, in the order of the seeds
BoundsBySeed = dict[tuple[str, int], dict[str, float]]


class _Logs:
    """Holds log completion times by scenario, policy and seed."""

    def __init__(self, runs: Runs) -> None:
        self._logs = {
            (scenario, policy): [
                math.log(max(r.summary.completion_s.mean, 1e-6)) for r in policy_runs
            ]
            for scenario, by_policy in runs.items()
            for policy, policy_runs in by_policy.items()
        }
        self._best = {
            scenario: min(fmean(self._logs[scenario, policy]) for policy in by_policy)
            for scenario, by_policy in runs.items()
        }
        self._scenarios = list(runs)

    def relative(self, scenario: str, policy: str) -> float:
        """Return the completion time over the best policy's in this scenario."""
        return math.exp(fmean(self._logs[scenario, policy]) - self._best[scenario])

    def by_seed(self, policy: str) -> list[float]:
        """Return means over the scenarios, for each seed."""
        logs = (self._logs[scenario, policy] for scenario in self._scenarios)
        return [fmean(values) for values in zip(*logs, strict=True)]


def _runs(
    scenario: str, policies: Sequence[str], records: Sequence[Record]
) -> dict[str, list[Run]]:
    """Return the runs of a scenario by policy, from their records."""
    runs: dict[str, list[Run]] = {name: [] for name in policies}
    for record in records:
        if record["scenario"] == scenario and "summary" in record:
            summary = summary_of(record["summary"])
            run = Run(record["policy"], record["seed"], summary, record["run_s"])
            runs[run.policy].append(run)
    return runs


def summary_of(plain: dict[str, Any]) -> Summary:
    """Return the summary that `Summary.as_dict` wrote."""
    values: dict[str, Any] = {}
    optional = {entry.name for entry in fields(Summary) if entry.default is None}
    for name, value in plain.items():
        if value is None and name in optional:
            continue
        part = {k: _number(v) for k, v in value.items()} if isinstance(value, dict) else None
        values[name] = _number(value) if part is None else Spread(**part)
    return Summary(**values)


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def _scenarios(plan: ComparePlan, records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Describe each scenario, with its lower bounds."""
    out: dict[str, dict[str, Any]] = {}
    for scenario in plan.scenarios:
        cluster = scenario.make_cluster()
        rows = [r for r in records if r["scenario"] == scenario.name and "bounds" in r]
        out[scenario.name] = {
            "about": scenario.about,
            "cluster": cluster.name,
            "devices": cluster.device_count,
            "jobs": scenario.jobs,
            "load": scenario.load,
            "bounds": [{"seed": row["seed"], **row["bounds"]} for row in rows],
        }
        if plan.must_fit:
            out[scenario.name]["left_out"] = left_out(scenario.name, records)
    return out


def left_out(scenario: str, records: Sequence[Record]) -> dict[str, int]:
    """Return how many jobs of a scenario were left out over all seeds, by the reason."""
    counts: Counter[str] = Counter()
    for record in records:
        if record["scenario"] == scenario:
            counts.update(record.get("left_out", {}))
    return dict(counts)


def _regret(run: Run, scenario: str, bounds: BoundsBySeed) -> float:
    best_s = bounds[scenario, run.seed]["best_s"]
    return run.summary.completion_s.mean / best_s - 1 if best_s else math.nan


def _results(runs: Runs, bounds: BoundsBySeed) -> list[dict[str, Any]]:
    return [
        {"scenario": scenario, **run.as_dict(), "regret": _regret(run, scenario, bounds)}
        for scenario, by_policy in runs.items()
        for policy_runs in by_policy.values()
        for run in policy_runs
    ]


def _means(runs: Runs, bounds: BoundsBySeed, logs: _Logs) -> list[dict[str, Any]]:
    rows = []
    for scenario, by_policy in runs.items():
        for policy, policy_runs in by_policy.items():
            summaries = [run.summary for run in policy_runs]
            rows.append(
                {
                    "scenario": scenario,
                    "policy": policy,
                    "relative": logs.relative(scenario, policy),
                    "regret": fmean(_regret(run, scenario, bounds) for run in policy_runs),
                    "completion_s": fmean(s.completion_s.mean for s in summaries),
                    "completion_p95_s": fmean(s.completion_s.p95 for s in summaries),
                    "wait_s": fmean(s.wait_s.mean for s in summaries),
                    **{name: fmean(getattr(s, name) for s in summaries) for name in MEANS},
                    "run_s": fmean(run.run_s for run in policy_runs),
                }
            )
    return rows


def _changes(runs: Runs, against: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for scenario, by_policy in runs.items():
        for base in against:
            first = by_policy[base]
            others = [run for name in by_policy if name != base for run in by_policy[name]]
            for gap in differences([*first, *others]):
                rows.append({"scenario": scenario, **gap})
    return rows


def _overall(
    names: Sequence[str], against: Sequence[str], runs: Runs, bounds: BoundsBySeed, logs: _Logs
) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        relatives = [math.log(logs.relative(scenario, name)) for scenario in runs]
        regrets = [fmean(_regret(r, s, bounds) for r in runs[s][name]) for s in runs]
        change = {
            base: [_percent(log) for log in paired(logs.by_seed(name), logs.by_seed(base))]
            for base in against
            if base != name
        }
        relative = math.exp(fmean(relatives))
        rows.append(
            {"policy": name, "relative": relative, "regret": fmean(regrets), "change": change}
        )
    return sorted(rows, key=lambda row: row["relative"])


def _percent(log: float) -> float:
    return 100 * (math.exp(log) - 1)
