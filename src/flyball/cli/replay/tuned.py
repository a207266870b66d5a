"""`flyball replay` with tuners: against the policy alone, each left out in turn, or a front."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.output import note, print_json, print_table
from flyball.core.errors import BadInput
from flyball.core.units import S_PER_DAY, parse_duration_s

if TYPE_CHECKING:
    from flyball.experiments.pareto import Aim, Point
    from flyball.experiments.replay import ReplayCase, Run
    from flyball.experiments.tuning.options import TuningOptions
    from flyball.experiments.tuning.tuned import Arms

PARETO_FILE = Path("pareto.png")
MAX_SLACK_S = 30 * S_PER_DAY

Tune = Annotated[
    str | None,
    typer.Option(help="Also run each policy with these tuners, separated by commas, or `all`."),
]
TuneEvery = Annotated[
    float | None, typer.Option(help="Seconds between two rounds of the tuners. [default: 60]")
]
TuneSet = Annotated[
    list[str] | None,
    typer.Option(help="tuner.setting=value, e.g. elastic.eta=0.7; may be repeated."),
]
Goals = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="GOAL=WEIGHT,...",
        help="What the tuners aim at: work, energy, completion, e.g. completion=1. --tune-set "
        "takes precedence. [default: equal]",
    ),
]
Feedback = Annotated[
    bool,
    typer.Option(
        "--optimise", help="Let power caps slow jobs only as far as they save what was predicted."
    ),
]
ElasticShare = Annotated[
    float | None,
    typer.Option(help="Fraction of jobs that may be resized, drawn by seed. [default: 0.8]"),
]
AdaptiveBatch = Annotated[
    bool, typer.Option("--adaptive-batch", help="Batch sizes follow the number of GPUs.")
]
ShareLimit = Annotated[
    int | None,
    typer.Option(help="Maximum number of jobs on one GPU. [default: 2 with tuner share]"),
]
SpeedError = Annotated[
    float | None, typer.Option(help="Error (log, sigma) of the speeds that tuners see.")
]
UseForecast = Annotated[
    bool | None,
    typer.Option(
        "--forecast/--no-forecast",
        help="Give the tuners the load forecast that a live system would have. "
        "[default: if one of them gains by it]",
    ),
]
Slack = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="How long jobs may be deferred, with the tuner defer: 4h, 1d."
    ),
]
Without = Annotated[
    str | None,
    typer.Option(help="Measure what each of these tuners adds, by leaving it out; or `all`."),
]
Pareto = Annotated[
    str | None,
    typer.Option(help="Trade off two aims by the tuners' settings, e.g. energy,completion."),
]
ParetoPoints = Annotated[int | None, typer.Option(help="Settings to try. [default: 24]")]
Pathways = Annotated[
    str | None,
    typer.Option(
        metavar="SCOPE",
        help="Also run each policy with jobs on the pathways of their classes, with rows by class: "
        "jobs = what belongs to the job; cluster = also knobs and tuners of the leading class.",
    ),
]
FetchShare = Annotated[
    float | None,
    typer.Option(
        help="Part of bandwidth-limited jobs' time in which they fetch data; their pathway takes "
        "it off the devices. [default: 0, not known]"
    ),
]
Adjustments = Annotated[
    Path | None, typer.Option(help="Write what the tuners did, and why, to this .jsonl file.")
]


def slack_s(text: str | None) -> float | None:
    """Return `90m`, `4h`, `1d` or plain seconds in seconds; None if it was not given.

    Raises:
        BadInput: anything else, or more than 30 days.
    """
    if text is None:
        return None
    value = parse_duration_s(text)
    if not 0 <= value <= MAX_SLACK_S:
        raise BadInput(f"--slack {text!r} is not a time up to 30 days", "use e.g. 90m, 4h, 1d")
    return value


# What came of it -----------------------------------------------------------------------


def show(
    options: TuningOptions,
    runs: Sequence[Run],
    case: ReplayCase,
    arms: Arms,
    figure: Path | None,
    as_json: bool,
    site_policy: str | None = None,
) -> None:
    """Print tables or JSON, and write the figure of the front."""
    from flyball.cli.replay.report import print_record
    from flyball.experiments.pareto import judged, parse_aims
    from flyball.experiments.report import title as title_of
    from flyball.experiments.tuning.tuned import by_class, rows, tuned_json

    head = tuned_json(runs, case, site_policy)
    if options.pareto is not None:
        aims = parse_aims(options.pareto)
        points = judged(runs, case.policies, aims)
        title = f"{case.policies[0].name}: {title_of(case)}"
        _write_front(figure or PARETO_FILE, points, aims, title)
        if as_json:
            front = [point.as_dict(aims) for point in points]
            print_json({**head, "aims": [aim.name for aim in aims], "rows": front})
        else:
            _print_front(points, aims, title_of(case))
        return
    table = rows(runs, arms)
    classes = by_class(runs, arms) if case.with_classes else None
    if as_json:
        more = {} if classes is None else {"classes": classes}
        print_json({**head, "rows": table, **more})
    else:
        _print_rows(table, title_of(case), case.seeds > 1)
        if classes is not None:
            _print_classes(classes, case.seeds > 1)
        print_record(runs, case, site_policy)


def write_adjustments(path: Path, runs: Sequence[Run]) -> None:
    """Write a line of JSON per adjustment of the tuners, atomically."""
    from flyball.core.metrics import without_nan
    from flyball.twin.inputs.traces.files import replacing

    with replacing(path) as out:
        for run in runs:
            for adjustment in run.adjustments:
                line = {"policy": run.policy, "seed": run.seed, **adjustment.as_dict()}
                out.write(json.dumps(without_nan(line), allow_nan=False) + "\n")


ROW_COLUMNS = (
    *("policy", "completion", "wait", "work dev-h", "kWh/dev-h", "in use"),
    *("preempted (times)", "finish fairness p95 (x)"),
)
CHANGE_COLUMNS = {
    "completion_s": "completion",
    "wait_s": "wait",
    "work_per_window": "work",
    "energy_per_work": "energy per work",
}


def _print_rows(table: Sequence[dict[str, Any]], title: str, intervals: bool) -> None:
    from flyball.core.units import duration_text
    from flyball.experiments.report import change_text, number

    cells = [
        (
            row["policy"],
            duration_text(row["completion_s"]),
            duration_text(row["wait_s"]),
            number(row["work_per_window"]),
            number(row["energy_per_work"]),
            f"{100 * row['utilisation']:.1f} %",
            f"{row['preemptions']:,.0f}",
            number(row["finish_fairness_p95"]),
        )
        for row in table
    ]
    print_table(title, ROW_COLUMNS, cells)
    moved = [
        (
            row["policy"],
            row["against"],
            *(change_text(row["change"][key], 1) for key in CHANGE_COLUMNS),
        )
        for row in table
        if row["change"]
    ]
    head = ("policy", "against", *CHANGE_COLUMNS.values())
    paired = ", paired by seed, with a 95 % interval" if intervals else ""
    print_table(f"Change in percent{paired}", head, moved, 2)


CLASS_COLUMNS = {"completion_s": "completion", "wait_s": "wait", "wait_p95_s": "wait p95"}


def _print_classes(table: Sequence[dict[str, Any]], intervals: bool) -> None:
    from flyball.core.units import duration_text
    from flyball.experiments.report import change_text

    cells = []
    for row in table:
        change = row["change"] or {}
        texts = [
            duration_text(row[key]) + (f"  {change_text(change[key])} %" if key in change else "")
            for key in CLASS_COLUMNS
        ]
        cells.append((row["class"], row["pathway"], f"{row['jobs']:,}", row["policy"], *texts))
    paired = ", paired by seed, with a 95 % interval" if intervals else ""
    head = ("class", "pathway", "jobs", "policy", *CLASS_COLUMNS.values())
    print_table(f"By class, with the change by its pathway in percent{paired}", head, cells, 4)


def _print_front(points: Sequence[Point], aims: tuple[Aim, Aim], title: str) -> None:
    from flyball.experiments.report import number

    keys = list(points[-1].settings)
    order = sorted(points, key=lambda point: (not point.on_front, aims[0].cost(point.values[0])))
    cells = [
        (
            point.name,
            ", ".join(_marks(point)),
            *(f"{point.settings[key]:g}" if key in point.settings else "" for key in keys),
            *(number(value) for value in point.values),
            _weights(point.weights),
        )
        for point in order
    ]
    header = ("policy", "", *keys, *(aim.label for aim in aims), f"best if {aims[0].name} weighs")
    print_table(title, header, cells, 2)


def _marks(point: Point) -> list[str]:
    marks = {"front": point.on_front, "not tuned": not point.settings}
    return [mark for mark, holds in marks.items() if holds]


def _weights(weights: tuple[float, float] | None) -> str:
    if weights is None:
        return ""
    low, high = weights
    return f"{low:g}" if low == high else f"{low:g} .. {high:g}"


def _write_front(path: Path, points: Sequence[Point], aims: tuple[Aim, Aim], title: str) -> None:
    from flyball.experiments.pareto_figure import pareto_figure
    from flyball.twin.inputs.traces.files import replacing

    image = pareto_figure(points, aims, title, path.suffix[1:].lower())
    with replacing(path) as out:
        out.buffer.write(image)
    note(f"figure: {path}")


def goal_settings(weights: str | None, tune: str | None, tune_set: list[str] | None) -> list[str]:
    """Return settings of the tuners: those of the weights, then those that somebody changed.

    Raises:
        BadInput: weights that are not understood, or without a tuner that they change.
    """
    if weights is None:
        return tune_set or []
    from flyball.tune.registry import BUILT_IN
    from flyball.tune.weight_settings import weight_settings

    names = BUILT_IN if tune == "all" else [name.strip() for name in (tune or "").split(",")]
    return [*weight_settings(weights, names), *(tune_set or ())]
