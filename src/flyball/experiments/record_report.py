"""The trace's recorded history next to the policies: rows, sentences and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flyball.core.errors import BadInput, UnknownName
from flyball.core.units import duration_text
from flyball.experiments.recorded import Closeness, Record, closest, over_seeds, record_of
from flyball.experiments.replay import ReplayCase, Run, by_policy

NAME = "recorded"
UNKNOWN = "-"


def check_site_policy(case: ReplayCase, site_policy: str | None) -> None:
    """Check that the site's policy is one of those run, and that there is a record.

    Raises:
        BadInput: the trace has no start times, or the record is switched off.
        UnknownName: this run has no such policy.
    """
    if site_policy is None:
        return
    if record_of_case(case) is None:
        why = "has no start times" if case.with_record else "is not compared (--no-record)"
        raise BadInput(
            f"--site-policy {site_policy}: {case.workloads[0].name} {why}",
            "leave it out, or give a trace with start times and no --load",
        )
    names = [setting.name for setting in case.policies]
    if site_policy not in names:
        raise UnknownName("policy of this run", site_policy, names)


def record_rows(case: ReplayCase, times: int, uses: int) -> tuple[list[list[str]], list[list[str]]]:
    """Return the first rows of the tables of times and of use; none without a record.

    Args:
        case: what was run.
        times, uses: number of columns of the two tables.
    """
    record = record_of_case(case)
    if record is None:
        return [], []
    spread = record.completion_s
    cells = [NAME, *map(duration_text, (spread.mean, spread.p50, spread.p95, record.wait_s.mean))]
    in_use = [NAME, percent_text(record)]
    return (
        [cells + [UNKNOWN] * (times - len(cells))],
        [in_use + [UNKNOWN] * (uses - len(in_use))],
    )


def record_lines(runs: Sequence[Run], case: ReplayCase, site_policy: str | None) -> list[str]:
    """Return sentences on the policy closest to the record, and on the site's, if named."""
    record, closeness = record_of_case(case), distances(runs)
    if record is None or not closeness:
        return []
    nearest = closest(closeness)
    lines = [f"closest to the record: {nearest}, {_distance(closeness[nearest])}"]
    if site_policy is not None and site_policy != nearest:
        lines.insert(
            0, f"the site's own policy: {site_policy}, {_distance(closeness[site_policy])}"
        )
    if record.jobs < record.of:
        lines.append(f"{record.jobs:,} of {record.of:,} jobs are on record")
    return lines


def record_json(
    runs: Sequence[Run], case: ReplayCase, site_policy: str | None
) -> dict[str, Any] | None:
    """Return the record, every policy's distance to it and the closest; None without a record."""
    record, closeness = record_of_case(case), distances(runs)
    if record is None or not closeness:
        return None
    return {
        **record.as_dict(),
        "policies": {name: distance.as_dict() for name, distance in closeness.items()},
        "closest": closest(closeness),
        "site_policy": site_policy,
    }


def distances(runs: Sequence[Run]) -> dict[str, Closeness]:
    """Return how close each policy comes to the record, over its seeds."""
    return {
        name: over_seeds(seeds)
        for name, of_policy in by_policy(runs).items()
        if (seeds := [run.closeness for run in of_policy if run.closeness is not None])
    }


def record_of_case(case: ReplayCase) -> Record | None:
    """Return the record of the first workload; None if there is none or it is not compared."""
    return record_of(case.workloads[0], case.cluster) if case.with_record else None


def _distance(closeness: Closeness) -> str:
    return (
        f"mean wait {duration_text(closeness.wait_s)} against "
        f"{duration_text(closeness.recorded_wait_s)}; "
        f"starts are off by {duration_text(closeness.start_error_p50_s)} in the median, "
        f"{duration_text(closeness.start_error_s)} on average ({closeness.jobs:,} jobs)"
    )


def percent_text(record: Record) -> str:
    """Return the recorded share of devices in use."""
    measured = record.utilisation == record.utilisation  # not NaN
    return f"{100 * record.utilisation:.1f} %" if measured else UNKNOWN
