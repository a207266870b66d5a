"""`flyball learn compare`: everything on the same held-out set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.long_run import Resume, kept_results
from flyball.cli.options import CLUSTER_HELP, AsJson
from flyball.cli.output import check_writable, note, print_json, print_table, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.experiments.learning.arms import Arm
    from flyball.experiments.learning.compare import Compared, Plan

EXAMPLES = """\b
Examples:
  flyball learn compare --runs runs --resume compare.jsonl
  flyball learn compare --policy runs/linear/policy.safetensors --share 0.3
  flyball learn compare --runs runs --groups 'half load,other' --energy 0 --json
  flyball learn compare --runs runs --history ~/.local/state/flyball -c mine.yaml
\b
Needs FLYBALL_DATA (recorded prices, carbon intensities and Philly's jobs), except with --history.
Objective: mean completion time x cost of energy (--energy 1); --energy 0 is completion alone.
"""


def compare(
    runs: Annotated[
        Path | None, typer.Option(help="Folder of training runs; each becomes an arm.")
    ] = None,
    policy: Annotated[
        list[Path] | None, typer.Option(help="A policy file besides; may be repeated.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(help="Judge on the last 20 % of your own history instead. Needs --cluster."),
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help=CLUSTER_HELP)] = None,
    share: Annotated[
        float, typer.Option(help="Part of the held-out set to run, e.g. 0.3; 1 = all of it.")
    ] = 1.0,
    groups: Annotated[
        str, typer.Option(help="Some of these groups of instances, separated by commas.")
    ] = "half load,held out,philly,other",
    energy: Annotated[
        float, typer.Option(help="Weight of the cost of energy beside 1 for completion time.")
    ] = 1.0,
    look_aheads: Annotated[
        int, typer.Option(help="Instances on which sampled look-ahead runs too; 0 = none.")
    ] = 10,
    epoch_s: Annotated[float, typer.Option(help="Virtual seconds between two actions.")] = 1800.0,
    workers: Annotated[int, typer.Option(help="Processes; 0 = one per core.")] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the curves of --runs: a .png, .svg or .pdf file.")
    ] = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies with the rules they have to beat, on what neither has seen."""
    # 1. Refuse what can be refused before the long part.
    whole_number(workers, "--workers", 0, 1024)
    whole_number(look_aheads, "--look-aheads", 0, 1000)
    if not 0 < share <= 1:
        raise BadInput(f"--share {share:g} is out of range", "use more than 0, at most 1")
    if not 0 <= energy <= 10:
        raise BadInput(f"--energy {energy:g} is out of range", "use 0 to 10")
    if not 300 <= epoch_s <= 1800:
        raise BadInput(f"--epoch-s {epoch_s:g} is out of range", "use 300 to 1800")
    if (history is None) != (cluster is None):
        raise BadInput("--history and --cluster go together", "give both, or neither")
    check_writable(figure, (".png", ".svg", ".pdf"))
    from flyball.app import warm
    from flyball.experiments.learning import compare as comparing

    arms = _arms(runs, policy or [], look_aheads)
    chosen = [group.strip() for group in groups.split(",") if group.strip()]
    plan = _plan(arms, history, cluster, (share, chosen), energy, epoch_s)
    # 2. Run what is not on record.
    warm(note)
    with kept_results(resume, "learn-compare") as kept:
        label = f"comparing {len(arms)} on {len(plan.instances)}"
        with progress(label, len(plan.tasks()), as_json) as advance:
            compared = comparing.run(plan, kept, advance, workers or None)
    # 3. Report.
    if figure is not None and runs is not None:
        from flyball.learn.training.curves import plot
        from flyball.learn.training.folder import CURVE

        plot([path.parent for path in sorted(runs.glob(f"*/{CURVE}"))], figure)
    content = _content(compared)
    if as_json:
        print_json(content)
    else:
        _print(content, compared)


def _arms(runs: Path | None, files: list[Path], look_aheads: int) -> list[Arm]:
    """Return every arm: standing ones, trained ones, the policy that ships, files."""
    from flyball.experiments.learning import arms
    from flyball.learn.policy.artifact import shipped

    out = arms.standing_arms(look_aheads)
    if runs is not None:
        out += arms.trained_arms(runs)
    if shipped().exists():
        files = [shipped(), *files]
    for path in files:
        name = arms.SHIPPED if path == shipped() else str(path)
        out.append(arms.file_arm(name, path))
        out += arms.served_arms(out[-1])
    return out


def _plan(
    arms: list[Arm], history: Path | None, cluster: str | None,
    part: tuple[float, list[str]], energy: float, epoch_s: float,
) -> Plan:  # fmt: skip
    from flyball.experiments.learning.compare import Plan
    from flyball.experiments.learning.instances import Instance, all_instances, history_problems

    if history is None or cluster is None:
        return Plan(tuple(all_instances(*part)), tuple(arms), epoch_s, energy)
    from flyball.experiments.learning.history import read_history

    problems = history_problems(read_history(history, cluster, note), energy)
    instances = tuple(Instance("history", "history", at) for at in range(len(problems)))
    return Plan(instances, tuple(arms), epoch_s, energy, tuple(problems))


def _content(compared: Compared) -> dict[str, Any]:
    from dataclasses import asdict

    from flyball.experiments.learning import compare as comparing
    from flyball.experiments.learning.arms import GUARDED, INCUMBENT, LOCAL
    from flyball.experiments.learning.mission import mission_rows

    heuristic, best = comparing.best_heuristic(compared), comparing.winner(compared)
    return {
        "objective": "mean completion time x cost of energy"
        if compared.plan.energy
        else "mean completion time",
        "energy": compared.plan.energy,
        "instances": [asdict(one) for one in compared.plan.instances],
        "from_incumbent": comparing.rows(compared, compared.arm(INCUMBENT)),
        "best_heuristic": compared.plan.arms[heuristic].name,
        "from_heuristic": comparing.rows(compared, heuristic),
        "winner": compared.plan.arms[best].name,
        "verdict": comparing.verdict(compared, best, heuristic),
        "served": [
            comparing.verdict(compared, at, heuristic)
            for at, arm in enumerate(compared.plan.arms)
            if arm.kind in (GUARDED, LOCAL)
        ],
        "phases": comparing.phases(compared),
        "mission": mission_rows(compared, ("dqn", "pg", "hybrid", "hybrid-mlp")),
    }


def _print(content: dict[str, Any], compared: Compared) -> None:
    groups = list(compared.groups())
    for title, rows in (
        ("Change from the incumbent (tuned), %; less is better", content["from_incumbent"]),
        (
            f"Change from the best heuristic here ({content['best_heuristic']}), %",
            content["from_heuristic"],
        ),
    ):
        header = ("arm", "group", "n", "mean", "95 %", "median", "95 %", "completion", "cost")
        ordered = sorted(rows, key=lambda row: groups.index(row["group"]))
        print_table(title, header, [_cells(row) for row in ordered], 2)
    if content["mission"]:
        columns = ("learner", "seeds", "converged", "sample eff.", "spread", "largest", "gain")
        cells = [_mission_cells(row) for row in content["mission"]]
        print_table("Learners; columns are defined in docs/concept/training.md", columns, cells)
    for title, verdict in (
        ("winner", content["verdict"]), *(("served", one) for one in content["served"])
    ):  # fmt: skip
        overall = verdict["overall"]
        if overall is None:
            continue
        typer.echo(
            f"{title}: {verdict['arm']}, {overall['median']:+.1f} % in the median "
            f"({overall['median_low']:+.1f} to {overall['median_high']:+.1f}) against "
            f"{verdict['heuristic']}; "
            + ("meets the bar" if verdict["meets"] else "does not meet the bar of -3 %")
        )
    for row in content["phases"]:
        value = row["objective"]
        typer.echo(
            f"two phases: {row['arm']} against {row['without']}: {value['mean']:+.1f} % "
            f"({value['low']:+.1f} to {value['high']:+.1f}); completion "
            f"{row['completion']['mean']:+.1f}, cost {row['cost']['mean']:+.1f} %"
        )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    value = row["objective"]
    return (
        row["arm"], row["group"], str(value["count"]), f"{value['mean']:+.1f}",
        f"{value['low']:+.1f}..{value['high']:+.1f}", f"{value['median']:+.1f}",
        f"{value['median_low']:+.1f}..{value['median_high']:+.1f}",
        f"{row['completion']['mean']:+.1f}", f"{row['cost']['mean']:+.1f}",
    )  # fmt: skip


def _mission_cells(row: dict[str, Any]) -> tuple[str, ...]:
    def text(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    converged = row["converged_cpu_s"]
    return (
        row["kind"], str(row["seeds"]),
        "-" if converged is None else f"{converged / 60:.1f} cpu-min",
        text(row["sample_efficiency"], ".0%"), text(row["spread"], ".1f"),
        f"{row['largest_devices']} devices", f"{row['gain']:+.1f} %",
    )  # fmt: skip
