"""`flyball replay` with tuners: against the policy alone, each left out in turn, or a front."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.output import check_writable, note, print_json, print_table, whole_number
from flyball.core.errors import BadInput, FlyballError

if TYPE_CHECKING:
    from flyball.app import PolicySetting, TuningSetting
    from flyball.core.workload import Workload
    from flyball.experiments.pareto import Aim, Point
    from flyball.experiments.replay import ReplayCase, Run
    from flyball.experiments.tuning.tuned import Arms

DEFAULT_POLICY = "easy"
EVERY_S = 60.0
ELASTIC_SHARE = 0.8
POINTS = 24
MAX_POINTS = 1000
PARETO_FILE = Path("pareto.png")
PARETO_TUNERS = "elastic,power"

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
Feedback = Annotated[
    bool,
    typer.Option(
        "--optimise", help="Follow each tuner only as far as its predicted gains come true."
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
Without = Annotated[
    str | None,
    typer.Option(help="Measure what each of these tuners adds, by leaving it out; or `all`."),
]
Pareto = Annotated[
    str | None,
    typer.Option(help="Trade off two aims by the tuners' settings, e.g. energy,completion."),
]
ParetoPoints = Annotated[int | None, typer.Option(help="Settings to try. [default: 24]")]
Adjustments = Annotated[
    Path | None, typer.Option(help="Write what the tuners did, and why, to this .jsonl file.")
]


@dataclass(frozen=True)
class TuningOptions:
    """Holds the options on tuning as they were given; None = not given."""

    tune: str | None = None
    every_s: float | None = None
    settings: tuple[str, ...] = ()
    feedback: bool = False
    elastic_share: float | None = None
    adaptive_batch: bool = False
    share_limit: int | None = None
    speed_error: float | None = None
    without: str | None = None
    pareto: str | None = None
    points: int | None = None
    adjustments: Path | None = None
    forecast: bool | None = None

    @property
    def tuned(self) -> bool:
        """Return whether any tuner runs."""
        return any(option is not None for option in (self.tune, self.without, self.pareto))

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            BadInput: an option that has no meaning with the others.
        """
        dependent = {
            "--tune-every": self.every_s is not None,
            "--tune-set": bool(self.settings),
            "--optimise": self.feedback,
            "--elastic-share": self.elastic_share is not None,
            "--adaptive-batch": self.adaptive_batch,
            "--share-limit": self.share_limit is not None,
            "--speed-error": self.speed_error is not None,
            "--adjustments": self.adjustments is not None,
            "--forecast": self.forecast is not None,
        }
        for option, is_set in dependent.items():
            if is_set and not self.tuned:
                raise BadInput(f"{option} needs tuners", "add e.g. --tune elastic,power")
        if self.points is not None and self.pareto is None:
            raise BadInput("--pareto-points needs --pareto", "add e.g. --pareto energy,completion")
        if self.without is not None and self.pareto is not None:
            raise BadInput("--without and --pareto do not go together", "use one of them")
        if self.elastic_share is not None and not 0 <= self.elastic_share <= 1:
            raise BadInput(f"--elastic-share {self.elastic_share:g} is out of range", "use 0 to 1")
        whole_number(self.points or POINTS, "--pareto-points", 2, MAX_POINTS)
        check_writable(self.adjustments)

    def tuning(self) -> TuningSetting:
        """Return the requested tuners, all enabled."""
        from flyball.app import tuning_setting

        default = PARETO_TUNERS if self.pareto is not None else "all"
        every_s = EVERY_S if self.every_s is None else self.every_s
        setting = tuning_setting(self.tune or default, list(self.settings), every_s, self.forecast)
        return replace(setting, feedback=self.feedback)

    def effects(self) -> dict[str, Any]:
        """Return the settings of `Effects` that the tuners need."""
        shares = self.tuned and "share" in self.tuning().names
        if self.share_limit is not None:
            whole_number(self.share_limit, "--share-limit", 1, 64)
            if not shares:
                raise BadInput("--share-limit needs the tuner share", "add it to --tune")
        return {
            "adaptive_batch": self.adaptive_batch,
            "share_limit": self.share_limit or (2 if shares else 1),
            "speed_error": self.speed_error or 0.0,
        }

    def workloads(self, workload: Workload, seeds: int) -> tuple[Workload, ...]:
        """Return a workload per seed, with elastic jobs drawn; one for all if nothing is drawn."""
        from flyball.experiments.tuning.tuned import with_elastic_jobs

        if not self.tuned or "elastic" not in self.tuning().names or workload.most.any():
            return (workload,)
        self._warn_rigid(workload)
        share = ELASTIC_SHARE if self.elastic_share is None else self.elastic_share
        return tuple(with_elastic_jobs(workload, share, seed) for seed in range(seeds))

    def _warn_rigid(self, workload: Workload) -> None:
        from flyball.physics.goodput import growth

        if not any(growth(name, self.adaptive_batch) for name in workload.models):
            note(
                "note: no job's model has a known speed on other numbers of GPUs, so none can be"
                " resized; `elastic` still chooses types"
            )

    def chance(self, workloads: Sequence[Workload]) -> bool:
        """Return whether the seed can make a difference to the tuners."""
        return len(workloads) > 1 or bool(self.speed_error)


# What to run ---------------------------------------------------------------------------


def arms_of(options: TuningOptions, chosen: Sequence[PolicySetting], explicit: bool) -> Arms:
    """Return the policies to run, with and without tuners.

    Args:
        options: the options on tuning.
        chosen: the policies without tuners.
        explicit: the policies were named: one that cannot be tuned is refused, not left out.
    """
    from flyball.experiments.pareto import parse_aims, sweep
    from flyball.experiments.tuning.tuned import Arms, ablation, beside

    tuning = options.tuning()
    if options.without is None and options.pareto is None:
        tunable = chosen if explicit else _tunable(chosen, tuning)
        return beside(tunable, tuning)
    if len(chosen) != 1:
        option = "--without" if options.pareto is None else "--pareto"
        raise BadInput(f"{option} takes one policy, not {len(chosen)}", "e.g. --policy easy")
    if options.without is not None:
        named = [name.strip() for name in options.without.split(",") if name.strip()]
        names = tuning.names if named == ["all"] else list(dict.fromkeys(named))
        return ablation(chosen[0], tuning, names)
    parse_aims(options.pareto or "")
    return Arms(tuple(sweep(chosen[0], tuning, options.points or POINTS)), {}, {})


def _tunable(chosen: Sequence[PolicySetting], tuning: TuningSetting) -> list[PolicySetting]:
    """Return the policies that can be tuned, and print a note on the others."""
    from flyball.app import tuned

    tunable = []
    for policy in chosen:
        try:
            tuned(policy, tuning)
            tunable.append(policy)
        except FlyballError as error:
            note(f"note: {error}")
    return tunable


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
    from flyball.cli.replay import report
    from flyball.cli.replay.record import print_record
    from flyball.experiments.pareto import judged, parse_aims
    from flyball.experiments.tuning.tuned import rows

    head = report.as_json(runs, case, site_policy)
    head["tuning"] = {policy.name: _described(policy) for policy in case.policies}
    if options.pareto is not None:
        aims = parse_aims(options.pareto)
        points = judged(runs, case.policies, aims)
        title = f"{case.policies[0].name}: {report.title(case)}"
        _write_front(figure or PARETO_FILE, points, aims, title)
        if as_json:
            front = [point.as_dict(aims) for point in points]
            print_json({**head, "aims": [aim.name for aim in aims], "rows": front})
        else:
            _print_front(points, aims, report.title(case))
        return
    table = rows(runs, arms)
    if as_json:
        print_json({**head, "rows": table})
    else:
        _print_rows(table, report.title(case), case.seeds > 1)
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


def _described(policy: PolicySetting) -> dict[str, Any] | None:
    """Return the tuners of a policy with all their settings."""
    from flyball.tune.registry import settings

    if policy.tuning is None:
        return None
    tuners = {
        tuner.name: {**settings(tuner.name), **dict(tuner.changed)}
        for tuner in policy.tuning.tuners
    }
    head = {"every_s": policy.tuning.every_s, "optimise": policy.tuning.feedback}
    return {**head, "forecast": policy.tuning.forecast, "tuners": tuners}


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
    from flyball.cli.replay.report import change, number
    from flyball.core.units import duration_text

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
        (row["policy"], row["against"], *(change(row["change"][key], 1) for key in CHANGE_COLUMNS))
        for row in table
        if row["change"]
    ]
    head = ("policy", "against", *CHANGE_COLUMNS.values())
    paired = ", paired by seed, with a 95 % interval" if intervals else ""
    print_table(f"Change in percent{paired}", head, moved, 2)


def _print_front(points: Sequence[Point], aims: tuple[Aim, Aim], title: str) -> None:
    from flyball.cli.replay.report import number

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
