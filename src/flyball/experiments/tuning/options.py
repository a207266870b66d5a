"""What a user asks of tuners in a replay: which, how often, beside or instead of what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flyball.app import PolicySetting, TuningSetting, tuned, tuning_setting
from flyball.core.errors import BadInput, FlyballError, whole_number
from flyball.core.workload import Workload
from flyball.experiments.pareto import parse_aims, sweep
from flyball.experiments.tuning.tuned import Arms, ablation, beside, with_elastic_jobs
from flyball.physics.goodput import growth
from flyball.tune.pathway_scope import Scope, scope_of

DEFAULT_POLICY = "easy"
EVERY_S = 60.0
ELASTIC_SHARE = 0.8
POINTS = 24
MAX_POINTS = 1000
PARETO_TUNERS = "elastic,power"


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
    watch: bool = False  # whether to write down what tuners do
    forecast: bool | None = None
    slack_s: float | None = None
    pathways: str | None = None
    fetch_share: float | None = None

    @property
    def tuned(self) -> bool:
        """Return whether any tuner runs."""
        return any(option is not None for option in (self.tune, self.without, self.pareto))

    @property
    def scope(self) -> Scope:
        """Return how far class pathways are followed.

        Raises:
            UnknownName: there is no such scope.
        """
        return Scope.OFF if self.pathways is None else scope_of(self.pathways, Scope.JOBS)

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
            "--adjustments": self.watch,
            "--forecast": self.forecast is not None,
            "--slack": self.slack_s is not None,
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
        self._check_pathways()

    def _check_pathways(self) -> None:
        """Check the options on class pathways."""
        scope = self.scope
        if scope != Scope.OFF and (self.without is not None or self.pareto is not None):
            option = "--without" if self.pareto is None else "--pareto"
            raise BadInput(f"--pathways and {option} do not go together", "use one of them")
        if scope == Scope.CLUSTER and self.tune is not None:
            raise BadInput(
                "--pathways cluster and --tune do not go together: the leading pathway brings "
                "its tuners",
                "leave --tune out, or use --pathways jobs",
            )
        if self.fetch_share is None:
            return
        if scope == Scope.OFF:
            raise BadInput("--fetch-share needs --pathways", "add --pathways jobs")
        if not 0 <= self.fetch_share < 1:
            raise BadInput(f"--fetch-share {self.fetch_share:g} is out of range", "use 0 to 0.99")
        if self.watch:
            raise BadInput(
                "--fetch-share and --adjustments do not go together", "leave one of them out"
            )

    def tuning(self) -> TuningSetting:
        """Return the requested tuners, all enabled."""
        default = PARETO_TUNERS if self.pareto is not None else "all"
        every_s = EVERY_S if self.every_s is None else self.every_s
        setting = tuning_setting(self.tune or default, list(self.settings), every_s, self.forecast)
        if self.feedback and "power" not in setting.names:
            raise BadInput("--optimise needs the tuner power", "add it to --tune")
        return replace(setting, feedback=self.feedback)

    def effects(self) -> dict[str, Any]:
        """Return the settings of `Effects` that the tuners need."""
        shares = self.tuned and "share" in self.tuning().names
        if self.slack_s is not None and "defer" not in self.tuning().names:
            raise BadInput("--slack needs the tuner defer", "add it to --tune")
        if self.share_limit is not None:
            whole_number(self.share_limit, "--share-limit", 1, 64)
            if not shares:
                raise BadInput("--share-limit needs the tuner share", "add it to --tune")
        return {
            "adaptive_batch": self.adaptive_batch,
            "share_limit": self.share_limit or (2 if shares else 1),
            "speed_error": self.speed_error or 0.0,
            "slack_s": self.slack_s or 0.0,
        }

    def workloads(
        self, workloads: Sequence[Workload], seeds: int, notes: list[str]
    ) -> tuple[Workload, ...]:
        """Return a workload per seed, with elastic jobs drawn; one for all if nothing is drawn.

        Args:
            workloads: one per seed, or one for all of them.
            seeds: their number.
            notes: receives a sentence if no job can be resized.
        """
        stated = any(workload.most.any() for workload in workloads)
        if not self.tuned or "elastic" not in self.tuning().names or stated:
            return tuple(workloads)
        models = {name for workload in workloads for name in workload.models}
        if not any(growth(name, self.adaptive_batch) for name in models):
            notes.append(
                "no job's model has a known speed on other numbers of GPUs, so none can be"
                " resized; `elastic` still chooses types"
            )
        share = ELASTIC_SHARE if self.elastic_share is None else self.elastic_share
        return tuple(
            with_elastic_jobs(workloads[seed if len(workloads) > 1 else 0], share, seed)
            for seed in range(seeds)
        )

    def chance(self, workloads: Sequence[Workload]) -> bool:
        """Return whether the seed can make a difference to the tuners."""
        return len(workloads) > 1 or bool(self.speed_error)


def arms_of(
    options: TuningOptions, chosen: Sequence[PolicySetting], explicit: bool, notes: list[str]
) -> Arms:
    """Return the policies to run, with and without tuners.

    Args:
        options: the options on tuning.
        chosen: the policies without tuners.
        explicit: the policies were named: one that cannot be tuned is refused, not left out.
        notes: receives a sentence for every policy that is left out.
    """
    tuning = options.tuning()
    if options.without is None and options.pareto is None:
        tunable = chosen if explicit else _tunable(chosen, tuning, notes)
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


def _tunable(
    chosen: Sequence[PolicySetting], tuning: TuningSetting, notes: list[str]
) -> list[PolicySetting]:
    """Return the policies that can be tuned; the notes say why the others cannot."""
    tunable = []
    for policy in chosen:
        try:
            tuned(policy, tuning)
            tunable.append(policy)
        except FlyballError as error:
            notes.append(str(error))
    return tunable
