"""`flyball bench fairness`: whether sharing a cluster makes a tenant worse off."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball bench fairness
  flyball bench fairness --load 1.1 --policies fair,easy,max-min --seeds 10 --json
"""
DEFAULT_POLICIES = "fifo,fifo-skip,easy,srtf,las,max-min,fair"


def fairness(
    policies: Annotated[
        str, typer.Option(help="Policies, separated by commas, or `all`.")
    ] = DEFAULT_POLICIES,
    load: Annotated[float, typer.Option(help="Load of all tenants on the shared cluster.")] = 0.9,
    seeds: Annotated[int, typer.Option(help="Generated weeks.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare each tenant's completion on a shared cluster with that on its quota's own nodes."""
    from flyball.app import policy_settings
    from flyball.experiments.fairness import run, steps

    whole_number(seeds, "--seeds", 1, 1000)
    if not 0.01 <= load <= 10:
        raise BadInput(f"--load {load}", "use 0.01 to 10")
    chosen = policy_settings(policies, [])
    with progress("replaying", steps(chosen, seeds), as_json) as advance:
        figures = run(chosen, load, seeds, note, advance)
    if as_json:
        print_json(figures)
        return
    header = ("policy", "worst", *figures["tenants"], "jobs' p95", "jobs' worst", "mean (h)")
    rows = [
        (
            row["policy"],
            f"{row['worst']:.2f}",
            *(f"{ratio:.2f}" for ratio in row["by_tenant"]),
            f"{row['job_rho_p95']:.1f}",
            f"{row['job_rho_max']:,.0f}",
            f"{row['completion_h']:.1f}",
        )
        for row in figures["policies"]
    ]
    print_table(
        f"Mean completion shared over alone, load {load:g}, {seeds} weeks; worst of any week, "
        "then the mean by tenant",
        header,
        rows,
    )
