"""What really happened, beside the policies: rows, a sentence and JSON of a trace's own history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from flyball.cli.output import print_table
from flyball.core.errors import BadInput, UnknownName
from flyball.core.units import duration_text
from flyball.experiments.recorded import Closeness, Record, closest, over_seeds, record_of
from flyball.experiments.replay import ReplayCase, Run, by_policy

NAME = "recorded"
UNKNOWN = "-"


def check_site_policy(case: ReplayCase, site_policy: str | None) -> None:
    """Refuse a site's policy that is not among those run, or that has nothing to stand beside.

    Raises:
        BadInput: the trace holds no starts, or the record is switched off.
        UnknownName: no such policy in this run.
    """
    if site_policy is None:
        return
    if _record(case) is None:
        why = "holds no starts" if case.with_record else "is not compared (--no-record)"
        raise BadInput(
            f"--site-policy {site_policy}: {case.workloads[0].name} {why}",
            "leave it out, or give a trace with starts and no --load",
        )
    names = [setting.name for setting in case.policies]
    if site_policy not in names:
        raise UnknownName("policy of this run", site_policy, names)


def record_rows(case: ReplayCase, times: int, uses: int) -> tuple[list[list[str]], list[list[str]]]:
    """The first row of the tables of times and of use; none where nothing is on record.

    Args:
        case: what was run.
        times, uses: columns of the two tables.
    """
    record = _record(case)
    if record is None:
        return [], []
    spread = record.completion_s
    cells = [NAME, *map(duration_text, (spread.mean, spread.p50, spread.p95, record.wait_s.mean))]
    in_use = [NAME, _percent(record)]
    return (
        [cells + [UNKNOWN] * (times - len(cells))],
        [in_use + [UNKNOWN] * (uses - len(in_use))],
    )


def record_lines(runs: Sequence[Run], case: ReplayCase, site_policy: str | None) -> list[str]:
    """Which policy comes closest to the record and how close; and the site's own, if named."""
    record, found = _record(case), distances(runs)
    if record is None or not found:
        return []
    nearest = closest(found)
    lines = [f"closest to the record: {nearest}, {_distance(found[nearest])}"]
    if site_policy is not None and site_policy != nearest:
        lines.insert(0, f"the site's own policy: {site_policy}, {_distance(found[site_policy])}")
    if record.jobs < record.of:
        lines.append(f"on record are {record.jobs:,} of {record.of:,} jobs")
    return lines


def print_record(runs: Sequence[Run], case: ReplayCase, site_policy: str | None) -> None:
    """A table of the record of its own, for reports whose columns are others."""
    record = _record(case)
    if record is None:
        return
    cells = (
        *(NAME, duration_text(record.completion_s.mean), duration_text(record.wait_s.mean)),
        _percent(record),
    )
    print_table("What the trace recorded", ("", "completion", "wait", "in use"), [cells])
    for line in record_lines(runs, case, site_policy):
        typer.echo(line)


def record_json(
    runs: Sequence[Run], case: ReplayCase, site_policy: str | None
) -> dict[str, Any] | None:
    """The record, the distance of every policy from it and the nearest one; None without one."""
    record, found = _record(case), distances(runs)
    if record is None or not found:
        return None
    return {
        **record.as_dict(),
        "policies": {name: distance.as_dict() for name, distance in found.items()},
        "closest": closest(found),
        "site_policy": site_policy,
    }


def distances(runs: Sequence[Run]) -> dict[str, Closeness]:
    """How close each policy comes to the record, over its seeds."""
    return {
        name: over_seeds(found)
        for name, of_policy in by_policy(runs).items()
        if (found := [run.closeness for run in of_policy if run.closeness is not None])
    }


def _record(case: ReplayCase) -> Record | None:
    return record_of(case.workloads[0], case.cluster) if case.with_record else None


def _distance(found: Closeness) -> str:
    return (
        f"mean wait {duration_text(found.wait_s)} against {duration_text(found.recorded_wait_s)}; "
        f"starts are off by {duration_text(found.start_error_p50_s)} in the median, "
        f"{duration_text(found.start_error_s)} on average ({found.jobs:,} jobs)"
    )


def _percent(record: Record) -> str:
    known = record.utilisation == record.utilisation  # not NaN
    return f"{100 * record.utilisation:.1f} %" if known else UNKNOWN
