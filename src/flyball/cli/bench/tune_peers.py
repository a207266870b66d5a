"""`flyball bench tune --only peers`: completion on the ground of Sia and Pollux, beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flyball.cli.long_run import kept_results
from flyball.cli.output import note, print_json, print_table
from flyball.cli.progress import progress

PEERS = "peers"
"""Name of the part."""
HEADER = (
    *("workload", "policy", "mean s", "theirs", "theirs s", "change %", "p99 s", "theirs p99 s"),
    *("restarts a job", "most"),
)


def peers(
    costs: str | None,
    families: tuple[str, ...],
    numbers: tuple[int, ...],
    durations: str | None,
    seeds: int,
    speed_error: float,
    policy: str | None,
    workers: int,
    resume: Path | None,
    as_json: bool,
) -> None:
    """Run and print the comparison.

    Args:
        costs: name of a peer; None = both.
        families, numbers: of workloads; none = those with published figures.
        durations: what policies know of run times; None = of jobs that ended.
        seeds: draws of errors.
        speed_error: spread of the errors of the speeds that tuners are given.
        policy: arms, separated by commas; None = the usual ones.
        workers: processes at most; 0 = one per core.
        resume: keeps finished runs.
        as_json: print JSON.
    """
    from flyball.app import warm
    from flyball.core.metrics import without_nan
    from flyball.experiments.peers.arms import check_arms
    from flyball.experiments.peers.compare import PeerPlan, measure, rows_of

    chosen: dict[str, Any] = {"families": families, "numbers": numbers, "seeds": seeds}
    chosen["speed_error"] = speed_error
    if costs is not None:
        chosen["peers"] = (costs,)
    if durations is not None:
        chosen["durations"] = durations
    if policy is not None:
        chosen["arms"] = tuple(name for name in policy.split(",") if name)
        check_arms(chosen["arms"])
    plan = PeerPlan(**chosen)
    plan.check()
    with kept_results(resume, "tune") as runs:
        warm(note)
        with progress("measuring", len(plan.tasks()), as_json) as advance:
            results = measure(plan, runs, advance, workers or None)
    rows = rows_of(plan, results)
    if as_json:
        print_json({"rows": without_nan(rows)})
        return
    title = "Completion beside theirs (change of the mean with its paired 95 % interval)"
    print_table(title, HEADER, [_cells(row) for row in rows], left=2)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a line of the table; the rows over all workloads have no tails."""
    span = "" if row["low"] != row["low"] else f" ({row['low']:+.1f} to {row['high']:+.1f})"
    tails = [f"{row[name]:,.0f}" if name in row else "" for name in ("p99_s", "theirs_p99_s")]
    often = f"{row['mean_restarts']:.1f}" if "mean_restarts" in row else ""
    most = f"{row['most_restarts']:.0f}" if "most_restarts" in row else ""
    means = (f"{row['completion_s']:,.0f}", row["baseline"], f"{row['theirs_s']:,.0f}")
    return (
        row["case"],
        row["policy"],
        *means,
        f"{row['change_pct']:+.1f}{span}",
        *tails,
        often,
        most,
    )
