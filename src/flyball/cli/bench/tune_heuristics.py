"""`flyball bench tune-heuristics`: finds the knobs that do best over many scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.bench.compare import ScenarioNames, Workers, show
from flyball.cli.options import AsJson
from flyball.cli.output import check_writable, note, print_json, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from flyball.core.knobs import Knobs
    from flyball.experiments.compare.summary import Comparison
    from flyball.experiments.knob_search.search import Tuned

MAX_SEEDS = 100

EXAMPLES = """\b
Examples:
  flyball bench tune-heuristics --budget 300 --out mine.json
  flyball bench tune-heuristics --scenarios saturated,bursts --seeds 3 --budget 100
  flyball bench tune-heuristics --starts all,tuned:before --no-worse-than tuned:before
  flyball replay jobs.csv -c mine.yaml --policy easy,tuned:mine.json
\b
Training seeds begin at 1000; the result is judged on seeds 0, 1, ..., those of `bench compare`.
`all` leaves out the scenarios that are held out of all tuning (data/held_out.yaml).
"""


def tune_heuristics(
    scenarios: ScenarioNames = "all",
    starts: Annotated[
        str,
        typer.Option(
            help="Policies to start from and compare with, separated by commas, or `all`."
        ),
    ] = "all",
    budget: Annotated[int, typer.Option(help="Settings to try besides the policies' own.")] = 300,
    seeds: Annotated[int, typer.Option(help="Training workloads per scenario.")] = 3,
    held_out: Annotated[int, typer.Option(help="Other workloads to judge the result on.")] = 5,
    no_worse_than: Annotated[
        str | None,
        typer.Option(help="One of --starts: settings that lose to it in a scenario are penalised."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="knob=value for every setting, of a knob that is not searched, e.g. "
            "preempt_starts=16; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the setting here, for --policy tuned:FILE.")
    ] = None,
    search_seed: Annotated[int, typer.Option(help="Seed of the random settings.")] = 0,
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Search the knobs for the best heuristic; judge it on workloads it has not seen."""
    # 1. Refuse what can be refused before the long part.
    whole_number(budget, "--budget", 1, 1_000_000)
    whole_number(seeds, "--seeds", 1, MAX_SEEDS)
    whole_number(held_out, "--held-out", 2, MAX_SEEDS)
    whole_number(search_seed, "--search-seed", 0, 2**31)
    whole_number(workers, "--workers", 0, 1024)
    check_writable(out, (".json",))
    from flyball.app import policy_settings, warm
    from flyball.experiments.held_out import held_out as kept_apart
    from flyball.experiments.held_out import training_scenarios
    from flyball.experiments.knob_search import search as tuning

    chosen = training_scenarios(scenarios)
    fixed = settings or []
    base = _not_searched(fixed)
    policies = [
        p for p in policy_settings(starts, fixed) if p.allocator is None
    ]  # shares are not knobs
    if no_worse_than is not None and no_worse_than not in [p.name for p in policies]:
        raise UnknownName("policy in --starts", no_worse_than, [p.name for p in policies])
    first = kept_apart().first_training_seed
    training = range(first, first + seeds)
    # 2. Search, then judge.
    warm(note)
    with progress("tuning", budget, as_json) as advance:
        tuned = tuning.tune(
            chosen, policies, training, budget, search_seed, workers or None, advance,
            guard=no_worse_than, base=base,
        )  # fmt: skip
    judged = tuning.on_other_seeds(chosen, policies, tuned.knobs, range(held_out), workers or None)
    # 3. Write, then print.
    command = (
        f"flyball bench tune-heuristics --scenarios {scenarios} --starts {starts} "
        f"--budget {budget} --seeds {seeds} --held-out {held_out} --search-seed {search_seed}"
        f"{''.join(f' --set {setting}' for setting in fixed)}"
        f"{f' --no-worse-than {no_worse_than}' if no_worse_than else ''}"
    )
    content = _content(tuned, judged, command, list(training))
    if out is not None:
        _write(out, content)
    if as_json:
        print_json(content)
    else:
        _print(tuned, judged)
    if out is not None:
        note(f"wrote {out}; use it as --policy tuned:{out}")


def _not_searched(settings: list[str]) -> Knobs:
    """Return the default knobs with some that the search leaves alone.

    Raises:
        BadInput: one of them is searched.
    """
    from flyball.core.knobs import Knobs
    from flyball.experiments.knob_search.space import NOT_SEARCHED

    for setting in settings:
        name = setting.partition("=")[0].strip().replace("-", "_")
        if name in Knobs().as_dict() and name not in NOT_SEARCHED:
            raise BadInput(f"knob {name} is searched", f"--set one of {', '.join(NOT_SEARCHED)}")
    return Knobs().with_settings(settings)


def _content(tuned: Tuned, judged: Comparison, command: str, training: list[int]) -> dict[str, Any]:
    """Return the content of the file: the knobs, and how they were found."""
    import datetime

    from flyball.experiments.knob_search.judge import WINNER
    from flyball.schedule.policies.tuned import FORMAT

    return {
        "format": FORMAT,
        "knobs": tuned.knobs.as_dict(),
        "made": {
            "command": command,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "code": judged.code,
            "scenarios": list(judged.scenarios),
            "training_seeds": training,
            "held_out_seeds": judged.seeds,
            "tried": tuned.tried,
            "objective": {"found": tuned.objective, **tuned.starts},
            "held_out": {
                row["policy"]: {
                    "relative": row["relative"],
                    "regret": row["regret"],
                    "percent_from_found": row["change"].get(WINNER),
                }
                for row in judged.overall
            },
        },
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    import json

    from flyball.core.metrics import without_nan
    from flyball.twin.inputs.traces.files import replacing

    with replacing(path) as file:
        file.write(json.dumps(without_nan(content), indent=2, allow_nan=False) + "\n")


def _print(tuned: Tuned, judged: Comparison) -> None:
    from flyball.core.knobs import Knobs
    from flyball.experiments.compare.report import Table, change_table, relative_table

    plain = Knobs().as_dict()
    knobs = [(k, f"{v}") for k, v in tuned.knobs.as_dict().items() if v != plain[k]]
    show(Table("The setting found; other knobs at their default", ("knob", "value"), knobs))
    starts = sorted(tuned.starts.items(), key=lambda item: item[1])
    rows = [(name, f"{value:+.4f}") for name, value in (("found", tuned.objective), *starts)]
    title = "On the training seeds: mean log of the completion time over the best start's"
    show(Table(title, ("policy", "objective"), rows))
    note(f"on {len(judged.seeds)} seeds that the search has not seen:")
    show(relative_table(judged))
    show(change_table(judged))
