"""`flyball learn train`: from nothing to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.learn.extras import require_torch
from flyball.cli.options import CLUSTER_HELP, AsJson
from flyball.cli.output import note, print_json, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.learn.training.kinds import Options
    from flyball.learn.training.train import Trained
    from flyball.learn.training.trainers import Setup

MOST_STEPS = 10**6
PARTS = 100
"""Ticks of the progress bar."""

EXAMPLES = """\b
Examples:
  flyball learn train --minutes 20 --out runs/linear
  flyball learn train --kind hybrid --start runs/rule --minutes 15 --out runs/hybrid-s1
  flyball learn train --kind rule --steps 40 --out runs/rule --seed 2
  flyball learn train --kind linear --start runs/rule --minutes 10 --out runs/linear
  flyball learn train --history ~/.local/state/flyball -c mine.yaml --out runs/mine
  flyball replay jobs.csv -c mine.yaml --policy tuned,learned:runs/mine/policy.safetensors
\b
Kinds: fixed, rule, linear, mlp (evolution), bandit, dqn, pg, hybrid, hybrid-mlp (need torch).
--start: evolution goes on from that policy; an agent learns what to add to it.
Ctrl-C stops after the present step; the same command goes on. The same --seed and --steps
give the same curve.csv and the same weights.
"""


def train(
    out: Annotated[Path, typer.Option(help="Folder of the run; made, or gone on with.")],
    kind: Annotated[str, typer.Option(help="What to train; see below.")] = "linear",
    minutes: Annotated[float, typer.Option(help="Train for so long; all calls count.")] = 20.0,
    steps: Annotated[
        int, typer.Option(help="Train for so many steps (generations, chapters) instead.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 1,
    history: Annotated[
        Path | None,
        typer.Option(help="Your own: the state folder of a server, or a trace. Needs --cluster."),
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help=CLUSTER_HELP)] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="How much worse a figure may become, e.g. fairness=0.1: completion, slo, "
            "fairness, power; may be repeated."
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Begin with the policy of this run: fixed, rule or linear."),
    ] = None,
    epoch_s: Annotated[float, typer.Option(help="Virtual seconds between two actions.")] = 1800.0,
    population: Annotated[int, typer.Option(help="Evolution: policies in a generation.")] = 16,
    problems: Annotated[int, typer.Option(help="Evolution: problems that each runs.")] = 12,
    spread: Annotated[float, typer.Option(help="Evolution: size of the first cloud.")] = 0.25,
    warm: Annotated[
        bool, typer.Option("--warm/--cold", help="Agents: imitate sampled look-ahead first.")
    ] = True,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="setting=value of the agent, e.g. width=96; may be repeated."),
    ] = None,
    validation: Annotated[int, typer.Option(help="Problems that policies are chosen on.")] = 24,
    threads: Annotated[int, typer.Option(help="Of the twins; results do not depend on it.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Train a policy; keep the best one, its curve and its card."""
    # 1. Refuse what can be refused before the long part.
    whole_number(steps, "--steps", 0, MOST_STEPS)
    whole_number(seed, "--seed", 0, 2**31)
    whole_number(population, "--population", 4, 1000)
    whole_number(problems, "--problems", 1, 1000)
    whole_number(validation, "--validation", 2, 1000)
    whole_number(threads, "--threads", 1, 64)
    if not 0 < minutes <= 100_000:
        raise BadInput(f"--minutes {minutes:g} is out of range", "use e.g. 20")
    if not 0 < spread <= 2:
        raise BadInput(f"--spread {spread:g} is out of range", "use e.g. 0.25")
    if not 300 <= epoch_s <= 1800:
        raise BadInput(f"--epoch-s {epoch_s:g} is out of range", "use 300 to 1800")
    if (history is None) != (cluster is None):
        raise BadInput("--history and --cluster go together", "give both, or neither")
    from flyball.learn.training.kinds import Options as KindOptions
    from flyball.learn.training.kinds import find_kind, make_trainer, settings_of

    found = find_kind(kind)
    if found.needs_torch:
        require_torch(f"kind {kind}")
    agent = _agent_settings(settings or [], kind if found.needs_torch else "")
    from flyball.app import warm as warm_kernels
    from flyball.learn.training.curves import plot_run
    from flyball.learn.training.folder import RunFolder
    from flyball.learn.training.limits import parse_limits
    from flyball.learn.training.sources import Drawn, Source
    from flyball.learn.training.train import Budget
    from flyball.learn.training.train import train as run_training
    from flyball.learn.training.trainers import Setup as TrainerSetup

    limits = parse_limits(limit or []).most
    source: Source = Drawn()
    if history is not None and cluster is not None:
        from flyball.experiments.learning.history import read_history

        source = read_history(history, cluster, note)
    setup = TrainerSetup(source, seed, epoch_s, limits, threads)
    options = KindOptions(
        kind, "" if start is None else str(start), population, problems, spread, warm,
        tuple(agent.items()),
    )  # fmt: skip
    trainer = make_trainer(setup, options)
    folder = RunFolder(out, settings_of(setup, options, validation))
    # 2. Train.
    warm_kernels(note)
    with progress(f"training {kind}", PARTS, as_json) as advance:
        ticks = 0

        def report(step: int, part: float, row: Any) -> None:
            nonlocal ticks
            score = row.get("validation", row.get("score", row.get("reward", 0.0)))
            while ticks < int(part * PARTS):
                ticks += 1
                advance(f"step {step}, {score:+.3f}")

        command = _command(setup, options, minutes, steps, validation, history, cluster)
        trained = run_training(
            trainer, setup, folder, Budget(minutes, steps), validation, report,
            {"kind": kind, "command": command},
        )  # fmt: skip
    # 3. Curves, then the result.
    if folder.rows:
        plot_run(out)
    if as_json:
        print_json(_as_dict(trained))
    else:
        _print(trained)


def _agent_settings(texts: list[str], kind: str) -> dict[str, Any]:
    """Return settings of the agent from `name=value` texts.

    Raises:
        BadInput: there is no such setting, or its value is of another type.
    """
    if not texts:
        return {}
    if not kind:
        raise BadInput("--set is of agents only", "leave it out, or use --kind hybrid")
    from flyball.learn.agent import Settings

    plain, out = Settings(), {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in Settings.__dataclass_fields__ or name in ("kind", "body"):
            names = ", ".join(Settings.__dataclass_fields__)
            raise BadInput(f"the agent has no setting {name!r}", f"settings: {names}")
        try:
            out[name] = type(getattr(plain, name))(value)
        except ValueError:
            raise BadInput(f"--set {text}: not a number", "write e.g. width=96") from None
    return out


def _command(
    setup: Setup,
    options: Options,
    minutes: float,
    steps: int,
    validation: int,
    history: Path | None,
    cluster: str | None,
) -> str:
    """Return the command that made the policy, with all that differs from the defaults."""
    words = ["flyball learn train", f"--kind {options.kind}", f"--seed {setup.seed}"]
    words.append(f"--steps {steps}" if steps else f"--minutes {minutes:g}")
    words += [f"--limit {name}={value:g}" for name, value in setup.limits.items()]
    for option, value, default in (
        ("--history", history, None),
        ("--cluster", cluster, None),
        ("--start", options.start, ""),
        ("--epoch-s", setup.epoch_s, 1800.0),
        ("--population", options.population, 16),
        ("--problems", options.problems, 12),
        ("--spread", options.spread, 0.25),
        ("--validation", validation, 24),
    ):
        if value != default:
            words.append(f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}")
    words += [] if options.warm else ["--cold"]
    words += [f"--set {name}={value}" for name, value in options.agent]
    return " ".join(words)


def _as_dict(trained: Trained) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(trained), "folder": str(trained.folder)}


def _print(trained: Trained) -> None:
    import math

    if trained.score is None:
        note("nothing was trained: the budget was used before")
        return
    percent = 100.0 * math.expm1(trained.score)
    typer.echo(
        f"{trained.steps} steps, {trained.epochs:,} epochs, {trained.seconds / 60:.1f} min "
        f"({trained.cpu_s / 60:.1f} of the processor); "
        f"best on validation problems: {percent:+.1f} % of the incumbent's completion x cost"
    )
    if trained.hash:
        typer.echo(f"policy {trained.hash[:12]}, weights {trained.weights[:12]}")
        note(
            f"use it: flyball replay ... --policy tuned,learned:{trained.folder}/policy.safetensors"
        )
    note(f"curve: {trained.folder}/curve.png, curve.csv")
    if trained.interrupted:
        note("stopped early; the same command goes on")
